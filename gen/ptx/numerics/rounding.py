"""Error-free transformations and directed rounding, shared by the floating-point modules.

`rn` is nearest, ties to even; `rz` towards zero; `rm` towards minus infinity; `rp` towards plus infinity.
Round-to-odd keeps a sticky bit in the last place, so that a second rounding to at least two bits fewer equals
one rounding of the exact value (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[Any]

ROUNDINGS = ("rn", "rz", "rm", "rp")


def require_rounding(rounding: str, allowed: tuple[str, ...] = ROUNDINGS) -> None:
    """Raise ValueError unless `rounding` is one of `allowed`."""
    if rounding not in allowed:
        raise ValueError(f"rounding {rounding!r} does not apply here; use one of {', '.join(allowed)}")


def two_sum(a: Float64Array, b: Float64Array) -> tuple[Float64Array, Float64Array]:
    """(s, e) with s = fl(a + b) and s + e = a + b exactly, where nothing overflows (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Float64Array, b: Float64Array) -> tuple[Float64Array, Float64Array]:
    """(p, e) with p = fl(a * b) and p + e = a * b exactly, for |a|, |b| within 2^±400 (Dekker)."""
    p = a * b
    a_hi, a_lo = _split(a)
    b_hi, b_lo = _split(b)
    return p, ((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


def _split(a: Float64Array) -> tuple[Float64Array, Float64Array]:
    t = a * 134217729.0  # 2^27 + 1 halves a 53-bit significand
    hi = t - (t - a)
    return hi, a - hi


def to_odd(s: Float64Array, error: Float64Array) -> Float64Array:
    """`s + error` rounded to odd, given s = fl(s + error), nonzero where error is; non-finite s stays."""
    bits = np.array(s, dtype=np.float64).view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & np.isfinite(s) & ((bits & 1) == 0)
    bits += np.where(inexact, np.where((error > 0) == (s > 0), 1, -1), 0)
    return bits.view(np.float64)


def sum_to_odd(a: Float64Array, b: Float64Array) -> Float64Array:
    """a + b rounded to odd in float64; infinities and NaN follow IEEE addition."""
    with np.errstate(all="ignore"):
        s, error = two_sum(a, b)
        return to_odd(s, error) if error.any() else s


def to_float32(x: Float64Array, rounding: str = "rn") -> Float32Array:
    """Round float64 to float32 once, subnormals and overflow included."""
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        r = np.asarray(x.astype(np.float32))
        if rounding == "rn":
            return r
        back = r.astype(np.float64)
        if rounding == "rz":
            return np.asarray(np.where(np.abs(back) > np.abs(x), np.nextafter(r, np.float32(0)), r))
        if rounding == "rm":
            return np.asarray(np.where(back > x, np.nextafter(r, np.float32(-np.inf)), r))
        return np.asarray(np.where(back < x, np.nextafter(r, np.float32(np.inf)), r))


def to_float32_odd(x: Float64Array) -> Float32Array:
    """Round float64 to float32 to odd: overflow stops at the largest finite, underflow at the smallest."""
    r = np.array(to_float32(x, "rz"))
    with np.errstate(all="ignore"):
        inexact = (r.astype(np.float64) != x) & ~np.isnan(x)
    bits = r.view(np.uint32)
    bits |= inexact.astype(np.uint32)
    return r


def round_scaled(hi: Float64Array, lo: Float64Array, exponent: IntArray, rounding: str) -> Float64Array:
    """(hi + lo) * 2^exponent rounded once to float64.

    hi is finite and nonzero (or lo is zero), |lo| is at most half a unit in the last place of hi; of lo only
    the sign matters, and whether it is zero.
    """
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        r = np.ldexp(hi, exponent)
        rest = hi - np.ldexp(r, -exponent)  # what ldexp dropped below the subnormal range, or minus infinity
        residual = np.where(rest != 0, rest, lo)
        if rounding == "rn":
            tie = (rest != 0) & (np.abs(rest) == np.ldexp(1.0, -1075 - exponent))
            move = tie & (lo != 0) & ((lo > 0) == (rest > 0))
            return np.where(move, np.nextafter(r, np.where(rest > 0, np.inf, -np.inf)), r)
        if rounding == "rz":
            return np.where((residual != 0) & ((residual < 0) != np.signbit(r)), np.nextafter(r, 0.0), r)
        if rounding == "rm":
            return np.where(residual < 0, np.nextafter(r, -np.inf), r)
        return np.where(residual > 0, np.nextafter(r, np.inf), r)
