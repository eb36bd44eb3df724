"""From a linked program to Python closures, one an instruction, made once a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gen.ptx.arrays import VIEW_BYTES, VIEWS, Array
from gen.ptx.program import Program, ends_run
from gen.ptx.specials import NAMES as SPECIALS
from gen.ptx.syntax import Address, Immediate, Instruction, Name, Operand, Vector

if TYPE_CHECKING:
    from gen.ptx.program import Placed
    from gen.ptx.state import State

Op = Callable[["State"], None]
Translator = Callable[["Context"], Op]
"""Makes the closure of the instruction in the context, or raises `PtxError`."""

WIDTH_CLASSES = ("pred", "u16", "u32", "u64")
_CLASS = {
    "pred": "pred",
    **{f"{k}{b}": f"u{b}" for k in "us" for b in (16, 32, 64)},
    "f32": "u32",
    "f64": "u64",
}
_DECLARED = {1: "pred", 2: "u16", 4: "u32", 8: "u64"}
_SYNCHRONIZING = frozenset({"shfl", "vote", "match", "redux", "elect", "ldmatrix", "stmatrix", "mma"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A register array: `m.v[view][index]`; constants and special registers count down from −1."""

    view: str
    index: int


@dataclass(slots=True)
class Flow:
    """The registers (in their unsigned views) an instruction reads and writes, and where it may lead."""

    successors: list[int]
    reads: set[Slot] = field(default_factory=set)
    writes: set[Slot] = field(default_factory=set)


@dataclass
class Translation:
    """What a kernel needs to run, shared by its launches."""

    program: Program
    ops: list[Op] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WIDTH_CLASSES, 0))
    extras: dict[str, list[int | str]] = field(default_factory=lambda: {c: [] for c in WIDTH_CLASSES})
    names: dict[tuple[int, str], Slot] = field(default_factory=dict)
    sync_masks: dict[int, Callable[[State], Array] | None] = field(default_factory=dict)
    spinning: set[int] = field(default_factory=set)
    shared_widths: set[int] = field(default_factory=set)
    global_addresses: dict[str, int] = field(default_factory=dict)
    uses_tensor_addresses: bool = False

    @property
    def granule(self) -> int:
        """The smallest shared-memory access of the entry in bytes, at most 4."""
        return min(self.shared_widths | {4})


class Modifiers:
    """The dotted words of an opcode, taken one by one; what is left over is not implemented."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    def flag(self, *names: str) -> bool:
        """Takes each of `names` that is present; True if any was."""
        found = [name for name in names if name in self.left]
        for name in found:
            self.left.remove(name)
        return bool(found)

    def pick(self, *names: str, default: str = "") -> str:
        """Takes the first of `names` that is present."""
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return name
        return default

    def types(self) -> list[str]:
        """Takes the trailing type names, in order."""
        kinds = [name for name in self.left if name in _TYPES]
        self.left = [name for name in self.left if name not in _TYPES]
        return kinds

    def type(self) -> str:
        """Takes the only type."""
        kinds = self.types()
        if len(kinds) != 1:
            raise self.instruction.error(f"expected one type, found {kinds or 'none'}")
        return kinds[0]

    def done(self) -> None:
        """Refuses what nobody took."""
        if self.left:
            raise self.instruction.error(f"the modifier .{'.'.join(self.left)} is not implemented here")


_TYPES = frozenset(
    {f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64, 128)}
    | {"pred", "f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32", "u16x2", "s16x2"}
    | {"e4m3", "e5m2", "e4m3x2", "e5m2x2", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "ue8m0", "ue4m3"}
    | {"e2m1", "e2m3", "e3m2", "s4", "u4", "b1"}
)


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
            import struct

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
        if content not in pool:
            pool.append(content)
        return Slot(view, -1 - pool.index(content))

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


def translate(program: Program, global_addresses: dict[str, int]) -> Translation:
    """Translates every instruction of a program. Raises `PtxError` at the first that is not implemented."""
    from gen.ptx.ops import TABLE

    translation = Translation(program, global_addresses=global_addresses)
    for position, placed in enumerate(program.code):
        instruction = placed.instruction
        make = TABLE.get(instruction.opcode)
        if make is None:
            raise instruction.error(f"the instruction {instruction.opcode!r} is not implemented")
        context = Context(translation, placed, position)
        try:
            op = make(context)
        except (KeyError, IndexError) as error:
            raise instruction.error(f"unexpected operands or types ({error})") from error
        if instruction.predicate and not ends_run(instruction):
            op = _guard(op, *context.predicate(instruction.predicate))
        translation.flows.append(context.flow)
        if instruction.opcode in _SYNCHRONIZING:
            translation.sync_masks.setdefault(position, None)
        translation.ops.append(op)
    return translation


def _guard(op: Op, index: int, negated: bool) -> Op:
    """Runs `op` for the lanes whose predicate holds."""

    def run(m: State) -> None:
        mask = m.v["pred"][index][m.sel]
        if negated:
            mask = ~mask
        count = int(mask.sum())
        if count == m.n:
            op(m)
        elif count:
            lanes = m.lanes
            m.select(lanes.where(mask))
            op(m)
            m.select(lanes)

    return run
