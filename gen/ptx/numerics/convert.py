"""`cvt`: scalar conversions, and the packed x2 conversions of the narrow formats.

Integers are NumPy integer arrays, `.f32` and `.f64` floating-point arrays, `.f16`, `.bf16`, `.tf32` and
narrower raw unsigned bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gen.ptx.numerics import float32, float64
from gen.ptx.numerics.formats import decode, encode
from gen.ptx.numerics.rounding import Float64Array, require_rounding, sum_to_odd, to_float32

Array = npt.NDArray[Any]

_INTEGERS: dict[str, type[np.integer[Any]]] = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
}  # fmt: skip
_FLOATS = ("f16", "bf16", "tf32", "f32", "f64")
_SIGNIFICANT_BITS = {"f16": 11, "bf16": 8, "tf32": 11, "f32": 24, "f64": 53}
_TO_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
# Packed types: the element format and the bits from one element to the next.
_PACKED = {
    "e4m3x2": ("e4m3", 8), "e5m2x2": ("e5m2", 8), "e3m2x2": ("e3m2", 8), "e2m3x2": ("e2m3", 8),
    "e2m1x2": ("e2m1", 4), "ue8m0x2": ("ue8m0", 8), "f16x2": ("f16", 16), "bf16x2": ("bf16", 16),
}  # fmt: skip
_PACKED_DTYPE = {4: np.uint8, 8: np.uint16, 16: np.uint32}


def convert(
    src: Array,
    dst_type: str,
    src_type: str,
    rounding: str | None = None,
    *,
    ftz: bool = False,
    sat: bool = False,
    satfinite: bool = False,
    relu: bool = False,
) -> Array:
    """`cvt{.rounding}{.ftz}{.sat}{.satfinite}{.relu}.dst_type.src_type`, same shape.

    Types are u8..u64, s8..s64, f16, bf16, tf32 (raw uint32), f32, f64. Rounding is rn, rz, rm, rp (and rna to
    tf32) to a floating-point type, and rni, rzi, rmi, rpi to an integer or to integral values of the same
    float type; it is required wherever the conversion may be inexact.

    Float to integer clamps; NaN gives 0, or the most significant bit alone when either type has 64 bits.
    Integer to integer keeps the low bits, or clamps with `sat`; `sat` to a float clamps to [0, 1] with NaN as
    +0. `ftz` flushes f32 subnormal inputs and results. Raises ValueError for a type or rounding that does not
    apply.
    """
    for name in (dst_type, src_type):
        if name not in _INTEGERS and name not in _FLOATS:
            raise ValueError(
                f"cvt.{dst_type}.{src_type}: unknown type {name}; known are {[*_INTEGERS, *_FLOATS]}"
            )
    src = np.asarray(src)
    with np.errstate(all="ignore"):
        if src_type in _INTEGERS:
            src = src.astype(_INTEGERS[src_type])
            if dst_type in _INTEGERS:
                return _integer_to_integer(src, dst_type, sat)
            return _integer_to_float(src, dst_type, rounding, sat)
        if src_type == "f32" and ftz:
            src = float32.canonical(float32.flush(src))
        value = src if src_type in ("f32", "f64") else decode(src, src_type)
        if dst_type in _INTEGERS:
            require_rounding(rounding or "none", tuple(_TO_INTEGRAL))
            return _float_to_integer(value.astype(np.float64), dst_type, src_type, rounding or "")
        if rounding in _TO_INTEGRAL:
            if dst_type != src_type:
                raise ValueError(
                    f"cvt.{rounding}.{dst_type}.{src_type}: integral rounding keeps the float type"
                )
            value, rounding = np.asarray(_TO_INTEGRAL[rounding](value)), "rn"
        if rounding is None:
            if not _widens(dst_type, src_type):
                raise ValueError(f"cvt.{dst_type}.{src_type} may be inexact: give rn, rz, rm or rp")
            rounding = "rn"
        if ftz and src_type == "f64" and dst_type == "f32":
            value = float32.flush_exact(value.astype(np.float64), rounding)
        result = _to_float(value, dst_type, rounding, ftz=ftz, sat=sat, satfinite=satfinite, relu=relu)
        if not sat and (kept := _kept_nans(src, dst_type, src_type, rounding, satfinite)) is not None:
            bits = f"u{result.itemsize}"
            result = np.where(np.isnan(value), kept.astype(bits), result.view(bits)).view(result.dtype)
        return result


def _kept_nans(src: Array, dst_type: str, src_type: str, rounding: str, satfinite: bool) -> Array | None:
    """Bits of NaN results where sm_90 makes them of the source's bits; None where they are canonical.

    From f64 the sign and the upper payload are kept, quiet; bf16 is shifted into f32; rna to tf32 drops the
    lower bits, of signaling NaNs down to infinity, and `satfinite` steps down from there.
    """
    if src_type == "f64" and dst_type in ("f16", "bf16", "f32"):
        width, mantissa = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23)}[dst_type]
        bits = src.view(np.uint64)
        exponent = np.uint64((1 << width - 1) - (1 << mantissa) | 1 << mantissa - 1)
        payload = (bits >> np.uint64(52 - mantissa)) & np.uint64((1 << mantissa) - 1)
        return np.asarray(((bits >> np.uint64(63)) << np.uint64(width - 1)) | exponent | payload)
    if (dst_type, src_type) == ("f32", "bf16"):
        return np.asarray(src.astype(np.uint32) << np.uint32(16))
    if dst_type == "tf32" and rounding == "rna":
        dropped = src.view(np.uint32) & np.uint32(0xFFFFE000)
        return np.asarray(dropped - np.uint32(0x2000) if satfinite else dropped)
    return None


def convert_x2(
    dst_type: str,
    src_type: str,
    hi: Array,
    lo: Array,
    rounding: str = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
) -> Array:
    """Two values converted and packed, `hi` in the upper half, as in `cvt.dst_type.f32 d, hi, lo`.

    dst_type: e4m3x2 e5m2x2 e3m2x2 e2m3x2 ue8m0x2 (uint16 result; 6-bit codes padded with zeros), e2m1x2
    (uint8), f16x2 bf16x2 (uint32). src_type: "f32" for float32 arrays, "f16x2" or "bf16x2" for the raw halves
    of a packed source. Raises ValueError for another type.
    """
    if dst_type not in _PACKED or src_type not in ("f32", "f16x2", "bf16x2"):
        raise ValueError(
            f"cvt.{dst_type}.{src_type}: not a packed conversion; targets are {', '.join(_PACKED)}"
        )
    fmt, stride = _PACKED[dst_type]
    dtype = _PACKED_DTYPE[stride]
    codes = [
        encode(v if src_type == "f32" else decode(v, src_type.removesuffix("x2")), fmt, rounding,
               satfinite=satfinite, relu=relu).astype(dtype)
        for v in (hi, lo)
    ]  # fmt: skip
    return np.asarray((codes[0] << dtype(stride)) | codes[1])


def unpack_x2(dst_type: str, src_type: str, packed: Array, *, relu: bool = False) -> npt.NDArray[np.uint32]:
    """Two narrow codes converted to packed f16x2 or bf16x2 (uint32), halves in order; always exact.

    src_type: e4m3x2 e5m2x2 e3m2x2 e2m3x2 e2m1x2 to f16x2, ue8m0x2 to bf16x2. Raises ValueError otherwise.
    """
    if src_type not in _PACKED or dst_type != ("bf16x2" if src_type == "ue8m0x2" else "f16x2"):
        raise ValueError(
            f"cvt.{dst_type}.{src_type}: only ue8m0x2 to bf16x2, the other narrow types to f16x2"
        )
    fmt, stride = _PACKED[src_type]
    packed = np.asarray(packed).astype(np.uint32)
    wide = dst_type.removesuffix("x2")
    mask = np.uint32((1 << stride) - 1)
    halves = ((packed >> np.uint32(stride)) & mask, packed & mask)
    hi, lo = (encode(decode(codes, fmt), wide, relu=relu).astype(np.uint32) for codes in halves)
    return np.asarray((hi << np.uint32(16)) | lo)


def _widens(dst_type: str, src_type: str) -> bool:
    """Whether every finite value of a float type is one of another."""
    return (
        dst_type == src_type
        or (src_type, dst_type) == ("tf32", "f32")
        or dst_type == "f64"
        or (dst_type == "f32" and src_type in ("f16", "bf16"))
    )


def _integer_to_integer(src: Array, dst_type: str, sat: bool) -> Array:
    if sat:
        limits, own = np.iinfo(_INTEGERS[dst_type]), np.iinfo(src.dtype)
        src = src.clip(max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max)))
    return src.astype(_INTEGERS[dst_type])


def _float_to_integer(value: Float64Array, dst_type: str, src_type: str, rounding: str) -> Array:
    limits = np.iinfo(_INTEGERS[dst_type])
    wide = src_type == "f64" or limits.bits == 64
    whole = np.asarray(_TO_INTEGRAL[rounding](value))
    # float(max) of 64 bits rounds up to 2^63 or 2^64, which itself must clamp.
    high = whole >= float(limits.max)
    low = whole <= float(limits.min)
    result = np.asarray(whole.astype(_INTEGERS[dst_type]))
    result[high], result[low] = limits.max, limits.min
    nan_code = np.array(1 << (limits.bits - 1) if wide else 0, dtype=np.uint64).astype(_INTEGERS[dst_type])
    result[np.isnan(value)] = nan_code
    return result


def _integer_to_float(src: Array, dst_type: str, rounding: str | None, sat: bool) -> Array:
    if rounding is None:
        if src.dtype.itemsize * 8 > _SIGNIFICANT_BITS[dst_type]:
            raise ValueError(f"cvt.{dst_type} from {src.dtype} may be inexact: give rn, rz, rm or rp")
        rounding = "rn"
    if src.dtype.itemsize < 8:
        exact = src.astype(np.float64)
        return _to_float(exact, dst_type, rounding, sat=sat)
    high = (src >> src.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (src & src.dtype.type(0xFFFFFFFF)).astype(np.float64)
    if dst_type == "f64":
        return _to_float(float64.add(high, low, rounding), dst_type, rounding, sat=sat)
    return _to_float(sum_to_odd(high, low), dst_type, rounding, sat=sat)


def _to_float(
    value: Array,
    dst_type: str,
    rounding: str,
    *,
    ftz: bool = False,
    sat: bool = False,
    satfinite: bool = False,
    relu: bool = False,
) -> Array:
    """A float32 or float64 value clamped to [0, 1] if `sat`, then rounded to the type."""
    if sat:
        value = np.where(value > 0, np.minimum(value, 1.0), 0.0)
    if dst_type == "f64":
        require_rounding(rounding)
        return value.astype(np.float64)
    if dst_type == "f32":
        return float32.finish(to_float32(value, rounding), ftz, False)
    return encode(value, dst_type, rounding, satfinite=satfinite, relu=relu)
