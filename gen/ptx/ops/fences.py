"""Fences, cache policies, register budgets and the other instructions about how code runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.ops.emit import nothing
from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op

_REGISTER_COUNTS = range(24, 257, 8)


def fence(c: Context) -> Op:
    """fence and membar: memory is sequentially consistent here, but the race checks need their order."""
    words = c.instruction.modifiers
    if words[:1] != ("proxy",) and "mbarrier_init" not in words:
        device = not {"cta", "cluster"} & set(words)

        def order(m: State) -> None:
            m.order.fence(np.unique(m.row_of[m.sel]), device=device)

        return order
    if words[:1] != ("proxy",) or not words[1:2] or not words[1].startswith("async"):
        return nothing
    if "global" in words or "acquire" in words:
        return nothing

    def run(m: State) -> None:
        m.proxy.fence(np.unique(m.row_of[m.sel]))

    return run


def create_policy(c: Context) -> Op:
    """createpolicy and its kind: an opaque cache policy, here 0."""
    d = c.destination(c.operands[0], "b64").index

    def run(m: State) -> None:
        m.v["u64"][d][m.sel] = 0

    return run


def set_registers(c: Context) -> Op:
    """setmaxnreg: registers are unlimited here; the count must be one the hardware takes."""
    c.need(1)
    operand = c.operands[0]
    if not isinstance(operand, Immediate) or operand.bits not in _REGISTER_COUNTS:
        raise c.instruction.error("the register count must be a multiple of 8 from 24 to 256")
    return nothing


def no_effect(c: Context) -> Op:
    """Instructions without effect here."""
    return nothing


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"fence": fence, "membar": fence, "createpolicy": create_policy, "setmaxnreg": set_registers},
    **dict.fromkeys(("brkpt", "pmevent", "griddepcontrol", "discard", "applypriority"), no_effect),
}
