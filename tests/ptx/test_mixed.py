"""Mixed-precision add, sub and fma: narrow sources widen exactly, and the result is rounded once."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import PtxError
from gen.ptx.numerics.formats import decode
from tests.ptx.assemble import evaluate

RNG = np.random.default_rng(5)
A, B, C = (RNG.standard_normal(96).astype(np.float32) for _ in range(3))
NARROWED = {
    "f16": lambda values: values.astype(np.float16).view(np.uint16).astype(np.uint32),
    "bf16": lambda values: values.view(np.uint32) >> np.uint32(16),
}
NARROW = ".reg .b16 %x, %y; cvt.u16.u32 %x, %a0; cvt.u16.u32 %y, %a1; "


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rounding", ["rn", "rz"])
@pytest.mark.parametrize(("name", "sources"), [("add", "%x"), ("sub", "%x"), ("fma", "%x, %y")])
def test_rounds_once(kind, rounding, name, sources):
    body = f"{NARROW}{name}.{rounding}.f32.{kind} %out, {sources}, %a2;"
    x, y = (NARROWED[kind](values) for values in (A, B))
    got = evaluate(body, x, y, C.view(np.uint32)).view(np.float32)
    a, b, c = decode(x, kind).astype(np.float64), decode(y, kind).astype(np.float64), C
    exact = {"add": a + c, "sub": a - c, "fma": a * b + c}[name]  # in 53 bits
    want = exact.astype(np.float32)
    if rounding == "rz":
        want = np.where(np.abs(want) > np.abs(exact), np.nextafter(want, np.float32(0)), want)
    np.testing.assert_array_equal(got, want)


def test_saturates():
    body = f"{NARROW}add.sat.f32.bf16 %out, %x, %a2;"
    three = np.full(4, 0x4040, np.uint32)
    addend = np.array([-5, -2.5, 0, np.nan], np.float32)
    got = evaluate(body, three, three, addend.view(np.uint32)).view(np.float32)
    np.testing.assert_array_equal(got, np.float32([0, 0.5, 1, 0]))


def test_other_mixtures_are_refused():
    with pytest.raises(PtxError, match="expected one type"):
        evaluate(f"{NARROW}mul.f32.bf16 %out, %x, %a2;", *(values.view(np.uint32) for values in (A, B, C)))
