"""The words of an FP8 block-scaled GEMM's spec."""

from __future__ import annotations

from gen.values import Choice


class Layout(Choice):
    """How many products there are, and how their operands lie."""

    DENSE = "dense"
    """a [m, k], b [n, k], out [m, n]."""
    BATCHED = "batched"
    """a [m, groups, k], b [groups, n, k], out [m, groups, n]."""
    GROUPED = "grouped"
    """a [m, k] with its rows sorted by group, offsets [groups + 1], b [groups, n, k], out [m, n]."""


class ScaleType(Choice):
    """The type of the scales, which decides the tensor-core instruction."""

    FLOAT32 = "float32"
    """Plain FP8 MMA; each 128 of k is scaled and added in fp32."""
    UE8M0 = "float8_e8m0fnu"
    """Powers of two, applied by the block-scaled MMA of sm_120a."""


class OutType(Choice):
    """The element type of the output."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
