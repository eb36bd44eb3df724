"""cp.async.bulk and cp.reduce.async.bulk between global and shared memory, their groups, and
cp.async.mbarrier.arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.ops.access import SHARED
from gen.ptx.ops.emit import nothing
from gen.ptx.ops.engine import (
    REDUCTIONS,
    UNIT,
    distinct,
    drain_shared,
    fill_shared,
    hints,
    load_global,
    one_by_one,
)
from gen.ptx.ops.mbarrier import barrier_offset, find
from gen.ptx.ops.tensor import tensor_copy
from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from collections.abc import Callable

    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op

_TO_SHARED = (("shared::cta", "global"), ("shared::cluster", "global"))
_TO_GLOBAL = ("global", "shared::cta")


def arrive_after_copies(c: Context) -> Op:
    """cp.async.mbarrier.arrive[.noinc]: the thread's copies so far complete on the barrier.

    Without .noinc the pending count is raised first, so that the arrival leaves it as it was.
    """
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
    """Everything that starts with cp.async.bulk or cp.reduce.async.bulk."""
    modifiers = c.modifiers
    c.translation.shared_widths.add(4)
    reduces = modifiers.flag("reduce")
    if action := modifiers.pick("commit_group", "wait_group"):
        return _group(c, action)
    prefetches = modifiers.flag("prefetch")
    if modifiers.flag("tensor"):
        return tensor_copy(c, prefetches=prefetches, reduces=reduces)
    if prefetches:
        modifiers.flag("L2", "global", "L2::cache_hint")
        modifiers.done()
        return nothing
    spaces = tuple(w for w in modifiers.left if w in ("shared::cta", "shared::cluster", "global"))
    modifiers.flag(*spaces)
    if spaces in _TO_SHARED and not reduces and modifiers.flag("mbarrier::complete_tx::bytes"):
        return _to_shared(c)
    if spaces == _TO_GLOBAL and modifiers.flag("bulk_group"):
        return _to_global(c, _reduction(c) if reduces else None)
    raise c.instruction.error(
        "this form of bulk copy is not implemented; copies go between global and shared"
    )


def _group(c: Context, action: str) -> Op:
    read = c.modifiers.flag("read")
    c.modifiers.done()
    if action == "commit_group":
        return lambda m: m.bulk_groups.commit(m)
    c.need(1)
    operand = c.operands[0]
    if not isinstance(operand, Immediate):
        raise c.instruction.error("the number of pending groups must be a literal")
    pending = operand.bits
    return lambda m: m.bulk_groups.wait(m, pending, read=read)


def _reduction(c: Context) -> tuple[str, str]:
    name, kind = c.modifiers.pick(*REDUCTIONS), c.modifiers.type()
    c.modifiers.flag("noftz")
    if kind not in REDUCTIONS[name]:
        raise c.instruction.error(f"there is no bulk reduction {name} of type .{kind}")
    return name, kind


def _sizes(c: Context) -> Callable[[State], list[int]]:
    """Bytes of each current lane's copy, checked."""
    operand, ins = c.operands[2], c.instruction
    literal = int(operand.bits) if isinstance(operand, Immediate) else None
    index = 0 if literal is not None else c.source(operand, "u32").index

    def sizes(m: State) -> list[int]:
        values = [literal] * m.n if literal is not None else m.v["u32"][index][m.sel].tolist()
        for k, size in enumerate(values):
            if size % UNIT:
                m.fault("misaligned", ins, k, f"a bulk copy of {size} bytes, not a multiple of {UNIT}")
        return values

    return sizes


def _units(address: int, size: int) -> Array:
    return np.arange(address, address + size, UNIT, dtype=np.int64)


def _to_shared(c: Context) -> Op:
    """[dst], [src], size, [mbar] and hints."""
    ins = c.instruction
    check = hints(c, c.operands[4:])
    c.modifiers.done()
    destination, source, bar = (c.address(c.operands[i]) for i in (0, 1, 3))
    sizes = _sizes(c)

    def run(m: State) -> None:
        check(m)
        where, origin = destination(m), source(m)
        barriers = find(m, ins, barrier_offset(m, ins, SHARED, bar(m)))
        amounts = sizes(m)
        for k, row in one_by_one(m):
            if amounts[k]:
                addresses = _units(int(origin[k]), amounts[k])
                _aligned(m, ins, int(origin[k]))
                halves = load_global(m, ins, (addresses[:, None] + np.array([0, 8])).reshape(-1), 8)
                words = list(halves.view(np.uint32).reshape(-1, 4).T)
                places = _units(int(where[k]), amounts[k])
                fill_shared(m, ins, places, words, barriers[k], row, amounts[k])

    return run


def _to_global(c: Context, reduction: tuple[str, str] | None) -> Op:
    """[dst], [src], size and hints."""
    ins = c.instruction
    hints(c, c.operands[3:])
    c.modifiers.done()
    destination, source = c.address(c.operands[0]), c.address(c.operands[1])
    sizes = _sizes(c)
    width = int(reduction[1].lstrip("busf")) // 8 if reduction else 8
    c.translation.global_widths.add(width)

    def run(m: State) -> None:
        where, origin = destination(m), source(m)
        amounts = sizes(m)
        orders = zip(where.tolist(), origin.tolist(), amounts, strict=True)
        for k in distinct(m, ins, orders, adds=reduction is not None):
            if amounts[k]:
                start = int(where[k])
                _aligned(m, ins, start)
                addresses = np.arange(start, start + amounts[k], width, dtype=np.int64)
                places = _units(int(origin[k]), amounts[k])
                drain_shared(
                    m, ins, places, addresses, width, lambda b: b.reshape(-1).view(f"u{width}"), reduction
                )

    return run


def _aligned(m: State, ins: Instruction, address: int) -> None:
    if address % UNIT:
        m.fault(
            "misaligned",
            ins,
            0,
            f"global address {address:#x} of a bulk copy is not a multiple of {UNIT}",
            m.memory.access(address, UNIT),
        )
