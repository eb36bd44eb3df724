from fractions import Fraction

import numpy as np
import pytest

from gen.ptx.numerics.formats import decode, encode
from gen.ptx.numerics.half import arith

from .exact import BF16, F16, round_exact

FORMATS = {"f16": F16, "bf16": BF16}
ALL = np.arange(65536, dtype=np.uint16)
INF = {"f16": 0x7C00, "bf16": 0x7F80}


def finite_operands(fmt, n, seed):
    """Random codes, a third of them with exponents close together, a third subnormal or nearly so."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, INF[fmt], (3, n), dtype=np.uint16)
    mantissa = 10 if fmt == "f16" else 7
    raw[:, : n // 3] = (raw[:, : n // 3] & ((1 << mantissa) - 1)) | (
        rng.integers(12, 17, (3, n // 3)) << mantissa
    )
    raw[:, n // 3 : n // 2] &= (2 << mantissa) - 1
    return raw | (rng.integers(0, 2, (3, n), dtype=np.uint16) << 15).astype(np.uint16)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_arithmetic_rounds_once(op, fmt):
    a, b, c = finite_operands(fmt, 3000, 11)
    operands = (a, b, c)[: 3 if op == "fma" else 2]
    got = arith(op, fmt, *operands)
    assert got.dtype == np.uint16
    exact = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "fma": lambda x, y, z: x * y + z,
    }[op]
    values = [[Fraction(float(v)) for v in decode(o, fmt)] for o in operands]
    results = [exact(*v) for v in zip(*values, strict=True)]
    wanted = encode(
        np.array([round_exact(r, FORMATS[fmt], "rn") for r in results]), fmt
    )  # exact: already rounded
    nonzero = np.array([r != 0 for r in results])
    np.testing.assert_array_equal(got[nonzero], wanted[nonzero])
    assert (got[~nonzero] & 0x7FFF == 0).all()


def test_fma_breaks_a_tie_by_a_term_far_below():
    one_and_a_bit = encode(
        np.array([1 + 2.0**-6]), "f16"
    )  # squared: 1 + 2^-5 + 2^-12; with c a half unit more
    c = encode(np.array([2.0**-12]), "f16")
    tie = decode(arith("fma", "f16", one_and_a_bit, one_and_a_bit, c), "f16")
    assert tie[0] == 1 + 2.0**-5  # 2^-11 above is half a unit: to even
    big, tiny = encode(np.array([1 + 2.0**-7]), "bf16"), encode(np.array([2.0**-133, -(2.0**-133)]), "bf16")
    half_unit = encode(np.array([2.0**-8]), "bf16")
    one = encode(np.array([1.0]), "bf16")
    np.testing.assert_array_equal(decode(arith("fma", "bf16", one, half_unit, big), "bf16"), [1 + 2.0**-6])
    sum_ = arith("fma", "bf16", half_unit, encode(np.array([1 + 2.0**-7]), "bf16"), one)
    np.testing.assert_array_equal(decode(sum_, "bf16"), [1 + 2.0**-7])
    np.testing.assert_array_equal(decode(arith("fma", "bf16", tiny, one, big), "bf16"), [1 + 2.0**-7] * 2)


@pytest.mark.parametrize("fmt", FORMATS)
def test_special_values_and_canonical_nan(fmt):
    inf, ninf, nan, one = (encode(np.array([v]), fmt) for v in (np.inf, -np.inf, np.nan, 1.0))
    for op, operands in (
        ("add", (inf, ninf)),
        ("mul", (inf, one ^ one)),
        ("fma", (inf, one, ninf)),
        ("sub", (nan, one)),
        ("ex2", (nan,)),
        ("tanh", (nan | np.uint16(0x8000),)),
        ("min", (nan, nan | np.uint16(0x8000))),
    ):
        assert arith(op, fmt, *operands)[0] == 0x7FFF
    assert arith("sub", fmt, one, one)[0] == 0
    assert arith("fma", fmt, one, one, inf)[0] == INF[fmt]


@pytest.mark.parametrize("fmt", FORMATS)
def test_min_max_neg_abs_on_every_code(fmt):
    other = np.roll(ALL, 17 * 1021)
    a, b = decode(ALL, fmt), decode(other, fmt)
    both, either = np.isnan(a) & np.isnan(b), np.isnan(a) | np.isnan(b)
    for op, pick in (("min", np.fmin), ("max", np.fmax)):
        got = arith(op, fmt, ALL, other)
        np.testing.assert_array_equal(decode(got, fmt), pick(a, b))
        assert (got[both] == 0x7FFF).all()
        strict = arith(f"{op}.nan", fmt, ALL, other)
        assert (strict[either] == 0x7FFF).all()
        np.testing.assert_array_equal(strict[~either], got[~either])
    zeros = np.array([0, 0x8000], dtype=np.uint16)
    assert (arith("min", fmt, zeros, zeros[::-1]) == 0x8000).all()
    assert (arith("max", fmt, zeros, zeros[::-1]) == 0).all()
    nan = np.isnan(decode(ALL, fmt))
    for op, plain in (("neg", ALL ^ np.uint16(0x8000)), ("abs", ALL & np.uint16(0x7FFF))):
        np.testing.assert_array_equal(arith(op, fmt, ALL), np.where(nan, np.uint16(0x7FFF), plain))


@pytest.mark.parametrize("fmt", FORMATS)
def test_ex2_and_tanh_are_nearest_on_every_code(fmt):
    for op, function in (("ex2", np.exp2), ("tanh", np.tanh)):
        with np.errstate(all="ignore"):
            exact = function(decode(ALL, fmt).astype(np.longdouble))
        got = decode(arith(op, fmt, ALL), fmt)
        finite = np.isfinite(exact) & np.isfinite(got)
        code = arith(op, fmt, ALL)[finite]
        gap = np.abs(decode(code + np.uint16(1), fmt).astype(np.longdouble) - got[finite])  # spacing above
        gap = np.where(np.isfinite(gap), gap, np.inf)
        assert (np.abs(exact[finite] - got[finite]) <= gap * (0.5 + 1e-9)).all()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    special = encode(np.array([0.0, -0.0, np.inf, -np.inf, -1.0]), fmt)
    np.testing.assert_array_equal(decode(arith("ex2", fmt, special), fmt), [1, 1, np.inf, 0, 0.5])
    np.testing.assert_array_equal(arith("tanh", fmt, special[:4]), encode(np.array([0.0, -0.0, 1, -1]), fmt))


def test_ftz_sat_and_relu():
    tiny = np.array([0x0001, 0x83FF], dtype=np.uint16)
    one = np.array([0x3C00] * 2, dtype=np.uint16)
    np.testing.assert_array_equal(arith("mul", "f16", tiny, one, ftz=True), [0, 0x8000])
    np.testing.assert_array_equal(arith("mul", "f16", tiny, one), tiny)
    smallest, half = np.array([0x0400], dtype=np.uint16), np.array([0x3800], dtype=np.uint16)
    assert arith("mul", "f16", smallest, half, ftz=True)[0] == 0
    for fmt, unit in (("f16", 0x3C00), ("bf16", 0x3F80)):
        x = encode(np.array([-2, -0.0, 0.5, 3, np.inf, np.nan]), fmt)
        ones = np.full(6, unit, dtype=np.uint16)
        half_code = encode(np.array([0.5]), fmt)[0]
        np.testing.assert_array_equal(arith("mul", fmt, x, ones, sat=True), [0, 0, half_code, unit, unit, 0])
        np.testing.assert_array_equal(
            arith("fma", fmt, x, ones, ones ^ ones ^ np.uint16(0x8000), relu=True),
            [0, 0, half_code, x[3], INF[fmt], 0x7FFF],
        )


def test_unknown_operations_are_refused():
    for args in (("pow", "f16", ALL, ALL), ("add", "f32", ALL, ALL), ("fma", "f16", ALL, ALL)):
        with pytest.raises(ValueError, match="operands"):
            arith(*args)
