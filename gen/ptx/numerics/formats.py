"""Floating-point formats narrower than `.f32`: decode to float32, encode with rounding.

Layouts and special values: PTX ISA, "Alternate Floating-Point Data Formats" and `cvt`; OCP Microscaling
Formats v1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gen.ptx.numerics.rounding import Float32Array, require_rounding, to_float32_odd

UIntArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Format:
    """A sign-magnitude binary format; `max_code` is the largest finite magnitude, codes hold no sign."""

    width: int
    mantissa: int
    bias: int
    max_code: int
    inf_code: int | None = None
    nan_code: int | None = None
    signed: bool = True
    pad: int = 0  # zero bits below the code in its register: 13 for tf32

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The unsigned container of one raw value."""
        return np.uint8 if self.width <= 8 else np.uint16 if self.width <= 16 else np.uint32


FORMATS = {
    "e4m3": Format(8, 3, 7, 0x7E, nan_code=0x7F),
    "e5m2": Format(8, 2, 15, 0x7B, inf_code=0x7C, nan_code=0x7F),
    "e3m2": Format(6, 2, 3, 0x1F),
    "e2m3": Format(6, 3, 1, 0x1F),
    "e2m1": Format(4, 1, 1, 0x7),
    "ue4m3": Format(7, 3, 7, 0x7E, nan_code=0x7F, signed=False),
    "f16": Format(16, 10, 15, 0x7BFF, inf_code=0x7C00, nan_code=0x7FFF),
    "bf16": Format(16, 7, 127, 0x7F7F, inf_code=0x7F80, nan_code=0x7FFF),
    "tf32": Format(32, 10, 127, 0x3FBFF, inf_code=0x3FC00, nan_code=0x3FFFF, pad=13),
}
UE8M0_NAN = 0xFF
_INF = 0x7F800000  # float32 bits


def _small_table(fmt: Format) -> Float32Array:
    """Exact float32 values of all 2^width codes of a format of at most 8 bits."""
    code = np.arange(1 << fmt.width)
    magnitude = code & ((1 << (fmt.width - 1)) - 1) if fmt.signed else code
    field = magnitude >> fmt.mantissa
    fraction = magnitude & ((1 << fmt.mantissa) - 1)
    significand = fraction + ((field > 0) << fmt.mantissa)
    value = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - fmt.bias - fmt.mantissa)
    if fmt.inf_code is not None:
        value[magnitude == fmt.inf_code] = np.inf
    if fmt.nan_code is not None:
        value[magnitude > (fmt.max_code if fmt.inf_code is None else fmt.inf_code)] = np.nan
    if fmt.signed:
        value = np.where(code >> (fmt.width - 1), -value, value)
    table: Float32Array = value.astype(np.float32)
    table.setflags(write=False)
    return table


def _ue8m0_table() -> Float32Array:
    table: Float32Array = np.ldexp(np.float32(1), np.arange(-127, 129).clip(max=127)).astype(np.float32)
    table[UE8M0_NAN] = np.nan
    table.setflags(write=False)
    return table


_TABLES = {name: _small_table(fmt) for name, fmt in FORMATS.items() if fmt.width <= 8} | {
    "ue8m0": _ue8m0_table()
}


def decode(bits: UIntArray, fmt: str) -> Float32Array:
    """Exact float32 values of raw codes, same shape; bits above the format's width are ignored.

    `fmt` is one of e4m3 e5m2 e3m2 e2m3 e2m1 ue8m0 ue4m3 f16 bf16 tf32. tf32 is read as the tensor core reads
    it: the low 13 bits of the register are dropped. Raises ValueError for another format.
    """
    bits = np.asarray(bits)
    if fmt in _TABLES:
        table = _TABLES[fmt]
        return np.asarray(table[bits & (len(table) - 1)])
    with np.errstate(all="ignore"):
        if fmt == "f16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float32)
        if fmt == "bf16":
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if fmt == "tf32":
            return (bits.astype(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    raise ValueError(f"unknown format {fmt!r}; known are {', '.join([*FORMATS, 'ue8m0'])}")


def encode(
    values: npt.NDArray[Any], fmt: str, rounding: str = "rn", *, satfinite: bool = False, relu: bool = False
) -> UIntArray:
    """Raw codes of float32 or float64 values, rounded once; uint8, uint16 or (tf32) uint32, same shape.

    rounding: rn, rna (ties away from zero), rz, rm, rp; ue8m0 takes rz and rp of the magnitude, as `cvt`
    does. Overflow follows IEEE 754 for the rounding mode: to infinity, or NaN in e4m3, which has none;
    `satfinite` and the formats with neither (e3m2, e2m3, e2m1) clamp to the largest finite value. NaN gives
    the canonical NaN of the format, or the positive largest value where it has none. `relu` makes negative
    values, -0 included, +0. Negative values have no ue4m3 code and become 0.
    """
    values = np.asarray(values)
    if fmt == "f16" and rounding == "rn":
        with np.errstate(all="ignore"):
            magnitude_code = values.astype(np.float16).view(np.uint16)
        return _finish_half(magnitude_code, FORMATS[fmt], satfinite, relu)
    x = values if values.dtype == np.float32 else to_float32_odd(values.astype(np.float64))
    u = np.ascontiguousarray(x).view(np.uint32).reshape(x.shape)
    if fmt == "bf16" and rounding == "rn":
        nan = np.isnan(x)
        rounded = (u + (np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
        return _finish_half(
            np.where(nan, np.uint32(0x7FFF), rounded).astype(np.uint16), FORMATS[fmt], satfinite, relu
        )
    magnitude = (u & np.uint32(0x7FFFFFFF)).view(np.int32)
    if fmt == "ue8m0":
        return _encode_ue8m0(magnitude, rounding, satfinite)
    require_rounding(rounding, ("rn", "rna", "rz", "rm", "rp"))
    if fmt not in FORMATS:
        raise ValueError(f"unknown format {fmt!r}; known are {', '.join([*FORMATS, 'ue8m0'])}")
    f = FORMATS[fmt]
    negative = u.view(np.int32) < 0
    code = _round_magnitude(magnitude, negative, f, rounding)
    large = code > f.max_code
    if large.any():  # overflow, infinity or NaN
        overflow = f.max_code
        if not satfinite:
            overflow = next(c for c in (f.inf_code, f.nan_code, f.max_code) if c is not None)
        away = {"rn": True, "rna": True, "rz": False, "rm": negative, "rp": ~negative}[rounding]
        code = np.where(large, np.where((magnitude == _INF) | away, overflow, f.max_code), code)
        nan = magnitude > _INF
        code = np.where(nan, f.max_code if f.nan_code is None else f.nan_code, code)
        negative = negative & ~nan
    if relu or not f.signed:
        code = np.where(negative, 0, code)
    else:
        code = code | (negative * np.int32(1 << (f.width - 1 - f.pad)))
    return np.asarray((code << f.pad).astype(f.dtype))


def _finish_half(code: UIntArray, f: Format, satfinite: bool, relu: bool) -> npt.NDArray[np.uint16]:
    """uint16 codes of f16 or bf16, rounded already, with NaN made canonical, clamped as asked."""
    magnitude = code & np.uint16(0x7FFF)
    special = magnitude > f.max_code
    if special.any():
        if satfinite:
            code = np.where(special, (code & np.uint16(0x8000)) | np.uint16(f.max_code), code)
        code = np.where(magnitude > f.max_code + 1, np.uint16(0x7FFF), code)
    if relu:
        code = np.where(code > 0x7FFF, np.uint16(0), code)
    return np.asarray(code)


def _round_magnitude(
    magnitude: npt.NDArray[np.int32], negative: npt.NDArray[np.bool_], f: Format, rounding: str
) -> npt.NDArray[np.int32]:
    """Codes of float32 magnitudes (raw bits) before overflow; a carry runs into the next binade."""
    field = magnitude >> 23
    significand = (magnitude & 0x7FFFFF) | (np.minimum(field, 1) << 23)
    above = np.maximum(field, 1) - (128 - f.bias)  # exponent above the format's smallest normal
    shift = np.minimum(23 - f.mantissa - np.minimum(above, 0), 30)
    base = np.maximum(above, 0) << f.mantissa
    if rounding == "rn":  # half a unit less one, and one more where the kept part is odd
        return np.asarray(
            base + ((significand + (((1 << (shift - 1)) - 1) + ((significand >> shift) & 1))) >> shift)
        )
    if rounding == "rna":
        return np.asarray(base + ((significand + (1 << (shift - 1))) >> shift))
    kept = base + (significand >> shift)
    if rounding == "rz":
        return np.asarray(kept)
    inexact = (significand & ((1 << shift) - 1)) != 0
    return np.asarray(kept + (inexact & (negative == (rounding == "rm"))))


def _encode_ue8m0(magnitude: npt.NDArray[np.int32], rounding: str, satfinite: bool) -> npt.NDArray[np.uint8]:
    """2^(code-127) below (rz) or above (rp) the magnitude; below 2^-127 is code 0; the sign is ignored."""
    require_rounding(rounding, ("rz", "rp"))
    code = magnitude >> 23
    if rounding == "rp":
        least = 0x00400000  # 2^-127
        code += ((magnitude & 0x7FFFFF) != 0) & (magnitude > least) & (magnitude < _INF)
    code = np.minimum(code, UE8M0_NAN - 1 if satfinite else UE8M0_NAN)
    return np.asarray(np.where(magnitude > _INF, UE8M0_NAN, code).astype(np.uint8))
