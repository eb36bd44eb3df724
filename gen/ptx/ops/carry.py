"""Multi-word arithmetic: instructions that set or use the carry flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.numerics import integer

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op


def addc(c: Context) -> Op:
    """addc and subc."""
    c.need(3)
    return add(c, c.modifiers.type(), uses=True, sets=c.modifiers.flag("cc"))


def add(c: Context, kind: str, *, uses: bool, sets: bool) -> Op:
    """Addition or subtraction with the carry flag in, out or both."""
    kind = "u" + kind[1:]
    subtract = c.instruction.opcode.startswith("sub")
    d, x, y = (
        c.destination(c.operands[0], kind),
        c.source(c.operands[1], kind),
        c.source(c.operands[2], kind),
    )
    c.modifiers.done()

    def run(m: State) -> None:
        v, s = m.v, m.sel
        a, b = v[kind][x.index][s], v[kind][y.index][s]
        carry = m.carry[s].astype(a.dtype) if uses else np.zeros(len(a), a.dtype)
        if subtract:
            result = a - b - carry
            out = (a < b) | ((a == b) & (carry > 0))
        else:
            result = a + b + carry
            out = (result < a) | ((result == a) & (carry > 0))
        if sets:
            m.carry[s] = out
        v[kind][d.index][s] = result

    return run


def mad(c: Context, kind: str, part: str, *, uses: bool, sets: bool) -> Op:
    """Multiplication and addition with the carry flag in, out or both."""
    unsigned = "u" + kind[1:]
    d = c.destination(c.operands[0], unsigned)
    x, y, z = (c.source(o, kind) for o in c.operands[1:])
    c.modifiers.done()

    def run(m: State) -> None:
        v, s = m.v, m.sel
        a, b, addend = v[kind][x.index][s], v[kind][y.index][s], v[unsigned][z.index][s]
        product = (integer.mul_hi(a, b) if part == "hi" else a * b).view(addend.dtype)
        carry = m.carry[s].astype(addend.dtype) if uses else np.zeros(len(a), addend.dtype)
        result = product + addend + carry
        if sets:
            m.carry[s] = (result < product) | ((result == product) & (carry > 0))
        v[unsigned][d.index][s] = result

    return run
