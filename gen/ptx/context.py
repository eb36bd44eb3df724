"""What a translator sees of one instruction: its modifiers, and the storage of its operands."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from gen.ptx.arrays import VIEW_BYTES, VIEWS, Array
from gen.ptx.modifiers import Modifiers
from gen.ptx.specials import NAMES as SPECIALS
from gen.ptx.syntax import Address, Immediate, Name, Operand, Vector
from gen.ptx.translation import Flow, Op, Slot, Translation

if TYPE_CHECKING:
    from gen.ptx.program import Placed
    from gen.ptx.state import State

_CLASS = {
    "pred": "pred",
    **{f"{k}{b}": f"u{b}" for k in "us" for b in (16, 32, 64)},
    "f32": "u32",
    "f64": "u64",
}


class Context:
    """One instruction being translated, with access to its operands' storage."""

    def __init__(self, translation: Translation, placed: Placed, position: int) -> None:
        self.translation = translation
        self.placed = placed
        self.position = position
        self.instruction = placed.instruction
        self.operands = placed.instruction.operands
        self.modifiers = Modifiers(placed.instruction)
        self.flow = Flow([position + 1])

    def need(self, *counts: int) -> None:
        """Refuses another number of operands."""
        if len(self.operands) not in counts:
            raise self.instruction.error(f"takes {' or '.join(map(str, counts))} operands")

    def register(self, operand: Operand, *, write: bool = False) -> Slot | None:
        """The slot of a declared register in its unsigned view, or None for anything else."""
        slot = self._register(operand)
        if slot is not None:
            (self.flow.writes if write else self.flow.reads).add(slot)
        return slot

    def _register(self, operand: Operand) -> Slot | None:
        if not isinstance(operand, Name):
            return None
        key = (self.placed.frame.number, operand.text)
        translation = self.translation
        known = translation.names.get(key)
        if known:
            return known
        kind = translation.program.register_type(self.placed.frame, operand.text)
        if kind is None:
            return None
        view = "pred" if kind == "pred" else VIEWS.get("b16" if kind in ("b8", "u8", "s8") else kind)
        if view is None:
            raise self.instruction.error(f"registers of type .{kind} are not implemented")
        width = _CLASS[view]
        slot = translation.names[key] = Slot(width, translation.registers[width])
        translation.registers[width] += 1
        return slot

    def destination(self, operand: Operand, kind: str) -> Slot:
        """The register to write a value of `kind` to; `_` gives a scratch register."""
        view = VIEWS[kind]
        if isinstance(operand, Name) and operand.text == "_":
            key = (-1, f"_{_CLASS[view]}")
            names, registers = self.translation.names, self.translation.registers
            if key not in names:
                names[key] = Slot(_CLASS[view], registers[_CLASS[view]])
                registers[_CLASS[view]] += 1
            return Slot(view, names[key].index)
        slot = self.register(operand, write=True)
        if slot is None:
            raise self.instruction.error(f"the destination {_show(operand)} is not a register")
        if slot.view != _CLASS[view]:
            raise self.instruction.error(f"the destination {_show(operand)} has another width than .{kind}")
        return Slot(view, slot.index)

    def source(self, operand: Operand, kind: str) -> Slot:
        """A register, literal, special register or variable address, read as `kind`."""
        view = VIEWS[kind]
        slot = self.register(operand)
        if slot is not None:
            if slot.view != _CLASS[view]:
                raise self.instruction.error(f"{_show(operand)} has another width than .{kind}")
            return Slot(view, slot.index)
        if isinstance(operand, Immediate):
            return self.literal(operand, kind)
        if isinstance(operand, Name):
            if operand.text == "WARP_SZ":
                return self.constant(32, view)
            address = self.variable_address(operand.text)
            if address is not None:
                return self.constant(address, view)
            if operand.text in SPECIALS or operand.text in self.parameter_names():
                return self.special(operand.text, view)
        raise self.instruction.error(f"{_show(operand)} is not declared")

    def literal(self, operand: Immediate, kind: str) -> Slot:
        """A literal as a value of `kind`."""
        view = VIEWS[kind]
        bits = operand.bits
        if view in ("f32", "f64") or kind in ("f32", "f64"):
            if view == "f32" and operand.float_bits != 32:
                bits = int.from_bytes(struct.pack("<f", operand.value), "little")
            elif view == "f64" and operand.float_bits != 64:
                bits = int.from_bytes(struct.pack("<d", operand.value), "little")
        return self.constant(bits, view)

    def constant(self, bits: int, view: str) -> Slot:
        """A slot that holds these bits in every lane."""
        return self._extra(bits & ((1 << 8 * VIEW_BYTES[view]) - 1), view)

    def _extra(self, content: int | str, view: str) -> Slot:
        pool = self.translation.extras[_CLASS[view]]
        return Slot(view, -1 - pool.setdefault(content, len(pool)))

    def special(self, name: str, view: str) -> Slot:
        """A slot for a special register such as %tid.x, filled when a batch starts."""
        return self._extra(name, view)

    def parameter_names(self) -> set[str]:
        """Names of the entry's parameters, where they are visible."""
        frame = self.placed.frame
        return {p.name for p in frame.function.parameters} if frame.number == 0 else set()

    def variable_address(self, name: str) -> int | None:
        """Address of a variable in its own state space, or None."""
        frame, translation = self.placed.frame, self.translation
        if name in frame.locals:
            return frame.locals[name]
        if name in translation.program.shared:
            return translation.program.shared[name]
        return translation.global_addresses.get(name)

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """The items of a vector operand; a lone operand counts as one item."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def predicate(self, operand: Name) -> tuple[int, bool]:
        """(index, negated) of a predicate register."""
        slot = self.register(Name(operand.text))
        if slot is None or slot.view != "pred":
            raise self.instruction.error(f"{operand.text} is not a predicate")
        return slot.index, operand.negated

    def address(self, operand: Operand) -> Callable[[State], Array]:
        """Closure giving the int64 address of each current lane, in the state space of the access."""
        if not isinstance(operand, Address):
            raise self.instruction.error(f"{_show(operand)} is not an address")
        offset = operand.offset
        slot = self.register(operand.base) if operand.base else None
        if slot is not None:
            view, index = slot.view, slot.index
            if view == "u64":
                if offset == 0:
                    return lambda m: m.v["s64"][index][m.sel]
                return lambda m: m.v["s64"][index][m.sel] + offset
            if view == "u32":
                return lambda m: m.v["u32"][index][m.sel].astype("i8") + offset
            raise self.instruction.error("addresses are 32- or 64-bit registers")
        base = self.variable_address(operand.base.text) if operand.base else 0
        if base is None:
            raise self.instruction.error(f"{operand.base} is not declared")
        constant = base + offset
        return lambda m: m.constant_address(constant)


def _show(operand: Operand) -> str:
    return operand.text if isinstance(operand, Name) else repr(operand)


Translator = Callable[[Context], Op]
"""Makes the closure of the instruction in the context, or raises `PtxError`."""
