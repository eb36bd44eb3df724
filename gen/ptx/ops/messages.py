"""What kernels print: `printf` and failed assertions of CUDA C++, which call the driver's functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.lanes import Lanes
from gen.ptx.ops.access import GENERIC, LOCAL, load, store
from gen.ptx.syntax import Name

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op

_LONGEST = 4096  # characters of a string before it counts as unterminated
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t)?([diouxXeEfFgGaAcsp%])")


def _parameters(c: Context) -> list[int]:
    """Offsets in local memory of the .param variables that the call passes."""
    return [c.placed.frame.locals[o.text] for o in c.operands if isinstance(o, Name)]


def _each_lane(m: State, run: Callable[[], None]) -> None:
    """Does something with every running lane alone, in the order of warps."""
    lanes = m.lanes
    for lane in lanes.ids.tolist():
        m.select(Lanes(range(lane, lane + 1)))
        run()
    m.select(lanes)


def _word(m: State, ins: Instruction, space: str, address: int, width: int) -> int:
    """One unsigned word of the only current lane."""
    return int(load(m, ins, space, np.array([address], np.int64), width, 1)[0][0])


def _text(m: State, ins: Instruction, address: int) -> str:
    """The characters up to a zero byte."""
    out = bytearray()
    while len(out) < _LONGEST:
        byte = _word(m, ins, GENERIC, address + len(out), 1)
        if not byte:
            break
        out.append(byte)
    return out.decode("utf-8", "replace")


def _formatted(m: State, ins: Instruction, form: str, address: int) -> str:
    """`form` filled from the buffer at `address`, where each value is aligned to its size (4 or 8 bytes)."""
    at = address

    def take(width: int, kind: str) -> int | float:
        nonlocal at
        at = -(-at // width) * width
        value = np.uint64(_word(m, ins, GENERIC, at, width))
        at += width
        return np.array([value], np.uint64).view(kind)[0].item()  # type: ignore[no-any-return]

    def fill(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        if width == "*":
            width = str(take(4, "<i4"))
        if precision == "*":
            precision = str(take(4, "<i4"))
        spec = f"%{flags}{width or ''}" + (f".{precision}" if precision is not None else "")
        wide = length in ("l", "ll", "j", "z", "t")
        if kind == "s":
            return (spec + "s") % _text(m, ins, int(take(8, "<u8")))
        if kind == "p":
            return (spec + "s") % f"{take(8, '<u8'):#x}"
        if kind == "c":
            return (spec + "s") % chr(int(take(4, "<u4")) & 255)
        if kind in "di":
            return (spec + "d") % take(8 if wide else 4, "<i8" if wide else "<i4")
        if kind in "ouxX":
            return (spec + ("d" if kind == "u" else kind)) % take(8 if wide else 4, "<u8" if wide else "<u4")
        if kind in "aA":
            return float(take(8, "<f8")).hex()
        return (spec + kind) % take(8, "<f8")

    return _CONVERSION.sub(fill, form)


def vprintf(c: Context) -> Op:
    """vprintf(format, buffer): the text goes to the report's messages; returns its arguments' number."""
    form, buffer, *returned = _parameters(c)
    ins = c.instruction

    def run(m: State) -> None:
        def one() -> None:
            text = _text(m, ins, _word(m, ins, LOCAL, form, 8))
            m.counters.messages.append(_formatted(m, ins, text, _word(m, ins, LOCAL, buffer, 8)))
            count = sum(match.group(5) != "%" for match in _CONVERSION.finditer(text))
            for offset in returned:
                store(m, ins, LOCAL, m.constant_address(offset), 4, [np.array([count], np.uint32)])

        _each_lane(m, one)

    return run


def assertfail(c: Context) -> Op:
    """__assertfail(message, file, line, function, size of a character): a fault that says all of it."""
    message, file, line, function, _ = _parameters(c)
    ins = c.instruction

    def run(m: State) -> None:
        def one() -> None:
            what, where, name = (
                _text(m, ins, _word(m, ins, LOCAL, offset, 8)) for offset in (message, file, function)
            )
            number = _word(m, ins, LOCAL, line, 4)
            m.fault("trap", ins, 0, f"the assertion `{what}` of {name} failed, {where}:{number}")

        _each_lane(m, one)

    return run


TABLE: dict[str, Callable[[Context], Op]] = {"vprintf": vprintf, "__assertfail": assertfail}
