"""atom and red: applied thread by thread, in the order of block, then thread, so that results repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import DTYPES, HOST, VIEWS, Array
from gen.ptx.ops.access import GENERIC, GLOBAL, LOCAL, SHARED, classify, shared_offset, to_space
from gen.ptx.ops.memory import take_hints, take_space
from gen.ptx.ops.updates import OPERATIONS, Update, update_of
from gen.ptx.semantics import Semantics, take_semantics

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op, Slot

_MANY = 32


def atomic(c: Context) -> Op:
    """atom and red of every operation and type, scalar or vector."""
    modifiers = c.modifiers
    how = take_semantics(modifiers, atomic=True)
    modifiers.flag("noftz")
    take_hints(modifiers)
    space = take_space(modifiers)
    name = modifiers.pick(*OPERATIONS)
    count = int((modifiers.pick("v2", "v4", "v8") or "v1")[1:])
    kind = modifiers.type()
    modifiers.done()
    updates = {SHARED: update_of(name, kind), GLOBAL: update_of(name, kind, ftz=True)}
    view = VIEWS["u" + kind[1:] if kind[0] == "b" and kind[1:].isdigit() else kind]
    operands = list(c.operands)
    outs: list[Slot] = []
    if c.instruction.opcode == "atom":
        outs = [c.destination(o, kind) for o in c.vector(operands.pop(0))]
    address = c.address(operands.pop(0))
    wanted = 2 if name == "cas" else 1
    if len(operands) not in (wanted, wanted + 1):
        raise c.instruction.error(f"takes {wanted} values")
    values = [[c.source(o, kind) for o in c.vector(operand)] for operand in operands[:wanted]]
    if any(len(v) != count for v in values):
        raise c.instruction.error(f"vectors of {count} expected")
    width = np.dtype(DTYPES[view]).itemsize
    if space in (SHARED, GENERIC):
        c.translation.shared_widths.add(width)
    if space in (GLOBAL, GENERIC):
        c.translation.global_widths.add(width)
    c.translation.spinning.add(c.position)
    ins = c.instruction

    def run(m: State) -> None:
        where = address(m)
        given = [[m.v[view][slot.index][m.sel] for slot in vector] for vector in values]
        old = _apply(m, ins, space, where, view, updates, given, count, how)
        for slot, word in zip(outs, old, strict=False):
            m.v[view][slot.index][m.sel] = word

    return run


def _apply(
    m: State,
    ins: Instruction,
    space: str,
    address: Array,
    view: str,
    updates: dict[str, Update],
    given: list[list[Array]],
    count: int,
    how: Semantics,
) -> list[Array]:
    """Performs the operation for the current lanes and returns the old values of each vector element."""
    if space == GENERIC:
        kinds = classify(m, address)
        if not isinstance(kinds, str) or kinds == LOCAL:
            m.fault("unsupported address", ins, 0, "atomics on local memory, or on several spaces at once")
        return _apply(m, ins, kinds, to_space(m, kinds, address), view, updates, given, count, how)
    dtype = DTYPES[view]
    width = np.dtype(dtype).itemsize
    size = width * count
    if space == SHARED:
        offset = shared_offset(m, ins, address, size)
        address = m.shared.start + offset
        m.shared.read(m, ins, offset, size, m.row_of[m.sel], strong=True)
    else:
        m.memory.check(m, ins, address, size, read=True, write=True, how=how)
    results: list[Array] = []

    def perform() -> None:
        for i in range(count):
            results.append(
                _in_turn(m, address + i * width, np.dtype(dtype), updates[space], [g[i] for g in given])
            )

    if space == SHARED:
        never = np.zeros(m.n, bool)
        m.shared.write(m, ins, offset, size, m.row_of[m.sel], lambda: never, perform, strong=True)
    else:
        perform()
        returns = ins.opcode == "atom"
        for i in range(count):
            where = address + i * width
            m.order.synchronize(m, where, how, reads=True, writes=True, acquires=returns)
    for counter in (m.counters.bytes_read, m.counters.bytes_written):
        counter[space] = counter.get(space, 0) + size * m.n
    return results


def _in_turn(m: State, address: Array, dtype: np.dtype[Any], update: Update, given: list[Array]) -> Array:
    """Updates memory lane after lane; returns what each lane found."""
    width = dtype.itemsize
    lanes = m.lanes.ids
    order = np.lexsort((m.row_of[lanes] * 32 + (lanes & 31), address))
    sorted_address = address[order]
    starts = np.flatnonzero(np.r_[True, sorted_address[1:] != sorted_address[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    first_old = HOST.load(sorted_address[starts], width).view(dtype)
    old = np.empty(len(address), dtype)
    longest = int(lengths.max())
    if longest > _MANY and isinstance(update, np.ufunc) and len(starts) < longest:
        final = np.empty(len(starts), dtype)
        for k, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            members = order[start : start + length]
            chain = update.accumulate(np.r_[first_old[k : k + 1], given[0][members]], dtype=dtype)
            old[members] = chain[:-1]
            final[k] = chain[-1]
    else:
        current = first_old.copy()
        for turn in range(longest):
            active = lengths > turn
            members = order[starts[active] + turn]
            old[members] = current[active]
            current[active] = update(current[active], *(g[members] for g in given))
        final = current
    unsigned = DTYPES[f"u{8 * width}"]
    if (final.view(unsigned) != first_old.view(unsigned)).any():
        m.progress()
    HOST.store(sorted_address[starts], final.view(unsigned), width)
    return old


TABLE: dict[str, Callable[[Context], Op]] = {"atom": atomic, "red": atomic}
