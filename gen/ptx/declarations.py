"""Declarations: registers, variables and parameters with their qualifiers and initial values."""

from __future__ import annotations

import re
import struct
from math import prod

from gen.ptx.errors import PtxError
from gen.ptx.literals import parse_operand, split_operands
from gen.ptx.syntax import Immediate, Name, Variable

TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64, 128)},
    **{"f16": 2, "f16x2": 4, "bf16": 2, "bf16x2": 4, "f32": 4, "f64": 8, "f32x2": 8},
}

_DECLARATION = re.compile(
    r"\.(reg|shared|local|param|global|const|tex)\b\s*((?:\.[\w:]+(?:\s+(?=\d)\d+)?\s*)*)(.*)", re.S
)
_DECLARATOR = re.compile(r"([\w$%]+)\s*(?:<(\d+)>)?\s*((?:\[[^\]]*\]\s*)*)(?:=\s*(.*))?$", re.S)


def _fail(why: str, line: int) -> PtxError:
    return PtxError(f"PTX line {line}: {why}", line)


def parse_registers(statement: str, line: int) -> tuple[str, list[tuple[str, int | None]]]:
    """(type, names) of `.reg`; a name with a count n stands for name0 … name(n−1). Raises `PtxError`."""
    match = _DECLARATION.match(statement)
    if not match:
        raise _fail(f"cannot read {statement!r}", line)
    _, kind, vector = _qualifiers(match.group(2), line)
    if vector != 1:
        raise _fail("vector registers are not implemented; declare scalar ones", line)
    names: list[tuple[str, int | None]] = []
    for declarator in split_operands(match.group(3)):
        parts = _DECLARATOR.match(declarator)
        if not parts:
            raise _fail(f"cannot read the register {declarator!r}", line)
        names.append((parts.group(1), int(parts.group(2)) if parts.group(2) else None))
    return kind, names


def parse_variables(statement: str, line: int) -> list[Variable]:
    """Variables such as `.shared .align 16 .b8 name[1024]`, of any space but `.reg`. Raises `PtxError`."""
    match = _DECLARATION.match(statement)
    if not match:
        raise _fail(f"cannot read {statement[:80]!r}", line)
    space, qualifiers, names = match.groups()
    align, kind, vector = _qualifiers(qualifiers, line)
    out = []
    for declarator in split_operands(names):
        parts = _DECLARATOR.match(declarator)
        if not parts:
            raise _fail(f"cannot read the declaration {declarator!r}", line)
        name, count, dimensions, values = parts.groups()
        sizes = [int(d.strip() or "0", 0) for d in re.findall(r"\[([^\]]*)\]", dimensions or "")]
        element = TYPE_BYTES[kind]
        words = _initial_words(values, kind, line) if values else ()
        if sizes and sizes[0] == 0 and words:
            sizes[0] = len(words)
        size = element * vector * prod(sizes)
        labels = [name] if count is None else [f"{name}{i}" for i in range(int(count))]
        out += [
            Variable(label, space, kind, align or element * vector, size, element, words, line)
            for label in labels
        ]
    return out


def _qualifiers(text: str, line: int) -> tuple[int, str, int]:
    """(alignment or 0, type, vector length) of the dotted words before a declared name."""
    align, kind, vector = 0, "", 1
    words = text.replace(".", " .").split()
    for i, word in enumerate(words):
        name = word.lstrip(".")
        if name in TYPE_BYTES or name == "pred":
            kind = name
        elif name in ("v2", "v4"):
            vector = int(name[1])
        elif name == "align" and i + 1 < len(words) and ".ptr" not in words[:i]:
            align = int(words[i + 1])
    if not kind:
        raise _fail(f"no known type in {text!r}", line)
    return align, kind, vector


def _initial_words(values: str, kind: str, line: int) -> tuple[int | str, ...]:
    """Initial values, flattened: integers (float literals as bits of `kind`) or symbol names."""
    out: list[int | str] = []
    for item in re.sub(r"[{}]", " ", values).split(","):
        text = re.sub(r"^generic\((.*)\)$", r"\1", item.strip())
        try:
            literal = parse_operand(text)
        except ValueError:
            raise _fail(f"cannot read the initial value {text!r}", line) from None
        if isinstance(literal, Name):
            out.append(literal.text)
        elif isinstance(literal, Immediate):
            narrow = kind == "f32" and literal.float_bits == 64
            bits = int.from_bytes(struct.pack("<f", literal.value), "little") if narrow else literal.bits
            out.append(bits)
        else:
            raise _fail(f"cannot read the initial value {text!r}", line)
    return tuple(out)
