"""mbarrier instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.mbarrier import COUNT_LIMIT, MBARRIER_BYTES, MBarrier, Wait
from gen.ptx.ops.access import GENERIC, SHARED, classify, shared_offset, to_space
from gen.ptx.ops.memory import take_space
from gen.ptx.syntax import Address, Immediate, Name, Operand

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op

MISUSE = "mbarrier misuse"
_SCOPES = ("cta", "cluster", "release", "acquire", "relaxed", "b64", "aligned")
_PENDING_SHIFT = 32  # a state token is the phase below the pending count


def barrier_offset(m: State, ins: Instruction, space: str, address: Array) -> Array:
    """Checked offsets of the current lanes' barriers in shared storage."""
    if space == GENERIC:
        if classify(m, address) != SHARED:
            m.fault("unsupported address", ins, 0, "an mbarrier must be in shared memory")
        address = to_space(m, SHARED, address)
    return shared_offset(m, ins, address, MBARRIER_BYTES, by_threads=False)


def find(m: State, ins: Instruction, offset: Array) -> list[MBarrier]:
    """The barrier of each current lane, which must be initialized and ordered after its initialization."""
    objects = m.mbarriers.objects
    out = [objects.get(at) for at in offset.tolist()]
    if None in out:
        k = out.index(None)
        access = m.shared_access(m.shared.address(int(offset[k])), MBARRIER_BYTES)
        m.fault(MISUSE, ins, k, "there is no mbarrier here; mbarrier.init comes first", access)
    m.shared.read(m, ins, offset, MBARRIER_BYTES, m.row_of[m.sel], strong=True)
    return [barrier for barrier in out if barrier]


def _values(c: Context, operand: Operand | None, default: int) -> Callable[[State], list[int]]:
    """An integer operand of each current lane."""
    if operand is None or isinstance(operand, Immediate):
        value = default if operand is None else int(operand.bits)
        return lambda m: [value] * m.n
    source = c.source(operand, "u32")
    return lambda m: m.v["u32"][source.index][m.sel].tolist()


def mbarrier(c: Context) -> Op:
    """init, inval, arrive, arrive_drop, expect_tx, complete_tx, test_wait, try_wait and pending_count."""
    modifiers = c.modifiers
    names = ("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "pending_count")
    action = modifiers.pick(*names, "test_wait", "try_wait")
    expects = action == "expect_tx" or modifiers.flag("expect_tx")
    parity, partial = modifiers.flag("parity"), modifiers.flag("noComplete")
    modifiers.flag(*_SCOPES)
    space = take_space(modifiers)
    modifiers.done()
    c.translation.shared_widths.add(4)
    if action in ("test_wait", "try_wait"):
        return _wait(c, space, parity)
    if action in ("init", "inval"):
        return _create(c, space, action == "init")
    if action == "pending_count":
        return _pending_count(c)
    return _arrive(c, space, action, expects, partial)


def _create(c: Context, space: str, init: bool) -> Op:
    ins, address = c.instruction, c.address(c.operands[0])
    counts = _values(c, c.operands[1] if init else None, 0)

    def run(m: State) -> None:
        offset = barrier_offset(m, ins, space, address(m))
        words = np.array(counts(m), np.uint64)
        for k, (at, count) in enumerate(zip(offset.tolist(), words.tolist(), strict=True)):
            if init == (at in m.mbarriers.objects):
                why = "is initialized already; mbarrier.inval it first" if init else "was never initialized"
                access = m.shared_access(m.shared.address(at), MBARRIER_BYTES)
                m.fault(MISUSE, ins, k, f"the mbarrier at {m.shared.address(at):#x} {why}", access)
            if not init:
                del m.mbarriers.objects[at]
            elif 1 <= count <= COUNT_LIMIT:
                m.mbarriers.create(m, at, count)
            else:
                m.fault(MISUSE, ins, k, f"an arrival count of {count}; it must be 1 to {COUNT_LIMIT}")
        where = m.shared.start + offset

        def put() -> None:
            HOST.store(where, words, MBARRIER_BYTES)

        m.shared.write(
            m,
            ins,
            offset,
            MBARRIER_BYTES,
            m.row_of[m.sel],
            lambda: HOST.load(where, MBARRIER_BYTES) == words,
            put,
        )

    return run


def _arrive(c: Context, space: str, action: str, expects: bool, partial: bool) -> Op:
    """arrive [count], arrive.expect_tx bytes, arrive_drop likewise, expect_tx bytes and complete_tx bytes."""
    operands = list(c.operands)
    state = None
    if not isinstance(operands[0], Address):
        first = operands.pop(0)
        state = None if first == Name("_") else c.destination(first, "b64").index
    ins, address = c.instruction, c.address(operands[0])
    amounts = _values(c, operands[1] if len(operands) > 1 else None, 1)
    arrives, drops = action.startswith("arrive"), action == "arrive_drop"

    def run(m: State) -> None:
        barriers = find(m, ins, barrier_offset(m, ins, space, address(m)))
        rows = m.row_of[m.sel].tolist()
        tokens = np.zeros(m.n, np.uint64)
        for k, (barrier, row, amount) in enumerate(zip(barriers, rows, amounts(m), strict=True)):
            tokens[k] = barrier.phase | barrier.pending << _PENDING_SHIFT
            if expects or not arrives:
                _transact(m, ins, k, barrier, amount if expects else -amount)
            if not arrives:
                m.mbarriers.settle(m, barrier)
                continue
            count = 1 if expects else amount
            if not 1 <= count <= barrier.pending or (partial and count == barrier.pending):
                m.fault(MISUSE, ins, k, f"arrives {count} times where {barrier.pending} arrivals are awaited")
            if drops:
                barrier.expected -= count
            m.mbarriers.arrive(m, barrier, row, count)
        if state is not None:
            m.v["u64"][state][m.sel] = tokens

    return run


def _transact(m: State, ins: Instruction, k: int, barrier: MBarrier, amount: int) -> None:
    barrier.bytes += amount
    if abs(barrier.bytes) > COUNT_LIMIT:
        m.fault(
            MISUSE,
            ins,
            k,
            f"the transaction count overflows: {barrier.bytes} bytes, beyond ±{COUNT_LIMIT}; spread the "
            "copies over several phases",
        )


def _pending_count(c: Context) -> Op:
    """pending_count of a state token."""
    d, token = c.destination(c.operands[0], "u32").index, c.source(c.operands[1], "b64").index

    def run(m: State) -> None:
        state = m.v["u64"][token][m.sel]
        m.v["u32"][d][m.sel] = (state >> np.uint64(_PENDING_SHIFT)).astype(np.uint32)

    return run


def _wait(c: Context, space: str, parity: bool) -> Op:
    """test_wait and try_wait of a state token or a phase parity; neither blocks here."""
    c.need(3, 4)
    c.translation.spinning.add(c.position)
    ins, address = c.instruction, c.address(c.operands[1])
    p = c.destination(c.operands[0], "pred").index
    wanted = _values(c, c.operands[2], 0) if parity else _phases(c, c.operands[2])
    if len(c.operands) == 4:
        c.source(c.operands[3], "u32")  # how long to suspend at most

    def run(m: State) -> None:
        offsets = barrier_offset(m, ins, space, address(m))
        barriers = find(m, ins, offsets)
        done: dict[tuple[int, int, int], bool] = {}
        out = np.zeros(m.n, bool)
        rows = m.row_of[m.sel].tolist()
        for k, (barrier, row, phase) in enumerate(zip(barriers, rows, wanted(m), strict=True)):
            key = id(barrier), row, phase
            if key not in done:
                done[key] = _completed(m, ins, k, barrier, phase, parity)
                if done[key]:
                    m.mbarriers.observe(m, barrier, row)
                    m.mbarriers.waits.pop(row, None)
                else:
                    m.mbarriers.waits[row] = Wait(ins, int(offsets[k]), barrier)
            out[k] = done[key]
        m.v["pred"][p][m.sel] = out

    return run


def _phases(c: Context, operand: Operand) -> Callable[[State], list[int]]:
    token = c.source(operand, "b64").index
    return lambda m: (m.v["u64"][token][m.sel] & np.uint64((1 << _PENDING_SHIFT) - 1)).tolist()


def _completed(m: State, ins: Instruction, k: int, barrier: MBarrier, phase: int, parity: bool) -> bool:
    """Whether the phase is over. A token must be of the current phase or of the one before."""
    if parity:
        return barrier.phase % 2 != phase % 2
    if not 0 <= barrier.phase - phase <= 1:
        m.fault(
            MISUSE,
            ins,
            k,
            f"waits with the state of phase {phase} while the barrier is in phase {barrier.phase}; only that "
            "of the current phase or of the one before can be waited for",
        )
    return barrier.phase != phase


TABLE: dict[str, Callable[[Context], Op]] = {"mbarrier": mbarrier}
