"""mbarrier instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.mbarrier import MBarrier
from gen.ptx.ops.access import GENERIC, SHARED, classify, shared_offset, to_space
from gen.ptx.ops.memory import take_space
from gen.ptx.syntax import Immediate, Name, Operand

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op

_BYTES = 8
_SCOPES = ("cta", "cluster", "release", "acquire", "relaxed", "b64")


def barrier_offset(m: State, ins: Instruction, space: str, address: Array) -> Array:
    """Checked offsets of the current lanes' barriers in shared storage."""
    if space == GENERIC:
        if classify(m, address) != SHARED:
            m.fault("unsupported address", ins, 0, "an mbarrier must be in shared memory")
        address = to_space(m, SHARED, address)
    return shared_offset(m, ins, address, _BYTES)


def find(m: State, ins: Instruction, offset: Array) -> list[MBarrier]:
    """The barrier of each current lane, which must be initialized and ordered after its initialization."""
    m.shared.read(m, ins, offset, _BYTES, m.row_of[m.sel], strong=True)
    out = []
    for k, at in enumerate(offset.tolist()):
        barrier = m.mbarriers.objects.get(at)
        if barrier is None:
            m.fault("uninitialized read", ins, k, "there is no mbarrier here; mbarrier.init comes first")
        out.append(barrier)
    return out


def _values(c: Context, operand: Operand | None, default: int) -> Callable[[State], list[int]]:
    """An integer operand of each current lane."""
    if operand is None or isinstance(operand, Immediate):
        value = default if operand is None else int(operand.bits)
        return lambda m: [value] * m.n
    source = c.source(operand, "u32")
    return lambda m: m.v["u32"][source.index][m.sel].tolist()


def mbarrier(c: Context) -> Op:
    """init, inval, arrive, arrive.expect_tx, expect_tx, complete_tx, test_wait and try_wait."""
    modifiers = c.modifiers
    action = modifiers.pick("init", "inval", "arrive", "expect_tx", "complete_tx", "test_wait", "try_wait")
    expects = action == "expect_tx" or modifiers.flag("expect_tx")
    parity = modifiers.flag("parity")
    modifiers.flag(*_SCOPES)
    space = take_space(modifiers)
    modifiers.done()
    c.translation.shared_widths.add(4)
    if action in ("test_wait", "try_wait"):
        return _wait(c, space, parity)
    if action in ("init", "inval"):
        return _create(c, space, action == "init")
    return _arrive(c, space, action, expects)


def _create(c: Context, space: str, init: bool) -> Op:
    ins, address = c.instruction, c.address(c.operands[0])
    counts = _values(c, c.operands[1] if init else None, 0)

    def run(m: State) -> None:
        offset = barrier_offset(m, ins, space, address(m))
        words = np.array(counts(m), np.uint64)
        where = m.shared.start + offset

        def put() -> None:
            HOST.store(where, words, _BYTES)

        m.shared.write(
            m, ins, offset, _BYTES, m.row_of[m.sel], lambda: HOST.load(where, _BYTES) == words, put
        )
        for at, count in zip(offset.tolist(), words.tolist(), strict=True):
            if init:
                m.mbarriers.create(m, at, count)
            else:
                m.mbarriers.objects.pop(at, None)

    return run


def _arrive(c: Context, space: str, action: str, expects: bool) -> Op:
    """arrive [count], arrive.expect_tx bytes, expect_tx bytes and complete_tx bytes."""
    operands = list(c.operands)
    state = None
    if action == "arrive" and isinstance(operands[0], Name):
        first = operands.pop(0)
        state = None if first == Name("_") else c.destination(first, "b64").index
    ins, address = c.instruction, c.address(operands[0])
    amounts = _values(c, operands[1] if len(operands) > 1 else None, 1)

    def run(m: State) -> None:
        barriers = find(m, ins, barrier_offset(m, ins, space, address(m)))
        rows = m.row_of[m.sel].tolist()
        phases = np.zeros(m.n, np.uint64)
        for k, (barrier, row, amount) in enumerate(zip(barriers, rows, amounts(m), strict=True)):
            phases[k] = barrier.phase
            if expects:
                barrier.bytes += amount
            if action == "arrive":
                count = 1 if expects else amount
                if count > barrier.pending:
                    m.fault("deadlock", ins, k, f"arrives {count} times where {barrier.pending} are awaited")
                m.mbarriers.arrive(m, barrier, row, count)
            elif action == "complete_tx":
                barrier.bytes -= amount
                m.mbarriers.settle(m, barrier)
        if state is not None:
            m.v["u64"][state][m.sel] = phases

    return run


def _wait(c: Context, space: str, parity: bool) -> Op:
    """test_wait and try_wait of a phase token or a phase parity; neither blocks here."""
    c.need(3, 4)
    c.translation.spinning.add(c.position)
    ins, address = c.instruction, c.address(c.operands[1])
    p = c.destination(c.operands[0], "pred").index
    token = c.operands[2]
    slot = None if isinstance(token, Immediate) else c.source(token, "b32" if parity else "b64")
    literal = int(token.bits) if isinstance(token, Immediate) else 0

    def run(m: State) -> None:
        barriers = find(m, ins, barrier_offset(m, ins, space, address(m)))
        wanted = [literal] * m.n if slot is None else m.v[slot.view][slot.index][m.sel].tolist()
        rows = m.row_of[m.sel].tolist()
        done = np.zeros(m.n, bool)
        for k, (barrier, row, phase) in enumerate(zip(barriers, rows, wanted, strict=True)):
            done[k] = barrier.phase % 2 != phase % 2 if parity else barrier.phase != phase
            if done[k]:
                m.mbarriers.observe(m, barrier, row)
        m.v["pred"][p][m.sel] = done

    return run


TABLE: dict[str, Callable[[Context], Op]] = {"mbarrier": mbarrier}
