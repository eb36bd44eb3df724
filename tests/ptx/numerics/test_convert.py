import math
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from gen.ptx.numerics.convert import convert, convert_x2, unpack_x2
from gen.ptx.numerics.formats import decode, encode

from .exact import BF16, F16, F32, F64, round_exact

ALL = np.arange(65536, dtype=np.uint16)
INTEGERS = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
}
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
NARROW = {
    "e4m3x2": ml_dtypes.float8_e4m3fn,
    "e5m2x2": ml_dtypes.float8_e5m2,
    "e3m2x2": ml_dtypes.float6_e3m2fn,
    "e2m3x2": ml_dtypes.float6_e2m3fn,
    "e2m1x2": ml_dtypes.float4_e2m1fn,
}


def raw(values, fmt):
    """float64 values that the format holds, as its register."""
    return {"f32": lambda: values.astype(np.float32), "f64": lambda: values}.get(
        fmt, lambda: encode(values, fmt)
    )()


def values_of(register, fmt):
    return register.astype(np.float64) if fmt in ("f32", "f64") else decode(register, fmt).astype(np.float64)


def integer_samples(dtype):
    info = np.iinfo(dtype)
    powers = [s * (1 << e) + d for e in range(info.bits) for d in (-1, 0, 1) for s in (1, -1)]
    ties = [(1 << 62) + (1 << 38), (1 << 62) + (1 << 38) + 1, (1 << 62) + (1 << 9), (1 << 62) + (1 << 9) + 1]
    rng = np.random.default_rng(1)
    spread = [
        int(x) >> int(s)
        for x, s in zip(rng.integers(-(2**63), 2**63, 500), rng.integers(0, 60, 500), strict=True)
    ]
    kept = [v for v in powers + ties + spread + [info.max, info.min] if info.min <= v <= info.max]
    return np.array(kept, dtype=dtype)


@pytest.mark.parametrize("dst", FLOATS)
@pytest.mark.parametrize("src", INTEGERS)
def test_integer_to_float_rounds_once(src, dst):
    x = integer_samples(INTEGERS[src])
    for mode in ("rn", "rz", "rm", "rp"):
        wanted = np.array([round_exact(Fraction(int(v)), FLOATS[dst], mode) for v in x])
        np.testing.assert_array_equal(values_of(convert(x, dst, src, mode), dst), wanted)


@pytest.mark.parametrize("src", INTEGERS)
def test_integer_to_integer_wraps_or_saturates(src):
    x = integer_samples(INTEGERS[src])
    for dst, dtype in INTEGERS.items():
        info = np.iinfo(dtype)
        got = convert(x, dst, src)
        assert got.dtype == dtype
        assert all((int(g) - int(v)) % (1 << info.bits) == 0 for g, v in zip(got, x, strict=True))
        clamped = [min(max(int(v), info.min), info.max) for v in x]
        assert convert(x, dst, src, sat=True).tolist() == clamped


@pytest.mark.parametrize("src", FLOATS)
@pytest.mark.parametrize("dst", INTEGERS)
def test_float_to_integer_rounds_clamps_and_handles_nan(dst, src):
    info = np.iinfo(INTEGERS[dst])
    edges = np.ldexp(1.0, np.arange(-3, 70))
    x = np.concatenate(
        [edges, edges * 1.5, edges - 1, edges + 1, edges - 0.5, edges + 0.5, [0, 0.1, 0.5, 2.5, 3e38]]
    )
    x = np.concatenate([x, -x])
    x = values_of(raw(x, src), src) if src != "f32" else x.astype(np.float32).astype(np.float64)
    x = x[np.isfinite(x)]
    for mode, function in (("rni", round), ("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)):
        wanted = [min(max(function(Fraction(float(v))), info.min), info.max) for v in x]
        assert convert(raw(x, src), dst, src, mode).tolist() == wanted
        special = convert(raw(np.array([np.inf, -np.inf, np.nan, -np.nan]), src), dst, src, mode)
        wide = src == "f64" or info.bits == 64
        nan = np.array(1 << (info.bits - 1) if wide else 0, dtype=np.uint64).astype(INTEGERS[dst])
        assert special.tolist() == [info.max, info.min, nan, nan]


@pytest.mark.parametrize("dst", FLOATS)
@pytest.mark.parametrize("src", FLOATS)
def test_float_to_float_rounds_once(src, dst):
    rng = np.random.default_rng(4)
    x = np.ldexp(rng.integers(-(2**53), 2**53, 1500).astype(np.float64), rng.integers(-200, 74, 1500))
    x = np.concatenate([x, x.astype(np.float32).astype(np.float64) * (1 + 2.0**-30), [5e-324, 1e300, -1e300]])
    with np.errstate(over="ignore"):
        register = raw(x, src)
    x = values_of(register, src)
    keep = np.isfinite(x) & (x != 0)
    for mode in ("rn", "rz", "rm", "rp"):
        wanted = np.array([round_exact(Fraction(float(v)), FLOATS[dst], mode) for v in x[keep]])
        got = values_of(convert(register, dst, src, mode), dst)[keep]
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_integral_rounding_of_floats():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e30, 0.0, -0.0, np.inf])
    functions = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    for fmt in FLOATS:
        for mode, function in functions.items():
            with np.errstate(over="ignore"):
                got = values_of(convert(raw(x, fmt), fmt, fmt, mode), fmt)
                wanted = function(values_of(raw(x, fmt), fmt))
            np.testing.assert_array_equal(got, wanted)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
    with pytest.raises(ValueError, match="integral"):
        convert(np.float32([1.5]), "f64", "f32", "rni")


def test_sat_ftz_and_nan():
    x = np.float32([-1, -0.0, 0.25, 7, np.inf, -np.inf, np.nan])
    for dst in FLOATS:
        wanted = [0, 0, 0.25, 1, 1, 0, 0]
        got = values_of(convert(x, dst, "f32", "rn", sat=True), dst)
        np.testing.assert_array_equal(got, wanted)
        assert not np.signbit(got).any()
    tiny = np.float32([1e-40, -1e-40])
    assert convert(tiny, "f32", "f32", ftz=True).view(np.uint32).tolist() == [0, 1 << 31]
    assert convert(tiny, "f64", "f32", ftz=True).tolist() == [0, 0]
    assert convert(tiny, "s32", "f32", "rpi", ftz=True).tolist() == [0, 0]
    assert convert(tiny, "s32", "f32", "rpi").tolist() == [1, 0]
    assert convert(np.array([1e-40]), "f32", "f64", "rp", ftz=True)[0] == 0
    assert convert(np.array([np.nan]), "f32", "f64", "rn").view(np.uint32)[0] == 0x7FC00000
    assert convert(np.array([0xFE00], np.uint16), "f32", "f16").view(np.uint32)[0] == 0x7FFFFFFF


def test_tf32():
    x = np.float32([1 + 2.0**-11, -(1 + 2.0**-11), 1 + 3 * 2.0**-11, 3.4027e38, np.inf, -2.0])
    as_float = lambda r: r.view(np.float32).tolist()  # noqa: E731
    assert as_float(convert(x, "tf32", "f32", "rna"))[:3] == [1 + 2.0**-10, -(1 + 2.0**-10), 1 + 2.0**-9]
    assert as_float(convert(x, "tf32", "f32", "rn"))[:3] == [1, -1, 1 + 2.0**-9]
    assert as_float(convert(x, "tf32", "f32", "rz", relu=True))[1:3] == [0, 1 + 2.0**-10]
    assert convert(x, "tf32", "f32", "rna", satfinite=True)[3:5].tolist() == [0x7F7FE000] * 2


def test_relu_and_satfinite_to_half():
    x = np.float32([-3, 1e6, -1e6, np.inf, np.nan, -0.0])
    got = decode(convert(x, "f16", "f32", "rn", relu=True, satfinite=True), "f16")
    np.testing.assert_array_equal(got, [0, 65504, 0, 65504, np.nan, 0])
    assert not np.signbit(got).any()


@pytest.mark.parametrize("dst", NARROW)
@pytest.mark.parametrize("src", ["f16", "bf16"])
def test_every_half_to_narrow_pair(dst, src):
    fmt = dst.removesuffix("x2")
    values = decode(ALL, src)
    top = float(ml_dtypes.finfo(NARROW[dst]).max)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.clip(values, -top, top).astype(NARROW[dst]).view(np.uint8)
    nan = {"e4m3": 0x7F, "e5m2": 0x7F, "e3m2": 0x1F, "e2m3": 0x1F, "e2m1": 0x7}[fmt]
    wanted = np.where(np.isnan(values), nan, wanted)
    other = wanted[::-1]
    stride = 4 if fmt == "e2m1" else 8
    packed = convert_x2(dst, f"{src}x2", ALL, ALL[::-1], satfinite=True)
    assert packed.dtype == (np.uint8 if stride == 4 else np.uint16)
    np.testing.assert_array_equal(packed, (wanted.astype(np.uint16) << stride) | other)
    np.testing.assert_array_equal(convert_x2(dst, "f32", values, values[::-1], satfinite=True), packed)
    relu = convert_x2(dst, "f32", values, values, satfinite=True, relu=True)
    zeroed = np.where((np.signbit(values)) & ~np.isnan(values), 0, wanted).astype(np.uint16)
    np.testing.assert_array_equal(relu, (zeroed << stride) | zeroed)


@pytest.mark.parametrize("src", [*NARROW, "ue8m0x2"])
def test_every_narrow_pair_to_half(src):
    fmt, stride = src.removesuffix("x2"), 4 if src == "e2m1x2" else 8
    width = {"e3m2": 6, "e2m3": 6, "e2m1": 4}.get(fmt, 8)
    hi, lo = (v.ravel() for v in np.meshgrid(np.arange(1 << width), np.arange(1 << width)))
    dst = "bf16x2" if fmt == "ue8m0" else "f16x2"
    got = unpack_x2(dst, src, (hi << stride) | lo)
    assert got.dtype == np.uint32
    half = dst.removesuffix("x2")
    np.testing.assert_array_equal(decode(got >> 16, half), decode(hi, fmt))
    np.testing.assert_array_equal(decode(got & 0xFFFF, half), decode(lo, fmt))
    nan = np.isnan(decode(hi, fmt))
    assert ((got >> 16)[nan] == 0x7FFF).all()
    relu = decode(unpack_x2(dst, src, (hi << stride) | lo, relu=True) & 0xFFFF, half)
    np.testing.assert_array_equal(relu, np.maximum(decode(lo, fmt), 0))


def test_packing_order_and_ue8m0():
    one, two = np.float32([1.0]), np.float32([2.0])
    assert convert_x2("f16x2", "f32", one, two)[0] == 0x3C004000
    assert convert_x2("bf16x2", "f32", one, two, "rz")[0] == 0x3F804000
    assert convert_x2("ue8m0x2", "f32", one, two * 1.5, "rp", satfinite=True)[0] == 0x7F81
    assert convert_x2("ue8m0x2", "bf16x2", encode(one, "bf16"), encode(two * 1.5, "bf16"), "rz")[0] == 0x7F80
    assert convert_x2("e2m1x2", "f32", one, two)[0] == 0x24


def test_what_does_not_exist_is_refused():
    x = np.float32([1.0])
    for args in (
        ("f16", "f32"),
        ("s32", "f32"),
        ("f32", "s32"),
        ("s32", "f32", "rn"),
        ("f32", "f8"),
        ("f32", "f64", "rx"),
    ):
        with pytest.raises(ValueError, match=r"cvt|rounding"):
            convert(x, *args)
    with pytest.raises(ValueError, match="packed"):
        convert_x2("e4m4x2", "f32", x, x)
    with pytest.raises(ValueError, match="only"):
        unpack_x2("f16x2", "ue8m0x2", np.uint16([1]))
