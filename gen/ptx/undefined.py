"""Finds registers that are read where no path has written them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gen.ptx.translation import Slot, Translation


def undefined_reads(translation: Translation) -> list[str]:
    """One message for each instruction that reads a register nothing can have written before it.

    A forward may-be-written analysis over the control-flow graph: a register written on any path to the read
    is given the benefit of the doubt, because compilers copy undefined values around freely.
    """
    flows, size = translation.flows, len(translation.ops)
    numbers: dict[Slot, int] = {}

    def bits(slots: set[Slot]) -> int:
        out = 0
        for slot in slots:
            out |= 1 << numbers.setdefault(slot, len(numbers))
        return out

    reads, writes = [bits(f.reads) for f in flows], [bits(f.writes) for f in flows]
    written: list[int | None] = [None] * (size + 1)
    written[0] = 0
    work = [0]
    while work:
        position = work.pop()
        state = written[position]
        while position < size and state is not None:
            after = state | writes[position]
            following = flows[position].successors
            if len(following) == 1:
                position = following[0]
                state = _join(written, position, after)
                continue
            work += [s for s in following if _join(written, s, after) is not None]
            break
    out = []
    for position, state in enumerate(written[:size]):
        if state is not None and reads[position] & ~state:
            instruction = translation.program.code[position].instruction
            where = f"PTX line {instruction.line}: {instruction.text!r}"
            out.append(f"{where}: reads a register that nothing has written")
    return out


def _join(written: list[int | None], position: int, state: int) -> int | None:
    """Adds to what may be written at a position; the new state if it changed, else None."""
    old = written[position]
    if old is not None and old | state == old:
        return None
    written[position] = state | (old or 0)
    return written[position]
