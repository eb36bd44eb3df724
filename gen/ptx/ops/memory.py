"""ld, st and the prefetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import DTYPES, Array
from gen.ptx.modifiers import Modifiers
from gen.ptx.ops.access import GENERIC, GLOBAL, LOCAL, SHARED, load, store
from gen.ptx.ops.emit import nothing
from gen.ptx.program import parameter_layout
from gen.ptx.semantics import Semantics, take_semantics
from gen.ptx.syntax import Address
from gen.ptx.translation import Slot

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op

_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")


def take_space(modifiers: Modifiers) -> str:
    """The state space among the modifiers; generic if none."""
    space = modifiers.pick("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")
    space = modifiers.pick("entry", "func", default=space) and space
    return {"": GENERIC, "shared::cta": SHARED, "shared::cluster": SHARED, "const": GLOBAL}.get(space, space)


def take_hints(modifiers: Modifiers) -> None:
    """Drops cache operators, which change nothing here."""
    modifiers.flag(*_CACHE)
    modifiers.left = [w for w in modifiers.left if not w.startswith(("L1::", "L2::", "param::"))]


def _qualifiers(c: Context) -> tuple[str, Semantics, int, str]:
    """(space, memory semantics, vector length, type)."""
    modifiers = c.modifiers
    if "param::entry" in modifiers.left or "param::func" in modifiers.left:
        modifiers.left = ["param" if w.startswith("param::") else w for w in modifiers.left]
    how = take_semantics(modifiers, atomic=False)
    take_hints(modifiers)
    space = take_space(modifiers)
    count = int((modifiers.pick("v2", "v4", "v8") or "v1")[1:])
    kind = modifiers.type()
    modifiers.done()
    return space, how, count, kind


def _widths(c: Context, kind: str, count: int) -> tuple[int, int]:
    """(bytes of a word, words) of an access; no wider than 32 bytes."""
    width = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}.get(kind) or int(kind[1:])
    if width * count > 256 or width == 128:
        raise c.instruction.error("this access width is not implemented")
    return width // 8, count


def _loaded(c: Context, kind: str, width: int) -> list[Slot]:
    """Destination slots; registers may be wider than the type and are then extended by its sign."""
    slots = []
    for item in c.vector(c.operands[0]):
        slot = c.register(item, write=True)
        if slot is None:
            slot = c.destination(item, f"b{max(8 * width, 16)}")
        bits = 1 if slot.view == "pred" else int(slot.view[1:])
        if bits < 8 * width:
            raise c.instruction.error("a destination register is narrower than the access")
        slots.append(Slot(("s" if kind[0] == "s" else "u") + str(bits), slot.index))
    return slots


def ld(c: Context) -> Op:
    """ld (and ldu) of one to eight words."""
    space, how, count, kind = _qualifiers(c)
    c.need(2, 3)
    width, count = _widths(c, kind, count)
    slots = _loaded(c, kind, width)
    if len(slots) != count:
        raise c.instruction.error(f"{count} destinations expected")
    signed = DTYPES[f"s{8 * width}"] if kind[0] == "s" else None
    ins = c.instruction
    if space == "param":
        entry = _entry_parameter(c)
        if entry is not None:
            return _load_parameter(entry, width, slots, signed)
        operand = c.operands[1]
        is_local = (
            isinstance(operand, Address) and operand.base and operand.base.text in c.placed.frame.locals
        )
        space = LOCAL if is_local else GLOBAL
    if space == SHARED:
        c.translation.shared_widths.add(width)
    if space == GENERIC:
        c.translation.shared_widths.add(width)
    if space in (GLOBAL, GENERIC):
        c.translation.global_widths.add(width)
    if how.strong:
        c.translation.spinning.add(c.position)
    address = c.address(c.operands[1])
    outs = [(s.view, s.index) for s in slots]

    def run(m: State) -> None:
        v, s = m.v, m.sel
        words = load(m, ins, space, address(m), width, count, how)
        for (view, index), word in zip(outs, words, strict=True):
            v[view][index][s] = word if signed is None else word.view(signed)

    return run


def _entry_parameter(c: Context) -> int | None:
    """Offset into the parameter buffer of `[name+offset]`, if it names a parameter of the entry."""
    operand = c.operands[1]
    frame = c.placed.frame
    if frame.number or not isinstance(operand, Address) or operand.base is None:
        return None
    offsets, _ = parameter_layout(frame.function)
    at = offsets.get(operand.base.text)
    if at is None:
        return None
    size = next(p.size for p in frame.function.parameters if p.name == operand.base.text)
    if not 0 <= operand.offset < size:
        raise c.instruction.error(f"reads beyond the {size} bytes of the parameter")
    return at + operand.offset


def _load_parameter(at: int, width: int, slots: list[Slot], signed: np.dtype[np.generic] | None) -> Op:
    dtype = DTYPES[f"u{8 * width}"] if signed is None else signed

    def run(m: State) -> None:
        for i, slot in enumerate(slots):
            start = at + i * width
            m.v[slot.view][slot.index][m.sel] = m.parameters[start : start + width].view(dtype)[0]

    return run


def _stored(c: Context, kind: str, width: int) -> list[Slot]:
    """Source slots; registers may be wider than the type."""
    slots = []
    for item in c.vector(c.operands[1]):
        slot = c.register(item)
        if slot is None:
            float_kind = kind if kind in ("f32", "f64") else f"b{max(8 * width, 16)}"
            slot = c.source(item, float_kind)
            slot = Slot(f"u{max(8 * width, 16)}", slot.index)
        slots.append(slot)
    return slots


def st(c: Context) -> Op:
    """st of one to eight words."""
    space, how, count, kind = _qualifiers(c)
    c.need(2, 3)
    width, count = _widths(c, kind, count)
    slots = _stored(c, kind, width)
    if len(slots) != count:
        raise c.instruction.error(f"{count} values expected")
    space = LOCAL if space == "param" else space
    if space in (SHARED, GENERIC):
        c.translation.shared_widths.add(width)
    if space in (GLOBAL, GENERIC):
        c.translation.global_widths.add(width)
    address, ins = c.address(c.operands[0]), c.instruction
    sources = [(s.view, s.index) for s in slots]
    word = DTYPES[f"u{8 * width}"]

    def run(m: State) -> None:
        v, s = m.v, m.sel
        values: list[Array] = [v[view][index][s].astype(word, copy=False) for view, index in sources]
        store(m, ins, space, address(m), width, values, how)

    return run


def hint(c: Context) -> Op:
    """Prefetches, of data and of tensor maps: no effect."""
    return nothing


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"ld": ld, "ldu": ld, "st": st},
    **dict.fromkeys(("prefetch", "prefetchu"), hint),
}
