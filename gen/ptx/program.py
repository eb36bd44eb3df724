"""Links one entry: device functions are inlined, names resolved, code cut into straight runs.

A *position* is an index into `Program.code`; branch targets and return points are positions. Because bodies
are inlined where they are called, the lowest position of a warp's threads is where they reconverge first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gen.ptx.errors import PtxError
from gen.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    ModuleText,
    Name,
    Operand,
    TensorAddress,
    Variable,
    Vector,
)

SHARED_BASE = 1024
"""Shared-space address of the first byte: the hardware keeps the first KiB for itself."""

BARRIERS = frozenset({"bar", "barrier"})
ENDINGS = frozenset({"bra", "brx", "ret", "exit", "trap"})


def ends_run(instruction: Instruction) -> bool:
    """Whether threads may part, wait or stop at this instruction."""
    if instruction.opcode in BARRIERS:
        return "warp" not in instruction.modifiers
    return instruction.opcode in ENDINGS


_INDEXED = re.compile(r"(.*?)(\d+)$")
_HOST_CALLS = ("vprintf", "__assertfail")  # what printf() and a failed assert() of CUDA C++ call
_INLINE_LIMIT = 200_000


@dataclass(slots=True)
class Frame:
    """One inlined activation of a function: its names, and where it returns to (None for the entry)."""

    number: int
    function: Function
    labels: dict[str, int] = field(default_factory=dict)
    locals: dict[str, int] = field(default_factory=dict)
    returns_to: int | None = None


@dataclass(slots=True)
class Placed:
    """An instruction at its position, in the frame that gives its names meaning."""

    instruction: Instruction
    frame: Frame


@dataclass
class Program:
    """A linked entry."""

    function: Function
    module: ModuleText
    code: list[Placed] = field(default_factory=list)
    leaders: set[int] = field(default_factory=set)
    local_bytes: int = 0
    shared: dict[str, int] = field(default_factory=dict)
    shared_sizes: dict[str, int] = field(default_factory=dict)
    dynamic_shared: list[str] = field(default_factory=list)
    static_shared_bytes: int = 0
    dynamic_align: int = 16

    def register_type(self, frame: Frame, name: str) -> str | None:
        """The declared type of a register, or None if `name` is not one."""
        function = frame.function
        if kind := function.registers.get(name):
            return kind
        match = _INDEXED.match(name)
        if match:
            prefix, index = match.group(1), int(match.group(2))
            for family, count, kind in function.families:
                if family == prefix and index < count:
                    return kind
        return None

    def label(self, placed: Placed, operand: Operand) -> int:
        """The position of a label operand."""
        if isinstance(operand, Name) and operand.text in placed.frame.labels:
            return placed.frame.labels[operand.text]
        raise placed.instruction.error(f"no such label in {placed.frame.function.name}")


def link(module: ModuleText, entry: str) -> Program:
    """The program of an entry. Raises `PtxError` for calls that cannot be inlined and for unknown labels."""
    function = module.functions.get(entry)
    if function is None or not function.entry:
        names = ", ".join(sorted(name for name, f in module.functions.items() if f.entry))
        raise PtxError(f"no entry {entry!r} in this module; it has: {names}")
    program = Program(function, module)
    linker = _Linker(program)
    linker.place(Frame(0, function), ())
    program.leaders |= {0}
    _lay_out_shared(program)
    return program


class _Linker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.frames = 0

    def place(self, frame: Frame, callers: tuple[str, ...]) -> None:
        """Appends the body of a frame's function, then resolves where it returns to."""
        program, function = self.program, frame.function
        if function.body is None:
            raise PtxError(f"function {function.name!r} is called but has no body in this module")
        for variable in function.variables:
            if variable.space in ("local", "param"):
                frame.locals[variable.name] = self.allocate(variable)
        start = len(program.code)
        for item in function.body:
            if isinstance(item, Label):
                frame.labels[item.name] = len(program.code)
                program.leaders.add(len(program.code))
            elif item.opcode == "call":
                self.call(item, frame, (*callers, function.name))
            else:
                program.code.append(Placed(item, frame))
                if ends_run(item):
                    program.leaders.add(len(program.code))
        if len(program.code) > _INLINE_LIMIT:
            raise PtxError(f"{function.name}: more than {_INLINE_LIMIT} instructions after inlining calls")
        if len(program.code) == start or program.code[-1].instruction.opcode not in ENDINGS:
            end = Instruction(function.line, "ret", None, "ret", (), ())
            program.code.append(Placed(end, frame))
        frame.returns_to = len(program.code) if callers else None
        program.leaders.add(len(program.code))

    def allocate(self, variable: Variable) -> int:
        align = max(variable.align, 1)
        offset = -(-self.program.local_bytes // align) * align
        self.program.local_bytes = offset + variable.size
        return offset

    def call(self, instruction: Instruction, frame: Frame, callers: tuple[str, ...]) -> None:
        """Inlines a direct call; its formal parameters become other names of the caller's variables."""
        if instruction.predicate:
            raise instruction.error("predicated calls are not implemented")
        operands = list(instruction.operands)
        results: tuple[Operand, ...] = ()
        if operands and isinstance(operands[0], Vector):
            results = operands.pop(0).items  # type: ignore[union-attr]
        callee = operands.pop(0) if operands else None
        arguments = operands[0].items if operands and isinstance(operands[0], Vector) else ()
        function = self.program.module.functions.get(callee.text) if isinstance(callee, Name) else None
        if function and function.name in _HOST_CALLS:
            arguments = (*arguments, *results)
            if any(not isinstance(a, Name) or a.text not in frame.locals for a in arguments):
                raise instruction.error("only .param variables can be passed")
            inner_call = Instruction(instruction.line, instruction.text, None, function.name, (), arguments)
            self.program.code.append(Placed(inner_call, frame))
            self.program.leaders.add(len(self.program.code))
            return
        if function is None or len(operands) > 1:
            raise instruction.error("only direct calls of functions of this module are implemented")
        if function.name in callers:
            raise instruction.error("recursion is not implemented")
        if len(arguments) != len(function.parameters) or len(results) != len(function.results):
            raise instruction.error(f"{function.name} takes other parameters")
        self.frames += 1
        inner = Frame(self.frames, function)
        pairs = zip((*arguments, *results), (*function.parameters, *function.results), strict=True)
        for actual, formal in pairs:
            if not isinstance(actual, Name) or actual.text not in frame.locals:
                raise instruction.error("only .param variables can be passed")
            inner.locals[formal.name] = frame.locals[actual.text]
        self.place(inner, callers)


def _names(operands: tuple[Operand, ...]) -> list[str]:
    out = []
    for operand in operands:
        if isinstance(operand, TensorAddress):
            operand = operand.map
        if isinstance(operand, Vector):
            out += _names(operand.items)
        elif isinstance(operand, Name):
            out.append(operand.text)
        elif isinstance(operand, Address) and operand.base:
            out.append(operand.base.text)
    return out


def _lay_out_shared(program: Program) -> None:
    """Addresses of the shared variables that the code names: static ones first, then the dynamic buffer."""
    declared = {v.name: v for v in program.module.variables.values() if v.space == "shared"}
    for placed in program.code:
        for variable in placed.frame.function.variables:
            if variable.space == "shared":
                declared.setdefault(variable.name, variable)
    used = {name for placed in program.code for name in _names(placed.instruction.operands)} & set(declared)
    size = 0
    for name, variable in declared.items():
        if name not in used:
            continue
        if variable.external or variable.size == 0:
            program.dynamic_shared.append(name)
            program.dynamic_align = max(program.dynamic_align, variable.align)
        else:
            size = -(-size // variable.align) * variable.align
            program.shared[name] = SHARED_BASE + size
            program.shared_sizes[name] = variable.size
            size += variable.size
    align = program.dynamic_align
    program.static_shared_bytes = -(-size // align) * align if program.dynamic_shared else size
    for name in program.dynamic_shared:
        program.shared[name] = SHARED_BASE + program.static_shared_bytes


def parameter_layout(function: Function) -> tuple[dict[str, int], int]:
    """Byte offset of each parameter in the parameter buffer, and the size of the buffer."""
    offsets, size = {}, 0
    for parameter in function.parameters:
        align = max(parameter.element, parameter.align if parameter.size > 8 else 1)
        size = -(-size // align) * align
        offsets[parameter.name] = size
        size += parameter.size
    return offsets, size
