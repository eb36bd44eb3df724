"""What a sparse-MLA decode spec may choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gen.values import Choice


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
        """The value itself, as fp32 holds it."""
        return {"plus_inf": math.inf, "minus_inf": -math.inf, "minus_1e30": -1.0000000150474662e30}[
            self.value
        ]

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
