"""The parsed form of a PTX module."""

from __future__ import annotations

from dataclasses import dataclass, field

from gen.ptx.errors import PtxError


@dataclass(frozen=True, slots=True)
class Name:
    """A register, a special register, a variable, a label or a function; `negated` for `!%p`."""

    text: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. `bits` is the IEEE pattern for float literals (`float_bits` of them), else the integer."""

    value: float
    bits: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}` or the pair `p|q`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; `base` is None for an absolute address."""

    base: Name | None
    offset: int


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[map, {coordinates}]`: the address of a tensor map, and a place in its tensor."""

    map: Address
    coordinates: tuple[Operand, ...]


Operand = Name | Immediate | Vector | Address | TensorAddress


@dataclass(slots=True)
class Instruction:
    """One instruction: `@predicate opcode.modifiers operands`.

    `loc` has the (file index, line) of a .loc, and then those of the place it is inlined at.
    """

    line: int
    text: str
    predicate: Name | None
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    loc: tuple[tuple[int, int], ...] = ()

    def error(self, why: str) -> PtxError:
        """A `PtxError` that names this instruction."""
        return PtxError(f"PTX line {self.line}: {self.text!r}: {why}", self.line)


@dataclass(slots=True)
class Label:
    """A branch target."""

    name: str


@dataclass(slots=True)
class Variable:
    """A module, shared, local or parameter variable of `size` bytes; `words` are its initial values.

    A word is an integer, or a symbol whose address goes there. `element` is the bytes of one of them.
    """

    name: str
    space: str
    type: str
    align: int
    size: int
    element: int
    words: tuple[int | str, ...] = ()
    line: int = 0
    external: bool = False


@dataclass(slots=True)
class Function:
    """An `.entry` or `.func` with its body (None for a declaration).

    `max_threads` is what .maxntid allows a block, `block` the only size that .reqntid does.
    """

    name: str
    entry: bool
    line: int
    parameters: list[Variable]
    results: list[Variable]
    body: list[Instruction | Label] | None = None
    registers: dict[str, str] = field(default_factory=dict)
    families: list[tuple[str, int, str]] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    max_threads: int | None = None
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(slots=True)
class ModuleText:
    """All of a PTX file."""

    target: str
    variables: dict[str, Variable]
    functions: dict[str, Function]
    files: dict[int, str] = field(default_factory=dict)

    def source(self, instruction: Instruction) -> str | None:
        """The "file:line" that .loc and .file give an instruction, with what it is inlined at, or None."""
        places = [f"{self.files[file]}:{line}" for file, line in instruction.loc if file in self.files]
        return ", inlined at ".join(places) or None
