"""`.f32` approximations: `ex2 lg2 rcp rsqrt sqrt sin cos tanh .approx`, `div.approx`, `div.full`.

The PTX ISA bounds the error of each and tabulates its special values, and hardware differs within the bound.
Here the function is evaluated in float64 and rounded once to float32, which is inside every documented bound
by construction. Functions take and return float32 arrays; `ftz` flushes subnormal inputs and results to zero
of the same sign; NaN results are 0x7FFFFFFF.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gen.ptx.numerics.float32 import CANONICAL_NAN, div, finish, flush
from gen.ptx.numerics.rounding import Float32Array, Float64Array


def ex2(a: Float32Array, ftz: bool = False) -> Float32Array:
    """2^a; -inf gives +0."""
    return _evaluate(np.exp2, a, ftz)


def lg2(a: Float32Array, ftz: bool = False) -> Float32Array:
    """log2 a; zero of either sign, and with `ftz` a subnormal, gives -inf, a negative value NaN."""
    return _evaluate(np.log2, a, ftz)


def rcp(a: Float32Array, ftz: bool = False) -> Float32Array:
    """1 / a; zero gives infinity of its sign."""
    return _evaluate(np.reciprocal, a, ftz)


def rsqrt(a: Float32Array, ftz: bool = False) -> Float32Array:
    """1 / sqrt(a); -0 gives -inf, +0 +inf, a negative value NaN."""
    return _evaluate(lambda x: np.reciprocal(np.sqrt(x)), a, ftz)


def sqrt(a: Float32Array, ftz: bool = False) -> Float32Array:
    """Square root; -0 gives -0, a negative value NaN."""
    return _evaluate(np.sqrt, a, ftz)


def sin(a: Float32Array, ftz: bool = False) -> Float32Array:
    """Sine of radians; infinities give NaN."""
    return _evaluate(np.sin, a, ftz)


def cos(a: Float32Array, ftz: bool = False) -> Float32Array:
    """Cosine of radians; infinities give NaN."""
    return _evaluate(np.cos, a, ftz)


def tanh(a: Float32Array) -> Float32Array:
    """Hyperbolic tangent; keeps -0 and subnormals."""
    return _evaluate(np.tanh, a, False)


def div_approx(a: Float32Array, b: Float32Array, ftz: bool = False) -> Float32Array:
    """a / b; for 2^126 < |b| < 2^128 NaN when a is infinite and otherwise zero, as the PTX ISA says."""
    if ftz:
        a, b = flush(a), flush(b)
    quotient = div(a, b, "rn", ftz)
    with np.errstate(invalid="ignore"):
        huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b) & ~np.isnan(a)
    zero = np.copysign(np.float32(0), quotient)
    return np.asarray(np.where(huge, np.where(np.isinf(a), CANONICAL_NAN, zero), quotient))


def div_full(a: Float32Array, b: Float32Array, ftz: bool = False) -> Float32Array:
    """a / b over the full range of b."""
    return div(a, b, "rn", ftz)


def _evaluate(function: Callable[[Float64Array], Float64Array], a: Float32Array, ftz: bool) -> Float32Array:
    with np.errstate(all="ignore"):
        x = (flush(a) if ftz else np.asarray(a)).astype(np.float64)
        return finish(np.asarray(function(x)).astype(np.float32), ftz, False)
