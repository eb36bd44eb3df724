"""cp.async: copies from global to shared memory that land when they are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.ops.access import SHARED, shared_offset
from gen.ptx.ops.bulk import arrive_after_copies, bulk
from gen.ptx.syntax import Immediate, Name, Operand

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op


def copy_async(c: Context) -> Op:
    """cp.async with its groups, and the bulk and mbarrier forms."""
    modifiers = c.modifiers
    if not modifiers.flag("async"):
        raise c.instruction.error("this copy is not implemented")
    if modifiers.flag("bulk"):
        return bulk(c)
    if modifiers.flag("mbarrier"):
        return arrive_after_copies(c)
    action = modifiers.pick("commit_group", "wait_group", "wait_all")
    if action:
        modifiers.done()
        return _group(c, action)
    modifiers.flag("ca", "cg", "shared", "shared::cta", "shared::cluster", "global")
    modifiers.left = [w for w in modifiers.left if not w.startswith("L2::")]
    modifiers.done()
    return _issue(c)


def _group(c: Context, action: str) -> Op:
    if action == "commit_group":
        return lambda m: m.copies.commit(m)
    if action == "wait_all":
        return lambda m: m.copies.wait(m, None)
    c.need(1)
    operand = c.operands[0]
    if not isinstance(operand, Immediate):
        raise c.instruction.error("the number of pending groups must be a literal")
    pending = operand.bits
    return lambda m: m.copies.wait(m, pending)


def _issue(c: Context) -> Op:
    """[dst], [src], size[, src-size or ignore-src]."""
    c.need(3, 4, 5)
    size_operand = c.operands[2]
    if not isinstance(size_operand, Immediate) or size_operand.bits not in (4, 8, 16):
        raise c.instruction.error("the copy size must be the literal 4, 8 or 16")
    size = size_operand.bits
    destination, source = c.address(c.operands[0]), c.address(c.operands[1])
    c.translation.shared_widths.add(4)
    given = _given_bytes(c, c.operands[3], size) if len(c.operands) > 3 else None
    ins = c.instruction

    def run(m: State) -> None:
        where, origin = destination(m), source(m)
        count = given(m) if given else np.full(m.n, size, np.int64)
        if count.max() > size:
            m.fault(
                "out of bounds",
                ins,
                int(count.argmax()),
                f"source size {int(count.max())} of a copy of {size}",
            )
        offset = shared_offset(m, ins, where, size)
        m.shared.begin_copy(m, ins, offset, size, m.row_of[m.sel])
        m.copies.issue(m, offset, size, _read(m, ins, origin, count, size))
        written = m.counters.bytes_written
        written[SHARED] = written.get(SHARED, 0) + size * m.n

    return run


def _given_bytes(c: Context, operand: Operand, size: int) -> Callable[[State], Array] | None:
    """How many bytes come from the source; the rest are zeros."""
    if isinstance(operand, Immediate):
        value = operand.bits
        return lambda m: np.full(m.n, value, np.int64)
    slot = c.register(operand)
    if slot is None:
        raise c.instruction.error("src-size must be a register or a literal")
    if slot.view == "pred" and isinstance(operand, Name):
        index, negated = c.predicate(operand)
        return lambda m: np.where(m.v["pred"][index][m.sel] ^ negated, 0, size)
    if slot.view != "u32":
        return None  # an L2 cache policy
    return lambda m: m.v["u32"][slot.index][m.sel].astype(np.int64)


def _read(m: State, ins: Instruction, origin: Array, count: Array, size: int) -> list[Array]:
    """The source words, zero beyond each lane's count; source bytes beyond it are not touched."""
    words = [np.zeros(len(origin), np.uint32) for _ in range(size // 4)]
    lanes = m.lanes
    for amount in np.unique(count):
        if amount == 0:
            continue
        mask = count == amount
        everyone = bool(mask.all())
        if not everyone:
            m.select(lanes.where(mask))
        address = origin if everyone else origin[mask]
        amount = int(amount)
        if (address & (size - 1)).any():
            k = int(np.flatnonzero(address & (size - 1))[0])
            access = m.memory.access(int(address[k]), size)
            m.fault("misaligned", ins, k, f"the source is not a multiple of {size} bytes", access)
        read = m.counters.bytes_read
        read["global"] = read.get("global", 0) + amount * len(address)
        if amount % 4 == 0:
            _check(m, ins, address, amount)
            for i in range(amount // 4):
                word = HOST.load(address + 4 * i, 4)
                if everyone:
                    words[i] = word
                else:
                    words[i][mask] = word
        else:
            for i in range(amount):
                m.memory.check(m, ins, address + i, 1, read=True, write=False)
                byte = HOST.load(address + i, 1).astype(np.uint32) << np.uint32(8 * (i % 4))
                words[i // 4][mask] |= byte
    m.select(lanes)
    return words


def _check(m: State, ins: Instruction, address: Array, amount: int) -> None:
    """Bounds of a multiple of four bytes, in the powers of two that alignment checks take."""
    at = 0
    for step in (16, 8, 4):
        while amount - at >= step:
            m.memory.check(m, ins, address + at, step, read=True, write=False)
            at += step


TABLE: dict[str, Callable[[Context], Op]] = {"cp": copy_async}
