import numpy as np
import pytest

from gen.ptx.numerics import approx

RNG = np.random.default_rng(2)
BITS = np.concatenate(
    [RNG.integers(0, 2**32, 50_000, dtype=np.uint64).astype(np.uint32), np.arange(64, dtype=np.uint32)]
)
X = BITS.view(np.float32)
NORMAL = np.float32(2.0**-126)

FUNCTIONS = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_nearest_float(name):
    x = X[np.abs(X) < 1e5] if name in ("sin", "cos") else X
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble))
    got = getattr(approx, name)(x)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    assert (got[np.isnan(got)].view(np.uint32) == 0x7FFFFFFF).all()
    finite = np.isfinite(got) & (got != 0)
    error = np.abs(got[finite].astype(np.longdouble) - exact[finite])
    assert (error <= np.spacing(np.abs(got[finite])) * 0.5001).all()


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("ex2", [-np.inf, -0.0, 0.0, np.inf, 1e-40], [0.0, 1.0, 1.0, np.inf, 1.0]),
        ("lg2", [-0.0, 0.0, np.inf, -1.0, 1.0], [-np.inf, -np.inf, np.inf, np.nan, 0.0]),
        ("rcp", [-np.inf, -0.0, 0.0, np.inf], [-0.0, -np.inf, np.inf, 0.0]),
        ("rsqrt", [-1.0, -0.0, 0.0, np.inf], [np.nan, -np.inf, np.inf, 0.0]),
        ("sqrt", [-1.0, -0.0, 0.0, np.inf], [np.nan, -0.0, 0.0, np.inf]),
        ("sin", [-np.inf, -0.0, 0.0, np.inf], [np.nan, -0.0, 0.0, np.nan]),
        ("cos", [-np.inf, -0.0, 0.0, np.inf], [np.nan, 1.0, 1.0, np.nan]),
        ("tanh", [-np.inf, -0.0, 0.0, np.inf], [-1.0, -0.0, 0.0, 1.0]),
    ],
)
def test_special_values(name, given, wanted):
    got = getattr(approx, name)(np.float32(given))
    np.testing.assert_array_equal(got, np.float32(wanted))
    known = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(np.float32(wanted)[known]))


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "tanh"])
def test_ftz_flushes_inputs_and_results(name):
    function = getattr(approx, name)
    got = function(X, True)
    flushed = np.where(np.abs(X) < NORMAL, np.copysign(np.float32(0), X), X)
    plain = function(flushed)
    tiny = np.abs(plain) < NORMAL
    np.testing.assert_array_equal(got.view(np.uint32)[~tiny], plain.view(np.uint32)[~tiny])
    assert (got[tiny] == 0).all()
    assert (np.signbit(got) == np.signbit(plain))[tiny].all()


def test_division():
    a, b = X[:25_000], X[25_000:50_000]
    ordinary = np.isfinite(a) & (np.abs(b) >= NORMAL) & (np.abs(b) <= np.float32(2.0**126))
    with np.errstate(all="ignore"):
        wanted = a / b
    for function in (approx.div_approx, approx.div_full):
        np.testing.assert_array_equal(function(a, b)[ordinary], wanted[ordinary])
    big = np.float32([2.0**127, -(2.0**127), 2.0**127, 2.0**126])
    one = np.float32([1, 1, np.inf, 1])
    got = approx.div_approx(one, big)
    np.testing.assert_array_equal(got, np.float32([0, -0.0, np.nan, 2.0**-126]))
    assert np.signbit(got[1])
    np.testing.assert_array_equal(
        approx.div_full(one, big), np.float32([2.0**-127, -(2.0**-127), np.inf, 2.0**-126])
    )
    assert approx.div_full(one, big, True)[0] == 0
