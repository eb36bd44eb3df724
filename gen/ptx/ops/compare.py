"""setp, set, selp and slct."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.numerics import float32, half
from gen.ptx.numerics.formats import decode
from gen.ptx.ops.emit import emit, halves, join_halves
from gen.ptx.syntax import Name

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op, Slot

_ORDERED: dict[str, np.ufunc] = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal},
    **{"gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal},
    **{"hi": np.greater, "hs": np.greater_equal},
}
_TRUE: dict[str, Any] = {
    **{"u16": np.uint16(0xFFFF), "u32": np.uint32(0xFFFFFFFF), "s32": np.int32(-1), "f32": np.float32(1)},
    **{"f16": np.uint16(0x3C00), "bf16": np.uint16(0x3F80)},
}
_OPPOSITE = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
_COMBINE: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
Comparison = Callable[[Array, Array], Array]


def _comparison(name: str, is_float: bool) -> Comparison:
    """NumPy's comparison with PTX's treatment of NaN: ordered ones are False, those in -u are True."""
    if name in _OPPOSITE:
        opposite = _ORDERED[_OPPOSITE[name]]
        if name == "equ":
            return lambda a, b: (a == b) | (a != a) | (b != b)
        return lambda a, b: ~opposite(a, b)
    if name == "ne" and is_float:
        return lambda a, b: (a < b) | (a > b)
    if name == "neu":
        return np.not_equal
    if name == "num":
        return lambda a, b: (a == a) & (b == b)
    if name == "nan":
        return lambda a, b: (a != a) | (b != b)
    return _ORDERED[name]


def _compare(c: Context, kind: str) -> Comparison:
    """The comparison named among the modifiers, on register values of `kind`."""
    name = c.modifiers.pick(*_ORDERED, *_OPPOSITE, "neu", "num", "nan")
    is_float = kind[0] == "f" or kind.startswith("bf")
    compare = _comparison(name, is_float)
    if kind in ("f16", "bf16"):
        if c.modifiers.flag("ftz"):
            return lambda a, b: compare(decode(half.flush(a, kind), kind), decode(half.flush(b, kind), kind))
        return lambda a, b: compare(decode(a, kind), decode(b, kind))
    if kind == "f32" and c.modifiers.flag("ftz"):
        return lambda a, b: compare(float32.flush(a), float32.flush(b))
    return compare


def setp(c: Context) -> Op:
    """setp d[|q], a, b[, [!]c]: q is the negated comparison, combined with c alike."""
    c.need(3, 4)
    kind = c.modifiers.type()
    if kind in ("f16x2", "bf16x2"):
        return _setp_packed(c, kind[:-2])
    kind = "u" + kind[1:] if kind[0] == "b" and kind[1] != "f" else kind
    compare = _compare(c, kind)
    combine = c.modifiers.pick(*_COMBINE)
    c.modifiers.done()
    targets = [c.destination(o, "pred") for o in c.vector(c.operands[0])]
    x, y = c.source(c.operands[1], kind), c.source(c.operands[2], kind)
    if len(targets) == 1 and not combine:
        return emit(compare, targets[0], x, y)
    third = _combining(c, combine)

    def run(m: State) -> None:
        v, s = m.v, m.sel
        result = compare(v[x.view][x.index][s], v[y.view][y.index][s])
        outcomes = [result, ~result]
        if third:
            index, negated = third
            other = v["pred"][index][s]
            outcomes = [_COMBINE[combine](o, ~other if negated else other) for o in outcomes]
        for target, outcome in zip(targets, outcomes, strict=False):
            v["pred"][target.index][s] = outcome

    return run


def _combining(c: Context, combine: str) -> tuple[int, bool] | None:
    if not combine:
        return None
    operand = c.operands[3]
    if not isinstance(operand, Name):
        raise c.instruction.error("the combined operand must be a predicate")
    return c.predicate(operand)


def _setp_packed(c: Context, kind: str) -> Op:
    """setp.f16x2 p|q: the comparisons of the low and the high halves."""
    compare = _compare(c, kind)
    c.modifiers.done()
    low, high = (c.destination(o, "pred") for o in c.vector(c.operands[0]))
    x, y = c.source(c.operands[1], "b32"), c.source(c.operands[2], "b32")

    def run(m: State) -> None:
        v, s = m.v, m.sel
        a, b = halves(v["u32"][x.index][s]), halves(v["u32"][y.index][s])
        results = compare(a[0], b[0]), compare(a[1], b[1])
        v["pred"][low.index][s], v["pred"][high.index][s] = results

    return run


def _set_packed(c: Context, out: str, kind: str) -> Op:
    """set.CmpOp.dtype.f16x2: halves of ones (u32, s32) or of 1.0 where the comparison of the halves holds."""
    compare = _compare(c, kind)
    c.modifiers.done()
    if out not in ("u32", "s32", kind + "x2"):
        raise c.instruction.error("this type of set is not implemented")
    true = _TRUE["u16" if out in ("u32", "s32") else kind]
    d = c.destination(c.operands[0], "b32")
    a, b = (c.source(o, "b32") for o in c.operands[1:3])

    def both(x: Array, y: Array) -> Array:
        pairs = zip(halves(x), halves(y), strict=True)
        return join_halves(*(np.where(compare(p, q), true, np.uint16(0)) for p, q in pairs))

    return emit(both, d, a, b)


def set_value(c: Context) -> Op:
    """set.CmpOp.dtype.stype: all ones or 1.0 where the comparison holds."""
    c.need(3, 4)
    out, kind = c.modifiers.types()
    if kind.endswith("x2"):
        return _set_packed(c, out, kind[:-2])
    if out not in _TRUE:
        raise c.instruction.error("this type of set is not implemented")
    kind = "u" + kind[1:] if kind[0] == "b" and kind[1] != "f" else kind
    compare = _compare(c, kind)
    combine = c.modifiers.pick(*_COMBINE)
    c.modifiers.done()
    true: Any = _TRUE[out]
    zero = true * 0
    d = c.destination(c.operands[0], out)
    sources = [c.source(o, kind) for o in c.operands[1:3]]
    third = _combining(c, combine)
    if third is None:
        return emit(lambda a, b: np.where(compare(a, b), true, zero), d, *sources)
    index, negated = third

    def run(m: State) -> None:
        v, s = m.v, m.sel
        other = v["pred"][index][s]
        result = compare(v[sources[0].view][sources[0].index][s], v[sources[1].view][sources[1].index][s])
        result = _COMBINE[combine](result, ~other if negated else other)
        v[d.view][d.index][s] = np.where(result, true, zero)

    return run


def select(c: Context) -> Op:
    """selp d, a, b, p."""
    c.need(4)
    kind = c.modifiers.type()
    c.modifiers.done()
    kind = {"b16": "u16", "b32": "u32", "b64": "u64"}.get(kind, kind)
    d = c.destination(c.operands[0], kind)
    a, b = c.source(c.operands[1], kind), c.source(c.operands[2], kind)
    if not isinstance(c.operands[3], Name):
        raise c.instruction.error("the selector must be a predicate")
    _, negated = c.predicate(c.operands[3])
    selector: Slot = c.source(Name(c.operands[3].text), "pred")
    return emit(lambda x, y, p: np.where(p, x, y), d, *((b, a) if negated else (a, b)), selector)


def select_by_sign(c: Context) -> Op:
    """slct d, a, b, c: a where c >= 0 (and not NaN), else b."""
    c.need(4)
    kind, by = c.modifiers.types()
    ftz = c.modifiers.flag("ftz")
    c.modifiers.done()
    d = c.destination(c.operands[0], kind)
    a, b, s = c.source(c.operands[1], kind), c.source(c.operands[2], kind), c.source(c.operands[3], by)
    if ftz:
        return emit(lambda x, y, z: np.where(float32.flush(z) >= 0, x, y), d, a, b, s)
    return emit(lambda x, y, z: np.where(z >= 0, x, y), d, a, b, s)


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"setp": setp, "set": set_value, "selp": select, "slct": select_by_sign},
}
