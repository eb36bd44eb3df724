"""The spec of an FP8 GEMM whose operands have a scale for every 128 of k."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gen.families.fp8_block_gemm.options import Layout, OutType, ScaleType
from gen.spec.fields import OneOf, Section, Size, Within, refusal
from gen.spec.model import KernelSpec
from gen.values import INT32_MAX, Backend

Tolerance = Annotated[float, Field(ge=0.0, le=1.0)]


class Shapes(Section):
    """Sizes of one launch: out[m, n] = a[m, k] · b[n, k]ᵀ."""

    m: Annotated[Size, Within(0, INT32_MAX)]
    """Rows of a and of out: tokens."""
    n: Annotated[Size, Within(8, 1 << 20, step=8)]
    """Rows of b, columns of out."""
    k: Annotated[Size, Within(128, 1 << 20, step=128)]
    """Columns of a and b."""
    groups: Annotated[int, Within(1, 1024)] = 1
    """Products in one launch, where the layout is batched or grouped."""


class Dtypes(Section):
    """Element types."""

    a: Literal["float8_e4m3fn"] = "float8_e4m3fn"
    """Activations."""
    b: Literal["float8_e4m3fn"] = "float8_e4m3fn"
    """Weights."""
    scale: ScaleType
    """Scales of a, one for 128 of k, and of b, one for 128 rows and 128 of k."""
    out: OutType = OutType.BFLOAT16
    """Output."""


class Bucket(Section):
    """The work of one block where m is at most `up_to`."""

    up_to: Annotated[int, Within(1, INT32_MAX)] | None = None
    """The largest m that this bucket serves; only the last serves any."""
    m: Annotated[int, OneOf((16, 32, 64, 128))]
    """Rows of a."""
    n: Annotated[int, OneOf((16, 32, 64, 128))]
    """Rows of b."""
    stages: Annotated[int, Within(2, 8)]
    """Blocks of 128 of k in flight."""
    warps_m: Annotated[int, OneOf((1, 2, 4))]
    """Warps along the rows of a."""
    warps_n: Annotated[int, OneOf((1, 2, 4, 8))]
    """Warps along the rows of b."""

    @model_validator(mode="after")
    def _warps_divide(self) -> Bucket:
        for side in ("m", "n"):
            size, warps = getattr(self, side), getattr(self, f"warps_{side}")
            if size % (16 * warps):
                raise refusal(
                    f"{warps} warps cannot share {size} rows in pieces of 16",
                    f"use {size // 16}",
                    (f"warps_{side}",),
                )
            rows = 4 * self.warps_m * self.warps_n
            if size % rows:
                raise refusal(
                    f"{8 * rows} threads copy {rows} rows at a time, which do not divide {size}",
                    f"use {side}: {rows}",
                    (side,),
                )
        return self


class Tile(Section):
    """The buckets of m, ascending; the planner takes the first that serves a launch."""

    buckets: Annotated[list[Bucket], Field(min_length=1, max_length=6)]
    """Tiles by the largest m that each serves."""

    @model_validator(mode="after")
    def _ascending(self) -> Tile:
        tops = [bucket.up_to for bucket in self.buckets]
        *bounded, last = tops
        if last is not None:
            raise refusal(f"the last bucket serves m up to {last} only", "remove its up_to", ("buckets",))
        known = [top for top in bounded if top is not None]
        if len(known) < len(bounded) or sorted(set(known)) != known:
            reason = "up_to must grow from bucket to bucket and be absent from the last alone"
            raise refusal(reason, "give every other bucket an up_to, in ascending order", ("buckets",))
        if len({bucket.m for bucket in self.buckets}) < len(tops):
            raise refusal("two buckets have the same m", "merge them", ("buckets",))
        return self


class Features(Section):
    """There are no options yet."""


class Tolerances(Section):
    """How far results may be from the reference on the quantized inputs, the output's rounding apart."""

    calc_diff: Tolerance = 5e-6
    """1 − 2 x·y / (x·x + y·y)."""
    accumulate: Tolerance = 2.0**-18
    """Absolute error of an element relative to the sum of its terms' magnitudes."""


class Spec(KernelSpec):
    """FP8 block-scaled GEMM."""

    family: Literal["fp8_block_gemm"]
    shapes: Shapes
    layout: Layout
    dtypes: Dtypes
    tile: Tile
    features: Features = Features()
    tolerances: Tolerances = Tolerances()

    @model_validator(mode="after")
    def _groups_of_a_batch(self) -> Spec:
        several = self.layout is not Layout.DENSE
        if several != (self.shapes.groups > 1):
            fix = (
                "use 2 or more, or write layout: dense"
                if several
                else "remove it, or write layout: batched or layout: grouped"
            )
            reason = f"groups is {self.shapes.groups} where the layout is {self.layout}"
            raise refusal(reason, fix, ("shapes", "groups"))
        return self

    @model_validator(mode="after")
    def _what_tilelang_lacks(self) -> Spec:
        if self.backend is Backend.TILELANG and self.dtypes.scale is ScaleType.UE8M0:
            reason = "TileLang has no FP8 MMA that applies ue8m0 scales"
            raise refusal(reason, "use backend: cutlass or scale: float32", ("backend",))
        if self.backend is Backend.TILELANG and self.layout is Layout.GROUPED:
            raise refusal("the layout grouped has no TileLang source", "use backend: cutlass", ("backend",))
        return self
