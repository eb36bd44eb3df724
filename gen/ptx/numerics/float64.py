"""Correctly rounded `.f64` arithmetic.

Every function takes and returns float64 arrays, broadcasting. Nearest rounding is NumPy's; the directed modes
and fma work on significands scaled to [0.5, 1), where no intermediate over- or underflows, and round once.
The PTX ISA leaves NaNs open; here they are those of sm_90: one operand's, made quiet, the second's before
the first's in a sum or product, b's, c's, then a's in a fma, the first's in a quotient; 0xFFF8… where no
operand is NaN.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gen.ptx.numerics.rounding import (
    Float64Array,
    require_rounding,
    round_scaled,
    to_odd,
    two_product,
    two_sum,
)

_SIGN = np.uint64(1 << 63)
_QUIET = np.uint64(1 << 51)
_DEFAULT_NAN = np.uint64(0xFFF8 << 48)
# Terms whose exponents differ by more only act as a sticky bit on each other: a product has 106 bits.
_FAR = 200


def add(a: Float64Array, b: Float64Array, rounding: str = "rn") -> Float64Array:
    """a + b."""
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        plain = np.asarray(a + b) if rounding == "rn" else fma(a, np.ones_like(a), b, rounding)
        return _with_nans(plain, b, a)


def sub(a: Float64Array, b: Float64Array, rounding: str = "rn") -> Float64Array:
    """a - b."""
    return add(a, neg(b), rounding)


def mul(a: Float64Array, b: Float64Array, rounding: str = "rn") -> Float64Array:
    """a * b."""
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        plain = np.asarray(a * b)
        if rounding != "rn":
            product, error, exponent = _scaled_product(a, b)
            plain = np.where(_regular(a, b), round_scaled(product, error, exponent, rounding), plain)
        return _with_nans(plain, b, a)


def fma(a: Float64Array, b: Float64Array, c: Float64Array, rounding: str = "rn") -> Float64Array:
    """a * b + c, rounded once (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        product, error, exponent = _scaled_product(a, b)
        addend, addend_exponent = np.frexp(c)
        distance = np.clip(addend_exponent - exponent, -_FAR, _FAR)
        # A clipped small addend moves up towards the product; a large one keeps its place.
        base = np.where(addend_exponent - exponent > _FAR, addend_exponent - _FAR, exponent)
        base = np.where(addend == 0, exponent, base)
        middle, middle_error = two_sum(np.ldexp(addend, distance), error)
        top, top_error = two_sum(product, middle)
        tail = to_odd(*two_sum(middle_error, top_error))
        hi, lo = two_sum(top, tail)
        zero = np.where(np.signbit(a * b) == np.signbit(c), c, -0.0 if rounding == "rm" else 0.0)
        exact = np.where(hi == 0, zero, round_scaled(hi, lo, base, rounding))
        # A zero factor leaves an exact sum, an infinite or NaN operand the plain one; but a product that only
        # overflows must not meet an infinite c.
        plain = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c + c, a * b + c)
        plain = np.where((plain == 0) & np.isfinite(c), zero, plain)
        return _with_nans(np.where(_regular(a, b) & np.isfinite(c), exact, plain), b, c, a)


def div(a: Float64Array, b: Float64Array, rounding: str = "rn") -> Float64Array:
    """a / b; the remainder, exact in float64, says on which side of the quotient the exact value is."""
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        plain = np.asarray(a / b)
        if rounding == "rn":
            return _with_nans(plain, a, b)
        (ma, ea), (mb, eb) = np.frexp(a), np.frexp(b)
        quotient = ma / mb
        product, error = two_product(quotient, mb)
        remainder = (ma - product) - error
        exact = round_scaled(quotient, remainder * np.sign(mb), ea - eb, rounding)
        return _with_nans(np.where(_regular(a, b), exact, plain), a, b)


def rcp(a: Float64Array, rounding: str = "rn") -> Float64Array:
    """1 / a."""
    return div(np.ones_like(a), a, rounding)


def sqrt(a: Float64Array, rounding: str = "rn") -> Float64Array:
    """Square root; -0 gives -0, a negative value NaN."""
    require_rounding(rounding)
    with np.errstate(all="ignore"):
        plain = np.asarray(np.sqrt(a))
        if rounding == "rn":
            return _with_nans(plain, a)
        m, e = np.frexp(a)
        odd = e & 1
        m, e = np.ldexp(m, odd), (e - odd) >> 1
        root = np.sqrt(m)
        square, error = two_product(root, root)
        exact = round_scaled(root, (m - square) - error, e, rounding)
        return _with_nans(np.where(np.isfinite(a) & (a > 0), exact, plain), a)


def minimum(a: Float64Array, b: Float64Array) -> Float64Array:
    """The smaller value, with -0 below +0; one NaN gives the other operand."""
    return _select(a, b, True)


def maximum(a: Float64Array, b: Float64Array) -> Float64Array:
    """The larger value, with +0 above -0; one NaN gives the other operand."""
    return _select(a, b, False)


def neg(a: Float64Array) -> Float64Array:
    """Sign flipped, but of NaN, which is made quiet."""
    return _with_nans((_bits(a) ^ _SIGN).view(np.float64), a)


def abs_(a: Float64Array) -> Float64Array:
    """Sign cleared, but of NaN, which is made quiet."""
    return _with_nans((_bits(a) & ~_SIGN).view(np.float64), a)


def _bits(a: Float64Array) -> npt.NDArray[np.uint64]:
    return np.asarray(a, dtype=np.float64).view(np.uint64)


def _with_nans(result: Float64Array, *operands: Float64Array) -> Float64Array:
    """The result with its NaNs replaced by the first NaN among the operands, quiet, or the default one."""
    nan = np.isnan(result)
    if not nan.any():
        return np.asarray(result)
    source = np.full(result.shape, _DEFAULT_NAN)
    for operand in reversed(operands):
        source = np.where(np.isnan(operand), _bits(operand) | _QUIET, source)
    return np.where(nan, source.view(np.float64), result)


def _regular(a: Float64Array, b: Float64Array) -> npt.NDArray[np.bool_]:
    """Both finite and nonzero."""
    return np.asarray(np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0))


def _scaled_product(
    a: Float64Array, b: Float64Array
) -> tuple[Float64Array, Float64Array, npt.NDArray[np.int32]]:
    """(p, e, x) with (p + e) * 2^x = a * b exactly and |p| in [0.25, 1)."""
    (ma, ea), (mb, eb) = np.frexp(a), np.frexp(b)
    product, error = two_product(ma, mb)
    return product, error, np.asarray(ea + eb)


def _select(a: Float64Array, b: Float64Array, smaller: bool) -> Float64Array:
    with np.errstate(invalid="ignore"):
        first = (a < b) if smaller else (a > b)
        ties = _bits(a) | _bits(b) if smaller else _bits(a) & _bits(b)
        d = np.where(first, a, np.where(a == b, ties.view(np.float64), b))
    return _with_nans(np.where(np.isnan(b), a, d), b, a)
