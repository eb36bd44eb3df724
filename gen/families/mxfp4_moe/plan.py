"""Tiles, shared memory and launches of an MXFP4 mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gen.device import Device
from gen.families.mxfp4_moe.options import Activation
from gen.plan import (
    SHARED_BYTES_PER_BLOCK,
    Launch,
    LaunchPlan,
    Scratch,
    SharedBuffer,
    TilePlan,
    plan_splits,
    refuse_oversized,
    shared_bytes,
)
from gen.values import SplitWord, bounds

if TYPE_CHECKING:
    from gen.families.mxfp4_moe.spec import Bucket, Spec

TEMPLATE = "mxfp4_moe.py.j2"
K_BLOCK = 128
"""k of one stage."""

MIN_ALIGN_THREADS = 256
QUANTIZE_THREADS, QUANTIZE_COLUMNS = 128, 1024
"""Threads and columns of a block of the quantizing kernels."""

COMBINE_THREADS, COMBINE_COLUMNS = 128, 512
"""Threads and columns of a block of the summing kernel."""

MMA = {Activation.BFLOAT16: "HMMA.16816.F32.BF16", Activation.E4M3: "QMMA.SF.16832.F32.E2M1.E4M3.E8"}
"""The tensor-core instruction of sm_120a, as SASS names it."""

BLOCK_SCALING_ARCHS = ("sm_120a", "sm_121a")
"""Architectures with the block-scaled mma.sync (PTX ISA, mma.sync.aligned.kind::mxf8f6f4)."""

MAX_GRID_Y = 65_535
"""CUDA's limit on blocks along y."""


def bucket_of(spec: Spec, tokens: int) -> Bucket:
    """The first bucket that serves so many tokens."""
    return next(b for b in spec.tile.buckets if b.up_to is None or tokens <= b.up_to)


def align_threads(spec: Spec) -> int:
    """Threads of the grouping kernel: whole warps, one thread an expert at least."""
    return max(MIN_ALIGN_THREADS, math.ceil(bounds(spec.shapes.experts)[1] / 32) * 32)


def max_blocks(pairs: int, experts: int, m: int) -> int:
    """The most blocks of m pairs that `pairs` pairs make, however they fall on the experts.

    An expert with c > 0 pairs makes ceil(c / m) ≤ (c + m − 1) / m blocks.
    """
    return (pairs + min(pairs, experts) * (m - 1)) // m


def quantized(spec: Spec) -> bool:
    """Whether activations are e4m3."""
    return spec.dtypes.activation is Activation.E4M3


def _buffers(spec: Spec, bucket: Bucket, stages: int) -> tuple[SharedBuffer, ...]:
    buffers = (
        SharedBuffer("weight_tile", (stages, bucket.n, K_BLOCK // 2), 1),
        SharedBuffer("activation_tile", (stages, bucket.m, K_BLOCK), 1 if quantized(spec) else 2),
        SharedBuffer("scale_tile", (stages, bucket.n, K_BLOCK // 32), 1),
    )
    if not quantized(spec):
        return buffers
    return (*buffers, SharedBuffer("activation_scale_tile", (stages, bucket.m, K_BLOCK // 32), 1))


def plan(spec: Spec) -> TilePlan:
    """The blocks of a spec. Raises SpecError where one cannot work, with the nearest setting that does."""
    (_, tokens), (_, experts) = bounds(spec.shapes.tokens), bounds(spec.shapes.experts)
    for i, bucket in enumerate(spec.tile.buckets):
        fitting = [
            s for s in range(2, 13) if shared_bytes(_buffers(spec, bucket, s)) <= SHARED_BYTES_PER_BLOCK
        ]
        field = f"tile.buckets.{i}"
        refuse_oversized(
            spec, _buffers(spec, bucket, bucket.stages), f"{field}.stages", f"use {max(fitting)}"
        )
        copied = bucket.n // (8 if quantized(spec) else 16)
        if bucket.m % copied:
            reason = f"{bucket.n} threads copy {copied} pairs at a time, which do not divide {bucket.m}"
            raise spec.error(f"{field}.m", reason, f"use {copied} or more, or a smaller n")
        served = min(tokens, bucket.up_to or tokens)
        blocks = max_blocks(served * spec.shapes.topk, experts, bucket.m)
        if blocks > MAX_GRID_Y:
            reason = f"{served} tokens may make {blocks} blocks of {bucket.m} pairs, over CUDA's {MAX_GRID_Y}"
            raise spec.error(f"{field}.m", reason, "use a larger m or fewer tokens")
    largest = max(spec.tile.buckets, key=lambda b: shared_bytes(_buffers(spec, b, b.stages)))
    products = [f"{kernel}_m{bucket.m}" for bucket in spec.tile.buckets for kernel in ("gate_up", "down")]
    return TilePlan(
        template=TEMPLATE,
        kernels=("align", *(("quantize_x", "quantize_h") if quantized(spec) else ()), *products, "combine"),
        buffers=_buffers(spec, largest, largest.stages),
        threads=max([align_threads(spec), *(bucket.n for bucket in spec.tile.buckets)]),
        mma=MMA[spec.dtypes.activation],
        archs=BLOCK_SCALING_ARCHS if quantized(spec) else (),
        context={
            "topk": spec.shapes.topk,
            "layout": str(spec.layout),
            "features": spec.features,
            "limit": spec.features.limit,
            "align_threads": align_threads(spec),
            "combine_threads": COMBINE_THREADS,
            "quantize_threads": QUANTIZE_THREADS,
            "group": spec.dtypes.activation_group,
            "vectors": 8 if quantized(spec) else 16,
            "buckets": spec.tile.buckets,
        },
    )


def launch_plan(
    spec: Spec, sizes: Mapping[str, int], device: Device, splits: int | None = None
) -> LaunchPlan:
    """The launches for run-time sizes `tokens`, `hidden`, `intermediate` and `experts` on a device.

    How pairs fall on experts is device data, so there are blocks for the worst case; those without pairs end
    at once. `splits` changes nothing: k is never split.
    """
    tokens, hidden, intermediate, experts = (
        sizes[name] for name in ("tokens", "hidden", "intermediate", "experts")
    )
    bucket, pairs = bucket_of(spec, tokens), tokens * spec.shapes.topk
    blocks = max_blocks(pairs, experts, bucket.m)
    gate_up = Launch(f"gate_up_m{bucket.m}", (2 * intermediate // bucket.n, blocks, 1), bucket.n)
    down = Launch(f"down_m{bucket.m}", (hidden // bucket.n, blocks, 1), bucket.n)
    products: tuple[Launch, ...] = (gate_up, down)
    scratch = {
        "sorted_token_ids": Scratch((blocks * bucket.m,), "int32"),
        "expert_ids": Scratch((blocks,), "int32"),
        "num_tokens_post_padded": Scratch((1,), "int32"),
        "h": Scratch((pairs, intermediate), "bfloat16"),
        "rows": Scratch((pairs, hidden), "bfloat16"),
    }
    if quantized(spec):
        x_blocks, h_blocks = (math.ceil(columns / QUANTIZE_COLUMNS) for columns in (hidden, intermediate))
        products = (
            Launch("quantize_x", (tokens, x_blocks, 1), QUANTIZE_THREADS),
            gate_up,
            Launch("quantize_h", (pairs, h_blocks, 1), QUANTIZE_THREADS),
            down,
        )
        scratch |= {
            "x_q": Scratch((tokens, hidden), "uint8"),
            "x_scale": Scratch((tokens, hidden // 32), "uint8"),
            "h_q": Scratch((pairs, intermediate), "uint8"),
            "h_scale": Scratch((pairs, intermediate // 32), "uint8"),
        }
    launches = (
        Launch("align", (min(tokens, 1), 1, 1), align_threads(spec)),
        *products,
        Launch("combine", (tokens, math.ceil(hidden / COMBINE_COLUMNS), 1), COMBINE_THREADS),
    )
    slots = device.sms * device.blocks_per_sm(bucket.n, shared_bytes(_buffers(spec, bucket, bucket.stages)))
    return LaunchPlan(
        plan_splits(
            SplitWord.NONE, tiles=hidden // K_BLOCK, rows=blocks * 2 * intermediate // bucket.n, slots=slots
        ),
        launches,
        {**sizes, "block_tokens": bucket.m, "max_blocks": blocks},
        scratch,
    )
