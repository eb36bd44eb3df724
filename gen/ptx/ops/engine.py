"""What bulk and tensor copies have in common: one thread's order, carried out by a copy engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import DTYPES, HOST, VIEWS, Array
from gen.ptx.copies import Copy
from gen.ptx.lanes import Lanes
from gen.ptx.ops.access import SHARED, shared_offset
from gen.ptx.ops.updates import update_of
from gen.ptx.pending import PendingWrite

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.mbarrier import MBarrier
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction, Operand

UNIT = 16  # bytes
REDUCTIONS = {
    "add": ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64", "u32", "s32", "u64", "s64")),
}
"""Operations of cp.reduce.async.bulk and the types they take (PTX ISA; tensor maps name no .b types)."""


def one_by_one(m: State) -> Iterator[tuple[int, int]]:
    """Makes each current lane in turn the only one; yields (its number among them, its warp's row)."""
    lanes = m.lanes
    for k, lane in enumerate(lanes.ids.tolist()):
        m.select(Lanes(range(lane, lane + 1)))
        yield k, int(m.row_of[lane])
    m.select(lanes)


def distinct(
    m: State, ins: Instruction, orders: Iterable[tuple[Hashable, ...]], *, adds: bool
) -> Iterator[int]:
    """`one_by_one` without the lanes that store what a lane of their warp stores; yields the lanes' numbers.

    orders: what each current lane stores where. adds: every one counts, as reductions do; of plain stores
    those after the first change nothing.
    """
    keys = list(orders)
    seen: set[tuple[Hashable, ...]] = set()
    for k, row in one_by_one(m):
        key = (row, *keys[k], k if adds else None)
        if key not in seen:
            seen.add(key)
            yield k
    if len(seen) < len(keys):
        m.warn(ins, "several threads of a warp start the same bulk store; one is enough: elect.sync")


def hints(c: Context, operands: tuple[Operand, ...]) -> Callable[[State], None]:
    """Takes the hints of a bulk copy and their operands; gives a check of the multicast mask.

    Masks select blocks of the cluster, whose only block is this one.
    """
    modifiers = c.modifiers
    many = modifiers.flag("multicast::cluster")
    policy = modifiers.flag("L2::cache_hint")
    modifiers.flag("cta_group::1")
    if len(operands) != many + policy:
        raise c.instruction.error(f"{many + policy} operands expected after the barrier, for its hints")
    if policy:
        c.source(operands[-1], "b64")
    if not many:
        return lambda m: None
    mask, ins = c.source(operands[0], "b16"), c.instruction

    def check(m: State) -> None:
        values = m.v["u16"][mask.index][m.sel]
        if (values != 1).any():
            k = int(np.flatnonzero(values != 1)[0])
            m.fault(
                "out of bounds",
                ins,
                k,
                f"multicast mask {int(values[k]):#x} names other blocks than the only one of a 1×1×1 cluster",
            )

    return check


def fill_shared(
    m: State, ins: Instruction, places: Array, words: list[Array], barrier: MBarrier, row: int, size: int
) -> None:
    """The current lane's copy engine starts to put 16-byte units at shared-space addresses `places`.

    size: bytes that complete on the barrier.
    """
    one = m.lanes
    m.repeat(one, len(places))
    offset = shared_offset(m, ins, places, UNIT, by_threads=False)
    m.proxy.begin_write(m, ins, offset, UNIT, row)
    lanes = np.full(len(places), one.first)
    copy = Copy(lanes, np.full(len(places), row), offset, UNIT, words, bulk=True)
    m.mbarriers.transfer(m, barrier, row, copy, size)
    _count(m.counters.bytes_written, SHARED, UNIT * len(places))


def drain_shared(
    m: State,
    ins: Instruction,
    places: Array,
    addresses: Array,
    width: int,
    arrange: Callable[[Array], Array],
    reduction: tuple[str, str] | None,
) -> None:
    """The current lane's copy engine starts to read 16-byte units at `places` and to write global memory.

    addresses: of the words of `width` bytes that change. arrange: from the units' bytes, uint8 [units, 16],
    to those words, unsigned. reduction: (operation, PTX type of that width) instead of plain stores.
    """
    one = m.lanes
    m.repeat(one, len(places))
    offset = shared_offset(m, ins, places, UNIT, by_threads=False)
    words = [HOST.load(m.shared.start + offset + 8 * i, 8) for i in range(2)]
    values = arrange(np.stack(words, axis=1).view(np.uint8))
    _count(m.counters.bytes_read, SHARED, UNIT * len(places))
    if len(addresses):
        m.repeat(one, len(addresses))
        m.memory.check(m, ins, addresses, width, read=reduction is not None, write=True, in_order=False)
        _count(m.counters.bytes_written, "global", width * len(addresses))
    m.repeat(one, len(places))
    target = PendingWrite(addresses, width, reduces=reduction is not None)
    m.bulk_groups.issue(m, ins, offset, target, lambda: _write(addresses, values, width, reduction))


def _write(addresses: Array, values: Array, width: int, reduction: tuple[str, str] | None) -> None:
    if reduction is not None:
        name, kind = reduction
        view = DTYPES[VIEWS["u" + kind[1:] if kind[0] == "b" and kind[1:].isdigit() else kind]]
        old = HOST.load(addresses, width).view(view)
        values = update_of(name, kind)(old, values.view(view)).view(f"u{width}")
    HOST.store(addresses, values, width)


def load_global(m: State, ins: Instruction, addresses: Array, width: int) -> Array:
    """Words of `width` bytes that the current lane's copy engine reads."""
    one = m.lanes
    if len(addresses):
        m.repeat(one, len(addresses))
        m.memory.check(m, ins, addresses, width, read=True, write=False)
        m.select(one)
    _count(m.counters.bytes_read, "global", width * len(addresses))
    return HOST.load(addresses, width)


def _count(counter: dict[str, int], space: str, size: int) -> None:
    counter[space] = counter.get(space, 0) + size
