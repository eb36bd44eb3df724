"""The spec of sparse-MLA decode: each query token attends to listed keys of one or two paged FP8 caches."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gen.families.sparse_mla_decode.options import Combine, Layout, LseBase, LseEmpty, Sink
from gen.spec.fields import OneOf, Section, Size, Within, refusal
from gen.spec.model import KernelSpec
from gen.values import INT32_MAX

MAX_WIDTH = 1 << 20
"""Index columns a token: the compressed keys of four million positions."""

Page = Annotated[Size, Within(1, 65_536)]
Width = Annotated[Size, Within(0, MAX_WIDTH)]
Tolerance = Annotated[float, Field(ge=0.0, le=1.0)]


class Shapes(Section):
    """Sizes of one launch."""

    tokens: Annotated[Size, Within(0, INT32_MAX)]
    """Query tokens, batch and draft positions together."""
    heads: Annotated[int, Within(8, 128, step=8)]
    """Query heads on this GPU."""
    main_page: Page
    """Keys in a page of the main cache."""
    main_width: Width
    """Index columns a token for the main cache."""
    extra_page: Page | None = None
    """Keys in a page of the extra cache; absent where there is one cache."""
    extra_width: Width | None = None
    """Index columns a token for the extra cache; absent where there is one cache."""

    @property
    def has_extra(self) -> bool:
        """Whether there is an extra cache."""
        return self.extra_page is not None

    @model_validator(mode="after")
    def _extra_complete(self) -> Shapes:
        given = {"extra_page": self.extra_page, "extra_width": self.extra_width}
        absent = [key for key, value in given.items() if value is None]
        if len(absent) == 1:
            (present,) = given.keys() - set(absent)
            raise refusal(
                f"{present} is given without {absent[0]}", f"add {absent[0]} or remove it", (present,)
            )
        return self


class Dtypes(Section):
    """Element types."""

    q: Literal["bfloat16"] = "bfloat16"
    """Queries."""
    cache: Literal["float8_e4m3fn"] = "float8_e4m3fn"
    """The part of a cached key without rotary position."""
    out: Literal["bfloat16"] = "bfloat16"
    """Attention output."""
    lse: Literal["float32"] = "float32"
    """Logarithm of the sum of exponentials."""


class Tile(Section):
    """The work of one block in one step."""

    heads: Annotated[int, OneOf((16, 32, 64))]
    """Query heads that share each key tile."""
    keys: Annotated[int, OneOf((16, 32, 64, 128))]
    """Keys a tile."""
    threads: Annotated[int, OneOf((128, 256, 512))]
    """Threads a block."""


class Features(Section):
    """Options of the interface; the defaults are FlashMLA's."""

    lengths: bool = True
    """Whether a launch passes lengths a token beside the padding of the indices with -1."""
    sink: Sink = Sink.OUTPUT
    """none, output, or output_and_lse."""
    lse_base: LseBase = LseBase.E
    """e or 2."""
    lse_empty: LseEmpty = LseEmpty.PLUS_INF
    """+inf, -inf or -1e30: the returned logarithm where no key is valid."""
    combine: Combine = Combine.KERNEL
    """kernel: a second kernel merges the splits; last_block: the last block to finish does."""


class Tolerances(Section):
    """How far results may be from the reference; the defaults are the bars of FlashMLA's own tests.

    An element passes where its absolute or its relative error is small enough, an output where the cosine
    difference 1 − cos also is.
    """

    out_absolute: Tolerance = 1e-3
    """Absolute error of an output element."""
    out_relative: Tolerance = 2.01 / 128
    """Relative error of an output element: two units of bf16's last place and a little."""
    out_cosine: Tolerance = 5e-6
    """Cosine difference of the whole output."""
    lse_absolute: Tolerance = 1e-6
    """Absolute error of the returned logarithm."""
    lse_relative: Tolerance = 8.01 / 65536
    """Relative error of the returned logarithm."""


class Spec(KernelSpec):
    """Sparse-MLA decode."""

    family: Literal["sparse_mla_decode"]
    shapes: Shapes
    layout: Layout
    dtypes: Dtypes = Dtypes()
    tile: Tile
    features: Features
    tolerances: Tolerances = Tolerances()

    @model_validator(mode="after")
    def _tile_no_larger_than_heads(self) -> Spec:
        whole = math.ceil(self.shapes.heads / 16) * 16
        if self.tile.heads > whole:
            best = max(heads for heads in (16, 32, 64) if heads <= whole)
            reason = (
                f"{self.tile.heads} heads a block exceed the {self.shapes.heads} heads, {whole} with padding"
            )
            raise refusal(reason, f"use {best}", ("tile", "heads"))
        return self
