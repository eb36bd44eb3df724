"""From a linked program to Python closures, one an instruction, made once a kernel."""

from __future__ import annotations

import numpy as np

from gen.ptx.context import Context
from gen.ptx.liveness import share_registers
from gen.ptx.ops import TABLE
from gen.ptx.program import Program, ends_run
from gen.ptx.state import State
from gen.ptx.translation import Op, Translation

_SYNCHRONIZING = frozenset({"shfl", "vote", "match", "redux", "elect", "ldmatrix", "stmatrix", "mma"})


def translate(program: Program, global_addresses: dict[str, int]) -> Translation:
    """Translates every instruction of a program. Raises `PtxError` at the first that is not implemented.

    A first pass gives every PTX register its own array and shows what is live where; the second repeats it
    with arrays that registers share.
    """
    first = Translation(program, global_addresses=global_addresses)
    _translate_into(first)
    shared, counts = share_registers(first)
    second = Translation(program, global_addresses=global_addresses, registers=counts)
    second.names = {key: shared[slot] for key, slot in first.names.items() if slot in shared}
    _translate_into(second)
    second.flows = first.flows
    return second


def _translate_into(translation: Translation) -> None:
    for position, placed in enumerate(translation.program.code):
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


def _guard(op: Op, index: int, negated: bool) -> Op:
    """Runs `op` for the lanes whose predicate holds."""

    def run(m: State) -> None:
        mask = m.v["pred"][index][m.sel]
        if negated:
            mask = ~mask
        count = int(np.count_nonzero(mask))
        if count == m.n:
            op(m)
        elif count:
            lanes = m.lanes
            m.select(lanes.where(mask))
            op(m)
            m.select(lanes)

    return run
