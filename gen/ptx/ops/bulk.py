"""cp.async.bulk between global and shared memory, and cp.async.mbarrier.arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.copies import Copy
from gen.ptx.ops.access import SHARED, shared_offset
from gen.ptx.ops.emit import nothing
from gen.ptx.ops.mbarrier import barrier_offset, find
from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op

_UNIT = 16  # bulk copies move multiples of 16 bytes


def arrive_after_copies(c: Context) -> Op:
    """cp.async.mbarrier.arrive[.noinc]: the thread's copies so far complete on the barrier."""
    counts = c.modifiers.flag("noinc")
    c.modifiers.flag("arrive", "shared", "shared::cta", "b64")
    c.modifiers.done()
    c.translation.shared_widths.add(4)
    ins, address = c.instruction, c.address(c.operands[0])

    def run(m: State) -> None:
        barriers = find(m, ins, barrier_offset(m, ins, SHARED, address(m)))
        taken = m.copies.take(m)
        for barrier, copies, row in zip(barriers, taken, m.row_of[m.sel].tolist(), strict=True):
            m.mbarriers.attach(m, barrier, row, copies)
            if counts:
                m.mbarriers.arrive(m, barrier, row, 1)

    return run


def bulk(c: Context) -> Op:
    """cp.async.bulk global → shared on an mbarrier, shared → global in a bulk group, and the groups."""
    modifiers = c.modifiers
    if modifiers.flag("tensor"):
        raise c.instruction.error("tensor maps are not implemented; compile without TMA descriptors")
    if modifiers.flag("prefetch"):
        return nothing
    if modifiers.pick("commit_group", "wait_group"):
        return nothing  # shared → global copies read their source at once
    spaces = [w for w in modifiers.left if w in ("shared::cta", "shared::cluster", "global")]
    modifiers.left = [w for w in modifiers.left if w not in spaces and not w.startswith("L2::")]
    modifiers.flag("mbarrier::complete_tx::bytes", "bulk_group")
    modifiers.done()
    c.translation.shared_widths.add(4)
    if spaces[0] == "global":
        return _to_global(c)
    return _to_shared(c)


def _size(c: Context) -> tuple[int | None, int]:
    operand = c.operands[2]
    if isinstance(operand, Immediate):
        return int(operand.bits), 0
    return None, c.source(operand, "u32").index


def _spread(address: int, size: int) -> Array:
    return np.arange(address, address + size, _UNIT)


def _sizes(m: State, c: Context, literal: int | None, index: int) -> list[int]:
    sizes = [literal] * m.n if literal is not None else m.v["u32"][index][m.sel].tolist()
    for k, size in enumerate(sizes):
        if size % _UNIT:
            m.fault("misaligned", c.instruction, k, f"a bulk copy of {size} bytes, not a multiple of {_UNIT}")
    return sizes


def _to_shared(c: Context) -> Op:
    c.need(4, 5)
    ins = c.instruction
    destination, source, bar = (c.address(c.operands[i]) for i in (0, 1, 3))
    literal, index = _size(c)

    def run(m: State) -> None:
        where, origin = destination(m), source(m)
        barriers = find(m, ins, barrier_offset(m, ins, SHARED, bar(m)))
        sizes = _sizes(m, c, literal, index)
        lanes = m.lanes
        for k, size in enumerate(sizes):
            if not size:
                continue
            one = lanes.where(lanes.ids == lanes.ids[k])
            m.select(one)
            row = m.row_of[one.ids]
            addresses = _spread(int(origin[k]), size)
            m.repeat(one, len(addresses))
            m.memory.check(m, ins, addresses, _UNIT, read=True, write=False)
            offset = shared_offset(m, ins, _spread(int(where[k]), size), _UNIT)
            who = np.repeat(row, len(addresses))
            m.shared.begin_copy(m, ins, offset, _UNIT, who)
            words = [HOST.load(addresses + 4 * i, 4) for i in range(4)]
            copy = Copy(np.repeat(one.ids, len(addresses)), who, offset, _UNIT, words)
            m.mbarriers.transfer(m, barriers[k], int(row[0]), copy, size)
            _count(m, "global", SHARED, size)
        m.select(lanes)

    return run


def _to_global(c: Context) -> Op:
    c.need(3, 4)
    ins = c.instruction
    destination, source = c.address(c.operands[0]), c.address(c.operands[1])
    literal, index = _size(c)

    def run(m: State) -> None:
        where, origin = destination(m), source(m)
        sizes = _sizes(m, c, literal, index)
        lanes = m.lanes
        for k, size in enumerate(sizes):
            if not size:
                continue
            one = lanes.where(lanes.ids == lanes.ids[k])
            m.select(one)
            addresses = _spread(int(where[k]), size)
            m.repeat(one, len(addresses))
            offset = shared_offset(m, ins, _spread(int(origin[k]), size), _UNIT)
            m.shared.read(m, ins, offset, _UNIT, m.row_of[m.sel])
            m.memory.check(m, ins, addresses, _UNIT, read=False, write=True)
            for i in range(4):
                HOST.store(addresses + 4 * i, HOST.load(m.shared.start + offset + 4 * i, 4), 4)
            _count(m, SHARED, "global", size)
        m.select(lanes)

    return run


def _count(m: State, source: str, destination: str, size: int) -> None:
    read, written = m.counters.bytes_read, m.counters.bytes_written
    read[source] = read.get(source, 0) + size
    written[destination] = written.get(destination, 0) + size
