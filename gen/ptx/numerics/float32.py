"""Correctly rounded `.f32` arithmetic.

Every function takes and returns float32 arrays, broadcasting. `ftz` flushes subnormal inputs and results to
zero of the same sign; a result that only its last rounding makes normal is not flushed (as on sm_90). `sat`
clamps the result to [0, 1] with NaN as +0; NaN results are the canonical 0x7FFFFFFF (PTX ISA,
"Floating-Point Instructions").
"""

from __future__ import annotations

import numpy as np

from gen.ptx.numerics.rounding import Float32Array, Float64Array, require_rounding, sum_to_odd, to_float32

CANONICAL_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_MIN_NORMAL = np.float32(2.0**-126)


def bits(a: Float32Array) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """The raw uint32 bits, same shape."""
    return np.asarray(a, dtype=np.float32).view(np.uint32)


def flush(a: Float32Array) -> Float32Array:
    """Subnormals replaced by zero of the same sign."""
    tiny = np.abs(a) < _MIN_NORMAL
    return np.asarray(np.where(tiny, np.copysign(np.float32(0), a), a)) if tiny.any() else a


def flush_exact(x: Float64Array, rounding: str) -> Float64Array:
    """Unrounded results replaced by zero where they would be subnormal, had the exponent no least value."""
    tiny = np.abs(x) < _MIN_NORMAL
    if not tiny.any():
        return x
    tiny &= np.abs(to_float32(np.where(tiny, x, 0.0) * 2.0**64, rounding)) < _MIN_NORMAL * 2.0**64
    return np.asarray(np.where(tiny, np.copysign(0.0, x), x))


def canonical(a: Float32Array) -> Float32Array:
    """NaN replaced by 0x7FFFFFFF."""
    nan = np.isnan(a)
    return np.asarray(np.where(nan, CANONICAL_NAN, a)) if nan.any() else np.asarray(a)


def saturate(a: Float32Array) -> Float32Array:
    """Clamped to [0, 1]; NaN and -0 give +0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(a > 0, np.minimum(a, np.float32(1)), np.float32(0)))


def finish(result: Float32Array, ftz: bool, sat: bool) -> Float32Array:
    """Flush, saturate and make NaN canonical, as asked."""
    if ftz:
        result = flush(result)
    return saturate(result) if sat else canonical(result)


def add(
    a: Float32Array, b: Float32Array, rounding: str = "rn", ftz: bool = False, sat: bool = False
) -> Float32Array:
    """a + b."""
    if ftz:
        a, b = flush(a), flush(b)
    with np.errstate(all="ignore"):
        if rounding == "rn":
            return finish(a + b, ftz, sat)
        return finish(_rounded_sum(a.astype(np.float64), b.astype(np.float64), rounding), ftz, sat)


def sub(
    a: Float32Array, b: Float32Array, rounding: str = "rn", ftz: bool = False, sat: bool = False
) -> Float32Array:
    """a - b."""
    return add(a, neg(b), rounding, ftz, sat)


def mul(
    a: Float32Array, b: Float32Array, rounding: str = "rn", ftz: bool = False, sat: bool = False
) -> Float32Array:
    """a * b."""
    if ftz:
        a, b = flush(a), flush(b)
    with np.errstate(all="ignore"):
        nearest = a * b
        if rounding == "rn" and not (ftz and _may_be_tiny(nearest)):
            return finish(nearest, ftz, sat)
        product = _product(a, b)
        return finish(to_float32(flush_exact(product, rounding) if ftz else product, rounding), ftz, sat)


def fma(
    a: Float32Array,
    b: Float32Array,
    c: Float32Array,
    rounding: str = "rn",
    ftz: bool = False,
    sat: bool = False,
) -> Float32Array:
    """a * b + c, rounded once.

    The product is exact in float64. Rounding the sum twice errs only where the float64 sum is a tie between
    float32 values, or below their normal range: then the sum is rounded to odd first.
    """
    if ftz:
        a, b, c = flush(a), flush(b), flush(c)
    with np.errstate(all="ignore"):
        product = _product(a, b)
        if rounding == "rn":
            s = np.asarray(product + c)
            tie = (s.view(np.int64) & 0x1FFFFFFF) == 0x10000000
            if not (tie | ((np.abs(s) <= 2.0**-126) & (s != 0))).any():
                return finish(s.astype(np.float32), ftz, sat)
        return finish(_rounded_sum(product, np.asarray(c, dtype=np.float64), rounding, ftz), ftz, sat)


def div(
    a: Float32Array, b: Float32Array, rounding: str = "rn", ftz: bool = False, sat: bool = False
) -> Float32Array:
    """a / b.

    Two 24-bit significands cannot have a quotient within 2^-49 of a 25-bit value without being equal to it,
    so the float64 quotient rounds again safely in every mode (Figueroa, "When is double rounding innocuous?",
    1995).
    """
    if ftz:
        a, b = flush(a), flush(b)
    with np.errstate(all="ignore"):
        nearest = a / b
        if rounding == "rn" and not (ftz and _may_be_tiny(nearest)):
            return finish(nearest, ftz, sat)
        quotient = a.astype(np.float64) / b.astype(np.float64)
        return finish(to_float32(flush_exact(quotient, rounding) if ftz else quotient, rounding), ftz, sat)


def rcp(a: Float32Array, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Float32Array:
    """1 / a."""
    return div(np.ones_like(a), a, rounding, ftz, sat)


def sqrt(a: Float32Array, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Float32Array:
    """Square root; -0 gives -0, a negative value NaN. The float64 root rounds again safely, as in `div`."""
    if ftz:
        a = flush(a)
    with np.errstate(all="ignore"):
        if rounding == "rn":
            return finish(np.sqrt(a), ftz, sat)
        return finish(to_float32(np.sqrt(a.astype(np.float64)), rounding), ftz, sat)


def minimum(
    a: Float32Array, b: Float32Array, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> Float32Array:
    """The smaller value, with -0 below +0.

    One NaN gives the other operand, or NaN when `nan` is set. `xorsign_abs` compares magnitudes and gives the
    result the exclusive or of the signs.
    """
    return _select(a, b, True, ftz, nan, xorsign_abs)


def maximum(
    a: Float32Array, b: Float32Array, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> Float32Array:
    """The larger value; see `minimum`."""
    return _select(a, b, False, ftz, nan, xorsign_abs)


def neg(a: Float32Array, ftz: bool = False) -> Float32Array:
    """Sign flipped."""
    return canonical((bits(flush(a) if ftz else a) ^ _SIGN).view(np.float32))


def abs_(a: Float32Array, ftz: bool = False) -> Float32Array:
    """Sign cleared."""
    return canonical((bits(flush(a) if ftz else a) & _MAGNITUDE).view(np.float32))


def _product(a: Float32Array, b: Float32Array) -> Float64Array:
    return np.asarray(a, dtype=np.float64) * np.asarray(b, dtype=np.float64)


def _may_be_tiny(nearest: Float32Array) -> bool:
    """Whether rounding may have hidden from `flush` that a result is subnormal."""
    return bool((np.abs(nearest) == _MIN_NORMAL).any())


def _rounded_sum(p: Float64Array, c: Float64Array, rounding: str, ftz: bool = False) -> Float32Array:
    require_rounding(rounding)
    s = sum_to_odd(p, c)
    if rounding == "rm":  # an exact zero from unlike signs is -0 only here
        s = np.where((s == 0) & (np.signbit(p) != np.signbit(c)), -0.0, s)
    return to_float32(flush_exact(s, rounding) if ftz else s, rounding)


def _select(
    a: Float32Array, b: Float32Array, smaller: bool, ftz: bool, nan: bool, xorsign_abs: bool
) -> Float32Array:
    if ftz:
        a, b = flush(a), flush(b)
    sign = (bits(a) ^ bits(b)) & _SIGN
    if xorsign_abs:
        a, b = abs_(a), abs_(b)
    with np.errstate(invalid="ignore"):
        first = (a < b) if smaller else (a > b)
        ties = (
            bits(a) | bits(b) if smaller else bits(a) & bits(b)
        )  # equal operands differ only in the sign of zero
        d = np.where(first, a, np.where(a == b, ties.view(np.float32), b))
    a_nan, b_nan = np.isnan(a), np.isnan(b)
    d = np.where(b_nan, a, d)
    missing = (a_nan | b_nan) if nan else (a_nan & b_nan)
    if xorsign_abs:
        d = (bits(d) | sign).view(np.float32)
    return np.asarray(np.where(missing, CANONICAL_NAN, d))
