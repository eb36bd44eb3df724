from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gen.ptx.numerics import float64

from .exact import F64, round_exact, same

ROUNDINGS = ("rn", "rz", "rm", "rp")
SPECIAL = np.array(
    [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, 1.0, -1.0, np.inf, -np.inf, np.nan]
)
number = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(lambda s, e: s * 2.0**e, st.integers(-(2**53), 2**53), st.integers(-1074, -1000)),
    st.builds(lambda s, e: s * 2.0**e, st.integers(-(2**53), 2**53), st.integers(-545, -520)),
    st.builds(lambda s, e: s * 2.0**e, st.integers(-(2**53), 2**53), st.integers(-40, 40)),
    st.sampled_from([float(x) for x in SPECIAL if np.isfinite(x)]),
)


def check(got, exact, rounding):
    wanted = round_exact(exact, F64, rounding)
    if exact == 0:
        assert got[0] == 0
    else:
        assert same(got, np.array([wanted])).all(), (got, wanted, rounding)


@settings(max_examples=400, deadline=None)
@given(number, number, number)
def test_arithmetic_rounds_once(x, y, z):
    a, b, c = (np.array([v]) for v in (x, y, z))
    fa, fb, fc = Fraction(x), Fraction(y), Fraction(z)
    for r in ROUNDINGS:
        check(float64.add(a, b, r), fa + fb, r)
        check(float64.sub(a, b, r), fa - fb, r)
        check(float64.mul(a, b, r), fa * fb, r)
        check(float64.fma(a, b, c, r), fa * fb + fc, r)
        if y != 0:
            check(float64.div(a, b, r), fa / fb, r)
            check(float64.rcp(b, r), 1 / fb, r)


def test_fma_next_to_cancellation_and_in_the_subnormal_range():
    rng = np.random.default_rng(3)
    n = 3000
    a, b = (
        np.ldexp(rng.integers(2**52, 2**53, n).astype(np.float64), rng.integers(-590, -560, n))
        for _ in range(2)
    )
    c = -(a * b)
    c = np.where(
        rng.random(n) < 0.3,
        np.ldexp(c, rng.integers(-120, 120, n)),
        np.nextafter(c, rng.choice([-1, 0, 1], n)),
    )
    for shift in (0, 560):
        x, z = np.ldexp(a, shift), np.ldexp(c, shift)
        exact = [
            Fraction(p) * Fraction(q) + Fraction(s)
            for p, q, s in zip(x.tolist(), b.tolist(), z.tolist(), strict=True)
        ]
        for r in ROUNDINGS:
            wanted = np.array([round_exact(e, F64, r) for e in exact])
            nonzero = np.array([e != 0 for e in exact])
            got = float64.fma(x, b, z, r)
            assert same(got, wanted)[nonzero].all()
            assert (got[~nonzero] == 0).all()


def test_fma_breaks_a_tie_by_a_term_far_below():
    a, b = np.array([1 + 2.0**-26]), np.array([1 + 2.0**-27])  # a * b is a tie: p + 2^-53 with p even
    p = 1 + 2.0**-26 + 2.0**-27
    assert float64.fma(a, b, np.array([2.0**-120]))[0] == np.nextafter(p, 2)
    assert float64.fma(a, b, np.array([-(2.0**-120)]))[0] == p


def test_fma_keeps_a_distant_term_smaller_than_the_products_tail():
    a, c = np.array([1 + 2.0**-30]), np.array([2.0**-80])  # a * a = 1 + 2^-29 + 2^-60
    for z in (c, -c):
        assert float64.fma(a, a, z, "rp")[0] == np.nextafter(1 + 2.0**-29, 2)
        assert float64.fma(a, a, z, "rm")[0] == 1 + 2.0**-29


@settings(max_examples=200, deadline=None)
@given(number.map(abs).filter(lambda x: x > 0))
def test_sqrt_rounds_once(x):
    for r in ROUNDINGS:
        root = float(float64.sqrt(np.array([x]), r)[0])
        below, above = Fraction(float(np.nextafter(root, 0))), Fraction(float(np.nextafter(root, np.inf)))
        square, exact_root = Fraction(x), Fraction(root)
        if r == "rn":
            assert ((exact_root + below) / 2) ** 2 <= square <= ((exact_root + above) / 2) ** 2
        elif r == "rp":
            assert below**2 < square <= exact_root**2
        else:
            assert exact_root**2 <= square < above**2


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_special_values_follow_ieee(rounding):
    a, b, c = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        special = ~(np.isfinite(a) & np.isfinite(b))
        for got, wanted in (
            (float64.add(a, b, rounding), a + b),
            (float64.mul(a, b, rounding), a * b),
            (float64.div(a, b, rounding), a / b),
            (float64.fma(a, b, c, rounding), a * b + c),
        ):
            assert same(got, wanted)[special].all()
        infinite_c = np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c)
        assert same(float64.fma(a, b, c, rounding), c)[infinite_c].all()
    assert same(
        float64.div(np.array([1.0, -1.0, 0.0]), np.zeros(3), rounding), np.array([np.inf, -np.inf, np.nan])
    ).all()
    assert same(float64.sqrt(np.array([-0.0, -1, np.inf]), rounding), np.array([-0.0, np.nan, np.inf])).all()


def test_exact_zero_sum_is_negative_only_rounding_down():
    one, zero = np.array([1.0]), np.array([0.0])
    for r in ROUNDINGS:
        for got in (float64.add(one, -one, r), float64.fma(one, one, -one, r), float64.add(zero, -zero, r)):
            assert got[0] == 0 and np.signbit(got[0]) == (r == "rm")
        assert np.signbit(float64.mul(-zero, one, r))[0]
        assert np.signbit(float64.add(-zero, -zero, r))[0]


def test_minimum_maximum_neg_abs():
    a, b = np.array([-0.0, 1, np.nan, 2, np.nan]), np.array([0.0, np.nan, 3, 1, np.nan])
    assert same(float64.minimum(a, b), np.array([-0.0, 1, 3, 1, np.nan])).all()
    assert same(float64.maximum(a, b), np.array([0.0, 1, 3, 2, np.nan])).all()
    assert same(float64.minimum(b, a), np.array([-0.0, 1, 3, 1, np.nan])).all()
    numbers = SPECIAL[~np.isnan(SPECIAL)]
    assert np.signbit(float64.neg(numbers)).tolist() == (~np.signbit(numbers)).tolist()
    assert not np.signbit(float64.abs_(numbers)).any()
    signaling = np.array([0xFFF0000000000001], np.uint64).view(np.float64)
    for function in (float64.neg, float64.abs_):
        assert function(signaling).view(np.uint64)[0] == 0xFFF8000000000001
