"""Bitwise instructions, shifts, bit fields and byte permutation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.numerics import dot, integer
from gen.ptx.ops.emit import emit
from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.translation import Op


def _kind(c: Context) -> str:
    kind = c.modifiers.type()
    return "u" + kind[1:] if kind[0] == "b" else kind


def _emit(c: Context, function: Callable[..., Any], kinds: str, *more: str) -> Op:
    """All operands of one kind, but for the last ones, which are of `more`."""
    kinds_list = [kinds] * (len(c.operands) - len(more)) + list(more)
    destination = c.destination(c.operands[0], kinds_list[0])
    c.modifiers.done()
    sources = (c.source(o, k) for o, k in zip(c.operands[1:], kinds_list[1:], strict=True))
    return emit(function, destination, *sources)


_BITWISE: dict[str, np.ufunc] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_LOGICAL: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def bitwise(c: Context) -> Op:
    """and, or, xor on bits or predicates."""
    c.need(3)
    kind = _kind(c)
    return _emit(c, (_LOGICAL if kind == "pred" else _BITWISE)[c.instruction.opcode], kind)


def invert(c: Context) -> Op:
    """not and cnot."""
    c.need(2)
    kind = _kind(c)
    if c.instruction.opcode == "cnot":
        return _emit(c, lambda a: a == 0, kind)
    return _emit(c, np.invert, kind)


def shift(c: Context) -> Op:
    """shl and shr: amounts beyond the width shift everything out."""
    c.need(3)
    kind, amount = _kind(c), c.operands[2]
    width = int(kind[1:])
    left = c.instruction.opcode == "shl"
    if isinstance(amount, Immediate) and 0 <= amount.bits < width:
        count = np.array(amount.bits, np.dtype(("u" if kind[0] == "u" else "i") + str(width // 8)))
        ufunc = np.left_shift if left else np.right_shift
        destination = c.destination(c.operands[0], kind)
        c.modifiers.done()
        return emit(lambda a: ufunc(a, count), destination, c.source(c.operands[1], kind))
    return _emit(c, integer.shl if left else integer.shr, kind, "u32")


def funnel(c: Context) -> Op:
    """shf.l and shf.r, wrapping or clamping."""
    c.need(4)
    kind = _kind(c)
    direction, mode = c.modifiers.pick("l", "r"), c.modifiers.pick("wrap", "clamp")
    return _emit(c, partial(integer.shf, direction, mode), kind)


def lop3(c: Context) -> Op:
    """lop3.b32 with an immediate table."""
    c.need(5)
    table = c.operands[4]
    kind = _kind(c)
    c.modifiers.done()
    if not isinstance(table, Immediate):
        raise c.instruction.error("the table of lop3 must be a literal")
    lut = table.bits
    destination = c.destination(c.operands[0], kind)
    return emit(
        lambda a, b, d: integer.lop3(a, b, d, lut), destination, *(c.source(o, kind) for o in c.operands[1:4])
    )


def prmt(c: Context) -> Op:
    """prmt.b32, all modes."""
    c.need(4)
    kind = _kind(c)
    mode = c.modifiers.pick("f4e", "b4e", "rc8", "ecl", "ecr", "rc16") or None
    return _emit(c, lambda a, b, s: integer.prmt(a, b, s, mode), kind)


def field_extract(c: Context) -> Op:
    """bfe."""
    c.need(4)
    return _emit(c, integer.bfe, _kind(c), "u32", "u32")


def field_insert(c: Context) -> Op:
    """bfi."""
    c.need(5)
    return _emit(c, integer.bfi, _kind(c), "u32", "u32")


def count(c: Context) -> Op:
    """popc, clz and bfind: 32-bit counts of a 32- or 64-bit word."""
    c.need(2)
    kind = _kind(c)
    shiftamt = c.modifiers.flag("shiftamt")
    functions: dict[str, Callable[..., Any]] = {
        "popc": integer.popc,
        "clz": integer.clz,
        "bfind": partial(integer.bfind, shiftamt=shiftamt),
    }
    destination = c.destination(c.operands[0], "u32")
    c.modifiers.done()
    return emit(functions[c.instruction.opcode], destination, c.source(c.operands[1], kind))


def reverse(c: Context) -> Op:
    """brev."""
    c.need(2)
    return _emit(c, integer.brev, _kind(c))


def nth_set(c: Context) -> Op:
    """fns.b32."""
    c.need(4)
    return _emit(c, integer.fns, _kind(c), "u32", "s32")


def sad(c: Context) -> Op:
    """sad."""
    c.need(4)
    kind = _kind(c)
    return _emit(c, integer.sad, kind)


def dp4a(c: Context) -> Op:
    """dp4a: four byte products added to a 32-bit word."""
    c.need(4)
    a, b = c.modifiers.types()
    c.modifiers.done()
    out = "s32" if "s32" in (a, b) else "u32"
    function = partial(dot.dp4a, a_signed=a == "s32", b_signed=b == "s32")
    destination = c.destination(c.operands[0], out)
    kinds = (a, b, out)
    return emit(function, destination, *(c.source(o, k) for o, k in zip(c.operands[1:], kinds, strict=True)))


def dp2a(c: Context) -> Op:
    """dp2a.lo/.hi: two products of 16-bit and 8-bit parts added to a 32-bit word."""
    c.need(4)
    high = c.modifiers.pick("lo", "hi") == "hi"
    a, b = c.modifiers.types()
    c.modifiers.done()
    out = "s32" if "s32" in (a, b) else "u32"
    function = partial(dot.dp2a, a_signed=a == "s32", b_signed=b == "s32", high=high)
    destination = c.destination(c.operands[0], out)
    kinds = (a, b, out)
    return emit(function, destination, *(c.source(o, k) for o, k in zip(c.operands[1:], kinds, strict=True)))


def extend(c: Context) -> Op:
    """szext.clamp/.wrap: the low `b` bits of a, sign- or zero-extended."""
    c.need(3)
    kind = _kind(c)
    wrap = c.modifiers.pick("clamp", "wrap") == "wrap"
    return _emit(c, partial(integer.szext, wrap=wrap), kind, "u32")


def bit_mask(c: Context) -> Op:
    """bmsk.clamp/.wrap.b32: a mask of `b` bits from bit `a`."""
    c.need(3)
    kind = _kind(c)
    wrap = c.modifiers.pick("clamp", "wrap") == "wrap"

    def mask(a: Array, b: Array) -> Array:
        first, length = (n.astype(np.int64) & 31 if wrap else n.astype(np.int64).clip(0, 32) for n in (a, b))
        return np.asarray(((1 << length) - 1 << first).astype(np.uint32))

    return _emit(c, mask, kind)


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"and": bitwise, "or": bitwise, "xor": bitwise, "not": invert, "cnot": invert},
    **{"shl": shift, "shr": shift, "shf": funnel, "lop3": lop3, "prmt": prmt},
    **{"bfe": field_extract, "bfi": field_insert, "popc": count, "clz": count, "bfind": count},
    **{"brev": reverse, "fns": nth_set, "sad": sad, "dp4a": dp4a, "bmsk": bit_mask},
    **{"dp2a": dp2a, "szext": extend},
}
