from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gen.ptx.numerics import float32

from .exact import F32, round_exact, same

ROUNDINGS = ("rn", "rz", "rm", "rp")
SPECIAL = np.array(
    [
        0x0,
        0x80000000,
        0x1,
        0x80000001,
        0x7FFFFF,
        0x800000,
        0x807FFFFF,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x3F800000,
        0xBF800000,
        0x3F7FFFFF,
        0x3F800001,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0xFFC12345,
    ],
    dtype=np.uint32,
).view(np.float32)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
near = st.builds(lambda s, e: s * 2.0**e, st.integers(-(2**24), 2**24), st.integers(-149, -120))
number = st.one_of(finite, near, st.sampled_from([float(x) for x in SPECIAL if np.isfinite(x)]))


def f32(*values):
    return [np.array([v], dtype=np.float32) for v in values]


def check(got, exact, rounding):
    wanted = np.array([round_exact(exact, F32, rounding)], dtype=np.float32)
    assert got.dtype == np.float32
    if exact == 0:
        assert got[0] == 0
    else:
        assert same(got, wanted).all(), (got, wanted, rounding)


@settings(max_examples=300, deadline=None)
@given(number, number, number)
def test_arithmetic_rounds_once(x, y, z):
    a, b, c = f32(x, y, z)
    fa, fb, fc = Fraction(x), Fraction(y), Fraction(z)
    for r in ROUNDINGS:
        check(float32.add(a, b, r), fa + fb, r)
        check(float32.sub(a, b, r), fa - fb, r)
        check(float32.mul(a, b, r), fa * fb, r)
        check(float32.fma(a, b, c, r), fa * fb + fc, r)
        if y != 0:
            check(float32.div(a, b, r), fa / fb, r)
            check(float32.rcp(b, r), 1 / fb, r)


def test_fma_next_to_cancellation_and_ties():
    rng = np.random.default_rng(5)
    a = np.ldexp(rng.integers(2**23, 2**24, 4000).astype(np.float32), rng.integers(-80, 5, 4000))
    b = np.ldexp(rng.integers(2**23, 2**24, 4000).astype(np.float32), rng.integers(-80, 5, 4000))
    c = (-(a.astype(np.float64) * b)).astype(np.float32)
    c = np.where(rng.random(4000) < 0.5, c, np.ldexp(c, rng.integers(-60, 40, 4000)).astype(np.float32))
    a, b, c = (v.astype(np.float32) for v in (a, b, c))
    keep = np.isfinite(c)
    a, b, c = a[keep], b[keep], c[keep]
    for r in ROUNDINGS:
        exact = [
            Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            for x, y, z in zip(a, b, c, strict=True)
        ]
        wanted = np.array([round_exact(e, F32, r) for e in exact], dtype=np.float32)
        got = float32.fma(a, b, c, r)
        nonzero = np.array([e != 0 for e in exact])
        assert same(got, wanted)[nonzero].all()
        assert (got[~nonzero] == 0).all()


def test_fma_breaks_a_tie_by_a_term_far_below():
    a, b, c = f32(1 + 2.0**-12, 1 + 2.0**-12, 2.0**-149)  # 1 + 2^-11 + 2^-24: a tie at 24 bits, but for c
    assert float32.fma(a, b, c)[0] == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert float32.fma(a, b, -c)[0] == np.float32(1 + 2.0**-11)


def test_fma_rounds_once_among_subnormals():
    # The product is 2^-150 (1 - 2^-46): just under the tie between odd c and the even value above it.
    a, b, c = f32(2.0**-52 - 2.0**-75, 2.0**-52 + 2.0**-75, 2.0**-130 + 2.0**-149)
    product = np.ldexp(a, -23), np.ldexp(b, -23)
    assert float32.fma(*product, c)[0] == c[0]


@settings(max_examples=200, deadline=None)
@given(number.map(abs))
def test_sqrt_rounds_once(x):
    (a,) = f32(x)
    if x == 0:
        return
    for r in ROUNDINGS:
        root = float(float32.sqrt(a, r)[0])
        below, above = (
            float(np.nextafter(np.float32(root), np.float32(0))),
            float(np.nextafter(np.float32(root), np.inf)),
        )
        square = Fraction(x)
        if r == "rn":
            low, high = (Fraction(root) + Fraction(below)) / 2, (Fraction(root) + Fraction(above)) / 2
            assert low**2 <= square <= high**2
        elif r == "rp":
            assert Fraction(below) ** 2 < square <= Fraction(root) ** 2
        else:
            assert Fraction(root) ** 2 <= square < Fraction(above) ** 2


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_special_values_follow_ieee(rounding):
    a, b = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        plain = {"add": a + b, "mul": a * b, "div": a / b, "fma": a * b + np.float32(1)}
    got = {
        "add": float32.add(a, b, rounding),
        "mul": float32.mul(a, b, rounding),
        "div": float32.div(a, b, rounding),
        "fma": float32.fma(a, b, np.ones_like(a), rounding),
    }
    for name, wanted in plain.items():
        special = np.isnan(wanted) | ~np.isfinite(a) | ~np.isfinite(b)
        assert same(got[name], wanted)[special].all()
        assert (got[name][np.isnan(wanted)].view(np.uint32) == 0x7FFFFFFF).all()
    assert same(
        float32.sqrt(np.float32([-0.0, -1, np.inf]), rounding), np.float32([-0.0, np.nan, np.inf])
    ).all()


def test_exact_zero_sum_is_negative_only_rounding_down():
    one, zero = f32(1.0, 0.0)
    for r in ROUNDINGS:
        for got in (float32.add(one, -one, r), float32.fma(one, one, -one, r), float32.add(zero, -zero, r)):
            assert got[0] == 0 and np.signbit(got[0]) == (r == "rm")
        assert not np.signbit(float32.add(zero, zero, r))[0]
        assert np.signbit(float32.add(-zero, -zero, r))[0]


def test_ftz_flushes_inputs_and_results_keeping_signs():
    tiny, normal = np.float32([1e-40, -1e-40]), np.float32([2.0**-126, -(2.0**-126)])
    for r in ROUNDINGS:
        assert same(float32.add(tiny, tiny, r, True), np.float32([0, -0.0])).all()
        assert same(float32.mul(normal, np.float32([0.5, 0.5]), r, True), np.float32([0, -0.0])).all()
        assert same(float32.fma(normal, np.float32([0.5]), tiny, r, True), np.float32([0, -0.0])).all()
        assert same(float32.rcp(tiny, r, True), np.float32([np.inf, -np.inf])).all()
        assert same(float32.sqrt(tiny, r, True), np.float32([0, -0.0])).all()
        assert float32.mul(normal, np.float32([0.5]), r)[0] == 2.0**-127


def test_sat_clamps_to_the_unit_interval_and_nan_to_zero():
    x = np.float32([-2, -0.0, 0.25, 1, 3, np.inf, -np.inf, np.nan])
    wanted = np.float32([0, 0, 0.25, 1, 1, 1, 0, 0])
    assert same(float32.mul(x, np.ones_like(x), sat=True), wanted).all()
    assert same(float32.fma(x, np.ones_like(x), np.zeros_like(x), "rz", False, True), wanted).all()


def reference_select(x, y, smaller, nan, xorsign):
    sign = np.signbit(x) ^ np.signbit(y)
    if xorsign:
        x, y = abs(x), abs(y)
    if (np.isnan(x) and np.isnan(y)) or (nan and (np.isnan(x) or np.isnan(y))):
        return np.float32(np.nan)
    if np.isnan(x) or np.isnan(y):
        d = y if np.isnan(x) else x
    else:
        key = sorted([x, y], key=lambda v: (v, not np.signbit(v)))
        d = key[0] if smaller else key[1]
    return -d if xorsign and sign else d


@pytest.mark.parametrize("xorsign", [False, True])
@pytest.mark.parametrize("nan", [False, True])
def test_minimum_and_maximum(nan, xorsign):
    a, b = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    for function, smaller in ((float32.minimum, True), (float32.maximum, False)):
        got = function(a, b, nan=nan, xorsign_abs=xorsign)
        wanted = np.float32(
            [reference_select(x, y, smaller, nan, xorsign) for x, y in zip(a, b, strict=True)]
        )
        assert same(got, wanted).all()
        assert (got[np.isnan(got)].view(np.uint32) == 0x7FFFFFFF).all()
    assert same(
        float32.minimum(np.float32([1e-40]), np.float32([-1e-40]), ftz=True), np.float32([-0.0])
    ).all()


def test_neg_and_abs_change_only_the_sign_of_numbers():
    raw, nan = SPECIAL.view(np.uint32), np.isnan(SPECIAL)
    for got, plain in (
        (float32.neg(SPECIAL), raw ^ np.uint32(1 << 31)),
        (float32.abs_(SPECIAL), raw & np.uint32(2**31 - 1)),
    ):
        np.testing.assert_array_equal(got.view(np.uint32), np.where(nan, np.uint32(0x7FFFFFFF), plain))
    assert float32.neg(np.float32([1e-40]), True).view(np.uint32)[0] == 0x80000000


def test_unknown_rounding_is_refused():
    for call in (
        lambda a: float32.add(a, a, "rna"),
        lambda a: float32.mul(a, a, "x"),
        lambda a: float32.sqrt(a, "x"),
    ):
        with pytest.raises(ValueError, match="rounding"):
            call(np.float32([1.0]))
