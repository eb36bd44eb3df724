import ml_dtypes
import numpy as np
import pytest

from gen.ptx.numerics.formats import FORMATS, decode, encode

from .exact import round_by_table

ORACLE = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}
WIDTH = {"e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4, "ue8m0": 8, "f16": 16, "bf16": 16}
ROUNDINGS = ("rn", "rna", "rz", "rm", "rp")
MAX = {
    "e4m3": 448,
    "e5m2": 57344,
    "e3m2": 28,
    "e2m3": 7.5,
    "e2m1": 6,
    "f16": 65504,
    "bf16": 3.3895313892515355e38,
}


def codes(fmt):
    return np.arange(1 << WIDTH[fmt], dtype=np.uint16 if WIDTH[fmt] == 16 else np.uint8)


def magnitudes(fmt):
    """Finite non-negative values, indexed by code."""
    if fmt == "tf32":
        return (np.arange(0x3FC00, dtype=np.uint32) << 13).view(np.float32)
    v = decode(np.arange(1 << (WIDTH[fmt] - 1)), fmt)
    return v[np.isfinite(v)]


def neighbourhood(table):
    """Each value, each midpoint, and points just beside them, of both signs, with float64 resolution."""
    v = table.astype(np.float64)
    v = np.append(v, 2 * v[-1] - v[-2])
    points = np.concatenate([v, (v[1:] + v[:-1]) / 2, [2 * v[-1], 1e300, np.inf]])
    points = np.concatenate([points, points * (1 + 2.0**-45), points * (1 - 2.0**-45), [1e-300, 5e-324]])
    return np.concatenate([points, -points])


@pytest.mark.parametrize("fmt", ORACLE)
def test_decode_matches_every_code(fmt):
    raw = codes(fmt)
    wanted = raw.view(ORACLE[fmt]).astype(np.float32)
    got = decode(raw, fmt)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(wanted[~np.isnan(got)]))


def test_decode_ue4m3_ignores_the_sign_bit_and_tf32_the_low_bits():
    raw = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(decode(raw, "ue4m3"), decode(raw & np.uint8(0x7F), "e4m3"))
    np.testing.assert_array_equal(decode(np.array([0x3F801FFF, 0xBF803FFF]), "tf32"), [1.0, -(1 + 2.0**-10)])


@pytest.mark.parametrize("fmt", [f for f in ORACLE if f != "ue8m0"])
def test_encode_inverts_decode(fmt):
    raw = codes(fmt)
    values = decode(raw, fmt)
    finite = np.isfinite(values)
    np.testing.assert_array_equal(encode(values, fmt)[finite], raw[finite])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", [*MAX, "tf32"])
def test_encode_rounds_every_neighbourhood(fmt, rounding):
    table = magnitudes(fmt)
    if fmt == "tf32":
        table = np.concatenate([table[:3000], table[-3000:]])
        skipped = 0x3FC00 - len(table)
    x = neighbourhood(table)
    if fmt == "tf32":  # nothing between the two ends of the table
        x = x[(np.abs(x) <= table[2999]) | (np.abs(x) >= table[3000])]
    code = round_by_table(x, table, rounding)
    last = len(table) - 1
    overflow = code > last
    negative = np.signbit(x)
    keeps = np.isfinite(x) & (
        (rounding == "rz") | ((rounding == "rm") & ~negative) | ((rounding == "rp") & negative)
    )
    if fmt in ("e3m2", "e2m3", "e2m1"):
        keeps |= True
    code = np.where(overflow & keeps, last, code)
    if fmt == "tf32":
        code = np.where(code >= 3000, code + skipped, code)
    special = {"e4m3": 0x7F, "e5m2": 0x7C, "f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x3FC00}.get(fmt, 0)
    code = np.where(overflow & ~keeps, special, code)
    sign = 1 << (18 if fmt == "tf32" else WIDTH[fmt] - 1)
    wanted = (code + np.where(negative, sign, 0)) << (13 if fmt == "tf32" else 0)
    got = encode(x, fmt, rounding)
    assert got.dtype == FORMATS[fmt].dtype
    bad = np.flatnonzero(got != wanted)
    assert bad.size == 0, (x[bad[:5]], got[bad[:5]], wanted[bad[:5]])
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    once = single == x
    np.testing.assert_array_equal(encode(single[once], fmt, rounding), got[once])


@pytest.mark.parametrize("fmt", MAX)
def test_satfinite_clamps_and_relu_zeroes(fmt):
    x = np.array([np.inf, -np.inf, 1e38 * 3.4, -1e300, -1.0, -0.0])
    np.testing.assert_array_equal(
        decode(encode(x, fmt, satfinite=True), fmt),
        np.array([1, -1, 1, -1, 0, 0]) * MAX[fmt] - [0, 0, 0, 0, 1, 0],
    )
    np.testing.assert_array_equal(
        decode(encode(x, fmt, satfinite=True, relu=True), fmt), np.array([1, 0, 1, 0, 0, 0]) * MAX[fmt]
    )
    assert not np.signbit(decode(encode(x, fmt, relu=True), fmt)).any()


@pytest.mark.parametrize(
    ("fmt", "code"),
    [
        ("e4m3", 0x7F),
        ("e5m2", 0x7F),
        ("e3m2", 0x1F),
        ("e2m3", 0x1F),
        ("e2m1", 7),
        ("ue8m0", 0xFF),
        ("ue4m3", 0x7F),
        ("f16", 0x7FFF),
        ("bf16", 0x7FFF),
        ("tf32", 0x7FFFE000),
    ],
)
def test_nan_is_canonical(fmt, code):
    nans = np.array([np.nan, -np.nan])
    rounding = "rz" if fmt == "ue8m0" else "rn"
    for satfinite in (False, True):
        assert (encode(nans, fmt, rounding, satfinite=satfinite) == code).all()
        assert (encode(nans.astype(np.float32), fmt, rounding, satfinite=satfinite) == code).all()


def test_ue8m0_brackets_the_magnitude():
    exponent = np.arange(-127, 128)
    power = np.ldexp(1.0, exponent)
    for x, rz, rp in [(power, exponent, exponent), (power * 1.5, exponent, exponent + 1)]:
        for sign in (1, -1):
            np.testing.assert_array_equal(encode(sign * x, "ue8m0", "rz"), rz + 127)
            np.testing.assert_array_equal(encode(sign * x, "ue8m0", "rp"), rp + 127)
    edges = np.array([0.0, 2.0**-130, 2.0**-127, 2.0**-127 * 1.01, 2.0**127 * 1.01, np.inf])
    np.testing.assert_array_equal(encode(edges, "ue8m0", "rz"), [0, 0, 0, 0, 254, 255])
    np.testing.assert_array_equal(encode(edges, "ue8m0", "rp"), [0, 0, 0, 1, 255, 255])
    np.testing.assert_array_equal(encode(edges, "ue8m0", "rp", satfinite=True), [0, 0, 0, 1, 254, 254])


def test_shapes_are_kept_and_unknown_names_refused():
    assert encode(np.ones((2, 3)), "bf16").shape == decode(np.ones((2, 3), np.uint8), "e4m3").shape == (2, 3)
    assert encode(np.float32(1.0), "f16").shape == ()
    for call in (
        lambda: decode(np.zeros(1), "e4m4"),
        lambda: encode(np.zeros(1), "e4m4"),
        lambda: encode(np.zeros(1), "e4m3", "rx"),
        lambda: encode(np.zeros(1), "ue8m0", "rn"),
    ):
        with pytest.raises(ValueError, match=r"unknown format|rounding"):
            call()
