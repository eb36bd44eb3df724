"""`.f16` and `.bf16` arithmetic on raw bits, rounded once; the x2 forms are two calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gen.ptx.numerics import float32
from gen.ptx.numerics.formats import decode, encode
from gen.ptx.numerics.rounding import Float32Array, Float64Array, sum_to_odd

UInt16Array = npt.NDArray[np.uint16]

_NAN = np.uint16(0x7FFF)
_OPERANDS = {
    "add": 2, "sub": 2, "mul": 2, "fma": 3, "neg": 1, "abs": 1, "ex2": 1, "tanh": 1,
    "min.xorsign.abs": 2, "max.xorsign.abs": 2, "min.nan.xorsign.abs": 2, "max.nan.xorsign.abs": 2,
    "min": 2, "max": 2, "min.nan": 2, "max.nan": 2,
}  # fmt: skip
_INF = {"f16": np.uint16(0x7C00), "bf16": np.uint16(0x7F80)}
_LEAST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126}
_MIN_NORMAL = {"f16": np.uint16(0x0400), "bf16": np.uint16(0x0080)}


def arith(
    op: str, fmt: str, *operands: npt.NDArray[Any], ftz: bool = False, sat: bool = False, relu: bool = False
) -> UInt16Array:
    """The result bits, uint16, of raw uint16 operands of `fmt` ("f16" or "bf16"), broadcasting.

    op: add sub mul fma (rounded to nearest even), min max (one NaN gives the other operand), min.nan max.nan,
    each with .xorsign.abs too, neg abs, ex2 tanh (the `.approx` forms: evaluated in float64 and rounded once,
    so within the documented error). `ftz` flushes subnormal inputs, and results that are subnormal but
    for the last rounding, to zero of the same sign; `sat` clamps
    to [0, 1] with NaN as +0; `relu` makes negative results, -0 included, +0. NaN results are 0x7FFF. Raises
    ValueError for another op, format or operand count.
    """
    if fmt not in _MIN_NORMAL or _OPERANDS.get(op) != len(operands):
        raise ValueError(
            f"no {op}.{fmt} of {len(operands)} operands; ops are {', '.join(_OPERANDS)}, of f16 and bf16"
        )
    raw = [np.asarray(o).astype(np.uint16) for o in operands]
    if ftz:
        raw = [flush(r, fmt) for r in raw]
    if op in ("neg", "abs"):
        flipped = raw[0] ^ np.uint16(0x8000) if op == "neg" else raw[0] & np.uint16(0x7FFF)
        return np.where((flipped & np.uint16(0x7FFF)) > _INF[fmt], _NAN, flipped)
    with np.errstate(all="ignore"):
        values = [decode(r, fmt) for r in raw]
        if op.startswith(("min", "max")):
            select = float32.minimum if op.startswith("min") else float32.maximum
            result = encode(select(*values, nan=".nan" in op, xorsign_abs="xorsign" in op), fmt)
        else:
            exact = _compute(op, values)
            result = encode(_flush_exact(exact.astype(np.float64), fmt) if ftz else exact, fmt)
    nan = (result & np.uint16(0x7FFF)) > _INF[fmt]
    negative = result > np.uint16(0x7FFF)
    if sat:
        one = np.uint16(0x3C00 if fmt == "f16" else 0x3F80)
        return np.where(nan | negative, np.uint16(0), np.minimum(result, one))
    if relu:
        return np.where(nan, _NAN, np.where(negative, np.uint16(0), result))
    return np.asarray(result)


def _compute(op: str, v: list[Float32Array]) -> Float32Array | Float64Array:
    """The result with enough bits to round again.

    Twice the significand and two bits more are enough for one addition or product (Figueroa, "When is double
    rounding innocuous?", 1995), which float32 has; fma is rounded to odd; ex2 and tanh are within a unit of
    float64.
    """
    if op == "add":
        return v[0] + v[1]
    if op == "sub":
        return v[0] - v[1]
    if op == "mul":
        return v[0] * v[1]
    wide = [x.astype(np.float64) for x in v]
    if op == "fma":
        return sum_to_odd(wide[0] * wide[1], wide[2])
    return np.asarray(np.exp2(wide[0]) if op == "ex2" else np.tanh(wide[0]))


def _flush_exact(x: Float64Array, fmt: str) -> Float64Array:
    """As `float32.flush_exact`, to nearest even."""
    rounded = decode(encode(x * 2.0**12, fmt), fmt)
    tiny = np.abs(rounded) < _LEAST_NORMAL[fmt] * 2.0**12
    return np.where(tiny, np.copysign(0.0, x), x)


def flush(raw: npt.NDArray[Any], fmt: str) -> npt.NDArray[Any]:
    """Raw bits with subnormals replaced by zero of the same sign."""
    return np.where((raw & np.uint16(0x7FFF)) < _MIN_NORMAL[fmt], raw & np.uint16(0x8000), raw)
