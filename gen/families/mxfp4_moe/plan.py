"""Tiles, shared memory and launches of an MXFP4 mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gen.device import Device
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
COMBINE_THREADS, COMBINE_COLUMNS = 128, 512
"""Threads and columns of a block of the summing kernel."""

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


def _buffers(bucket: Bucket, stages: int) -> tuple[SharedBuffer, ...]:
    return (
        SharedBuffer("weight_tile", (stages, bucket.n, K_BLOCK // 2), 1),
        SharedBuffer("activation_tile", (stages, bucket.m, K_BLOCK), 2),
        SharedBuffer("scale_tile", (stages, bucket.n, K_BLOCK // 32), 1),
    )


def plan(spec: Spec) -> TilePlan:
    """The blocks of a spec. Raises SpecError where one cannot work, with the nearest setting that does."""
    (_, tokens), (_, experts) = bounds(spec.shapes.tokens), bounds(spec.shapes.experts)
    for i, bucket in enumerate(spec.tile.buckets):
        fitting = [s for s in range(2, 13) if shared_bytes(_buffers(bucket, s)) <= SHARED_BYTES_PER_BLOCK]
        field = f"tile.buckets.{i}"
        refuse_oversized(spec, _buffers(bucket, bucket.stages), f"{field}.stages", f"use {max(fitting)}")
        served = min(tokens, bucket.up_to or tokens)
        blocks = max_blocks(served * spec.shapes.topk, experts, bucket.m)
        if blocks > MAX_GRID_Y:
            reason = f"{served} tokens may make {blocks} blocks of {bucket.m} pairs, over CUDA's {MAX_GRID_Y}"
            raise spec.error(f"{field}.m", reason, "use a larger m or fewer tokens")
    largest = max(spec.tile.buckets, key=lambda b: shared_bytes(_buffers(b, b.stages)))
    products = [f"{kernel}_m{bucket.m}" for bucket in spec.tile.buckets for kernel in ("gate_up", "down")]
    return TilePlan(
        template=TEMPLATE,
        kernels=("align", *products, "combine"),
        buffers=_buffers(largest, largest.stages),
        threads=max([align_threads(spec), *(bucket.n for bucket in spec.tile.buckets)]),
        context={
            "topk": spec.shapes.topk,
            "layout": str(spec.layout),
            "features": spec.features,
            "limit": spec.features.limit,
            "align_threads": align_threads(spec),
            "combine_threads": COMBINE_THREADS,
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
    launches = (
        Launch("align", (min(tokens, 1), 1, 1), align_threads(spec)),
        Launch(f"gate_up_m{bucket.m}", (2 * intermediate // bucket.n, blocks, 1), bucket.n),
        Launch(f"down_m{bucket.m}", (hidden // bucket.n, blocks, 1), bucket.n),
        Launch("combine", (tokens, math.ceil(hidden / COMBINE_COLUMNS), 1), COMBINE_THREADS),
    )
    slots = device.sms * device.blocks_per_sm(bucket.n, shared_bytes(_buffers(bucket, bucket.stages)))
    return LaunchPlan(
        plan_splits(
            SplitWord.NONE, tiles=hidden // K_BLOCK, rows=blocks * 2 * intermediate // bucket.n, slots=slots
        ),
        launches,
        {**sizes, "block_tokens": bucket.m, "max_blocks": blocks},
        {
            "sorted_token_ids": Scratch((blocks * bucket.m,), "int32"),
            "expert_ids": Scratch((blocks,), "int32"),
            "num_tokens_post_padded": Scratch((1,), "int32"),
            "h": Scratch((pairs, intermediate), "bfloat16"),
            "rows": Scratch((pairs, hidden), "bfloat16"),
        },
    )
