"""The spec of sparse-MLA decode: each query token attends to listed keys of one or two paged FP8 caches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gen.spec.fields import INT32_MAX, Choice, OneOf, Section, Size, Within, refusal
from gen.spec.model import KernelSpec

MAX_WIDTH = 1 << 20
"""Index columns a token: the compressed keys of four million positions."""

Page = Annotated[Size, Within(1, 65_536)]
Width = Annotated[Size, Within(0, MAX_WIDTH)]
Tolerance = Annotated[float, Field(ge=0.0, le=1.0)]


class Shapes(Section):
    """Sizes of one launch."""

    tokens: Annotated[Size, Within(1, INT32_MAX)]
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


class Layout(Choice):
    """Bytes of one cached token, as FlashMLA stores them (`tests/quant.py`, `csrc/api/sparse_decode.h`).

    `v4`: each page holds a 576-byte row a token (448 e4m3, 64 bf16 rope), then 8 bytes of scales a token
    (7 ue8m0 and one of padding).
    `v32`: each token is one 656-byte record (512 e4m3, 4 fp32 scales, 64 bf16 rope).
    """

    V4 = "v4"
    V32 = "v32"

    @property
    def d_nope(self) -> int:
        """FP8 elements of a key."""
        return 448 if self is Layout.V4 else 512

    @property
    def d_rope(self) -> int:
        """bf16 elements of a key, after the FP8 ones."""
        return 64

    @property
    def d_qk(self) -> int:
        """Elements of a query and of a key."""
        return self.d_nope + self.d_rope

    @property
    def d_v(self) -> int:
        """Elements of a value: all of the key in `v4`, its FP8 part in `v32`."""
        return 512

    @property
    def scale_group(self) -> int:
        """FP8 elements that share a scale."""
        return 64 if self is Layout.V4 else 128

    @property
    def scales(self) -> int:
        """Scales a token, without padding."""
        return self.d_nope // self.scale_group

    @property
    def row_bytes(self) -> int:
        """Distance between two tokens of a page."""
        return 576 if self is Layout.V4 else 656

    @property
    def token_bytes(self) -> int:
        """Bytes a token takes in all."""
        return 584 if self is Layout.V4 else 656

    def page_bytes(self, page: int) -> int:
        """Distance between two pages of `page` keys in FlashMLA's caches: `v4` pads to multiples of 576."""
        used = page * self.token_bytes
        return math.ceil(used / 576) * 576 if self is Layout.V4 else used


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


class Sink(Choice):
    """Where the attention sink, one logit a head, counts."""

    NONE = "none"
    OUTPUT = "output"
    OUTPUT_AND_LSE = "output_and_lse"


class LseBase(Choice):
    """Base of the logarithm that the kernel returns."""

    E = "e"
    TWO = "2"

    @classmethod
    def spellings(cls) -> Mapping[str | int | float, LseBase]:
        """Also the integer 2."""
        return {"e": cls.E, 2: cls.TWO, "2": cls.TWO}


class LseEmpty(Choice):
    """The returned logarithm where no key is valid."""

    PLUS_INF = "plus_inf"
    MINUS_INF = "minus_inf"
    MINUS_1E30 = "minus_1e30"

    @property
    def number(self) -> float:
        """The value itself."""
        return {"plus_inf": math.inf, "minus_inf": -math.inf, "minus_1e30": -1e30}[self.value]

    @classmethod
    def spellings(cls) -> Mapping[str | int | float, LseEmpty]:
        """The number in either notation of YAML, or the member's own name."""
        return {
            "+inf": cls.PLUS_INF, "inf": cls.PLUS_INF, "plus_inf": cls.PLUS_INF, math.inf: cls.PLUS_INF,
            "-inf": cls.MINUS_INF, "minus_inf": cls.MINUS_INF, -math.inf: cls.MINUS_INF,
            "-1e30": cls.MINUS_1E30, "minus_1e30": cls.MINUS_1E30, -1e30: cls.MINUS_1E30,
        }  # fmt: skip


class Combine(Choice):
    """Who merges the partial results of the splits."""

    KERNEL = "kernel"
    LAST_BLOCK = "last_block"


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
