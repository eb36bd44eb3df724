"""How close the interpreter must be to hardware, case by case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_MANTISSA = {"f32": 23, "f16": 10, "bf16": 7, "f64": 52}
_LEAST = {"f32": -149, "f16": -24, "bf16": -133, "f64": -1074}


def values(raw: Array, kind: str) -> npt.NDArray[np.float64]:
    """Raw bits of f16, bf16, f32, f64 or the x2 types as float64; the x2 types get a last axis of 2."""
    if kind.endswith("x2"):
        return values(np.ascontiguousarray(raw).view(np.uint16).reshape(*raw.shape, 2), kind[:-2])
    if kind == "bf16":
        raw = raw.astype(np.uint32) << np.uint32(16)
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(raw).view(f"f{raw.itemsize}").astype(np.float64)


@dataclass(frozen=True)
class Rule:
    """Bit for bit."""

    def within(self, recorded: Array, computed: Array, kind: str, terms: Array | None = None) -> Array:
        """Bool for each output word: whether the interpreter's agrees with the hardware's."""
        return np.asarray(recorded == computed)


@dataclass(frozen=True)
class AnyNaN(Rule):
    """Bit for bit but for the bits of NaNs, with the reason."""

    reason: str

    def within(self, recorded: Array, computed: Array, kind: str, terms: Array | None = None) -> Array:
        both = np.isnan(values(recorded, kind)) & np.isnan(values(computed, kind))
        both = both.all(-1) if kind.endswith("x2") else both
        return np.asarray((recorded == computed) | both)


@dataclass(frozen=True)
class Near(Rule):
    """Within the error that the PTX ISA documents, the interpreter being within half a unit itself.

    ulps: units in the last place. relative, absolute: of the value. flushes_below: results up to
    this magnitude may be zero on one side. Infinities must agree, and NaNs but for their bits.
    """

    ulps: float = 0
    relative: float = 0
    absolute: float = 0
    flushes_below: float = 0

    def within(self, recorded: Array, computed: Array, kind: str, terms: Array | None = None) -> Array:
        r, c = values(recorded, kind), values(computed, kind)
        base = kind.removesuffix("x2")
        with np.errstate(all="ignore"):
            exponent = np.floor(np.log2(np.abs(c)))
            unit = np.exp2(np.maximum(exponent - _MANTISSA[base], _LEAST[base]))
            allowed = (self.ulps + 0.5) * unit + self.relative * np.abs(c) + self.absolute
            close = np.abs(r - c) <= allowed
            zero = (np.abs(r) <= self.flushes_below) & (np.abs(c) <= self.flushes_below)
        same = (r == c) | (np.isnan(r) & np.isnan(c)) | (np.isfinite(r) & np.isfinite(c) & (close | zero))
        return np.asarray(same.all(-1) if kind.endswith("x2") else same)


@dataclass(frozen=True)
class Accumulated(Rule):
    """Within `bound` times the sum of the magnitudes of the terms, and one rounding to the type of D.

    Tensor cores align the terms of a step to the largest, truncate them and add them in their own order.
    signs: bits of the registers of A, B and C that are no signs; without signs their product is that sum.
    """

    bound: float
    signs: tuple[int, int, int]

    def within(self, recorded: Array, computed: Array, kind: str, terms: Array | None = None) -> Array:
        assert terms is not None
        r, c, t = (values(a, kind) for a in (recorded, computed, terms))
        base = kind.removesuffix("x2")
        with np.errstate(all="ignore"):
            unit = np.exp2(np.maximum(np.floor(np.log2(np.abs(c))) - _MANTISSA[base], _LEAST[base]))
            close = np.abs(r - c) <= self.bound * t + unit
        same = (r == c) | (np.isnan(r) & np.isnan(c)) | close
        return np.asarray(same.all(-1) if kind.endswith("x2") else same)


EXACT = Rule()
