"""Tiles, shared memory and launches of an FP8 block-scaled GEMM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gen.device import Device
from gen.families.fp8_block_gemm.options import Layout, OutType, ScaleType
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
from gen.values import SplitWord

if TYPE_CHECKING:
    from gen.families.fp8_block_gemm.spec import Bucket, Spec

TEMPLATE = "fp8_block_gemm.py.j2"
K_BLOCK = 128
"""k of one scale."""

OUT_TYPES = {
    OutType.BFLOAT16: ("BFloat16", 2),
    OutType.FLOAT16: ("Float16", 2),
    OutType.FLOAT32: ("Float32", 4),
}
SCALE_TYPES = {ScaleType.FLOAT32: ("Float32", 4), ScaleType.UE8M0: ("Uint8", 1)}
"""CuTe DSL's name and the bytes of an element."""

MMA = {ScaleType.FLOAT32: "QMMA.16832.F32.E4M3.E4M3", ScaleType.UE8M0: "QMMA.SF.16832.F32.E4M3.E4M3.E8"}
"""The tensor-core instruction of sm_120a, as SASS names it."""

BLOCK_SCALING_ARCHS = ("sm_120a", "sm_121a")
"""Architectures with the block-scaled mma.sync (PTX ISA, mma.sync.aligned.kind::mxf8f6f4)."""


CUTE_TYPES = (
    "BFloat16",
    "Boolean",
    "Float8E4M3FN",
    "Float16",
    "Float32",
    "Int32",
    "Int64",
    "Uint8",
    "Uint32",
)
"""What a source may import, in the order of imports."""


def kernel_name(bucket: Bucket) -> str:
    """The kernel of a bucket."""
    return f"gemm_m{bucket.m}"


def threads(bucket: Bucket) -> int:
    """Threads of a block of a bucket."""
    return 32 * bucket.warps_m * bucket.warps_n


def bucket_of(spec: Spec, m: int) -> Bucket:
    """The first bucket that serves m rows."""
    return next(b for b in spec.tile.buckets if b.up_to is None or m <= b.up_to)


def batch_of(spec: Spec) -> int:
    """Products that a batched layout adds to the grid: 1 for other layouts."""
    return spec.shapes.groups if spec.layout is Layout.BATCHED else 1


def _buffers(spec: Spec, bucket: Bucket, stages: int) -> tuple[SharedBuffer, ...]:
    buffers = [
        SharedBuffer("b_tile", (stages, bucket.n, K_BLOCK), 1),
        SharedBuffer("a_tile", (stages, bucket.m, K_BLOCK), 1),
    ]
    if spec.split is not SplitWord.NONE:
        buffers.append(SharedBuffer("is_last", (1,), 4))
    return tuple(buffers)


def plan(spec: Spec) -> TilePlan:
    """The blocks of a spec. Raises SpecError where one cannot work, with the nearest setting that does."""
    for i, bucket in enumerate(spec.tile.buckets):
        fitting = [
            s for s in range(2, 9) if shared_bytes(_buffers(spec, bucket, s)) <= SHARED_BYTES_PER_BLOCK
        ]
        refuse_oversized(
            spec,
            _buffers(spec, bucket, bucket.stages),
            f"tile.buckets.{i}.stages",
            f"use {max(fitting)}",
        )
    largest = max(spec.tile.buckets, key=lambda b: (b.m + b.n) * b.stages)
    return TilePlan(
        template=TEMPLATE,
        kernels=tuple(kernel_name(bucket) for bucket in spec.tile.buckets),
        buffers=_buffers(spec, largest, largest.stages),
        threads=max(threads(bucket) for bucket in spec.tile.buckets),
        context=_context(spec),
        mma=MMA[spec.dtypes.scale],
        archs=BLOCK_SCALING_ARCHS if spec.dtypes.scale is ScaleType.UE8M0 else (),
    )


def _context(spec: Spec) -> dict[str, object]:
    split, groups = spec.split is not SplitWord.NONE, spec.shapes.groups
    batched = spec.layout is Layout.BATCHED
    depth = " * ".join(["GROUPS"] * batched + ["splits"] * split) or "1"
    out_type, out_bytes = OUT_TYPES[spec.dtypes.out]
    scale_type, scale_bytes = SCALE_TYPES[spec.dtypes.scale]
    imports = {out_type, scale_type, "Float8E4M3FN", "Float32", "Int32", "Int64"}
    imports |= {"Uint32"} if scale_type == "Uint8" else set()
    imports |= {"Boolean"} if split else set()
    return {
        "imports": [*(name for name in CUTE_TYPES if name in imports), "cute"],
        "groups": groups,
        "batched": batched,
        "grouped": spec.layout is Layout.GROUPED,
        "split": split,
        "depth": depth,
        "block_scaled": spec.dtypes.scale is ScaleType.UE8M0,
        "out_dtype": str(spec.dtypes.out),
        "out_type": out_type,
        "out_bytes": out_bytes,
        "scale_type": scale_type,
        "scale_bytes": scale_bytes,
        "buckets": [{**bucket.model_dump(), "kernel": kernel_name(bucket)} for bucket in spec.tile.buckets],
    }


def launch_plan(
    spec: Spec, sizes: Mapping[str, int], device: Device, splits: int | None = None
) -> LaunchPlan:
    """The launch for run-time sizes `m`, `n` and `k` on a device.

    `splits` overrides the spec's strategy where k is split at all. The bucket of a grouped layout is that of
    its groups' mean rows. Its groups then have m // tile + groups tiles at most, however its rows are spread.
    """
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    grouped, batch = spec.layout is Layout.GROUPED, batch_of(spec)
    bucket = bucket_of(spec, math.ceil(m / spec.shapes.groups) if grouped else m)
    n_blocks, m_blocks = math.ceil(n / bucket.n), math.ceil(m / bucket.m)
    rows = n_blocks * m_blocks * batch
    if grouped:
        rows = n_blocks * (m // bucket.m + min(m, spec.shapes.groups))
        m_blocks += spec.shapes.groups
    split = spec.split is not SplitWord.NONE
    strategy = spec.split if splits is None or not split else splits
    slots = device.sms * device.blocks_per_sm(
        threads(bucket), shared_bytes(_buffers(spec, bucket, bucket.stages))
    )
    divided = plan_splits(strategy, tiles=k // K_BLOCK, rows=rows, slots=slots)
    scalars: dict[str, int | float] = {"m": m, "n": n, "k": k}
    scratch = {}
    if split:
        scalars |= {"splits": divided.count, "k_blocks_per_split": divided.tiles_per_split}
        parts = divided.count if divided.count > 1 else 0
        scratch = {
            "partial_out": Scratch((parts, batch, m, n), "float32"),
            "arrivals": Scratch((batch, m_blocks, n_blocks), "int32", zeroed=True),
        }
    launch = Launch(kernel_name(bucket), (n_blocks, m_blocks, batch * divided.count), threads(bucket))
    return LaunchPlan(divided, (launch,), scalars, scratch)
