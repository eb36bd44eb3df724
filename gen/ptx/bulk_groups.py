"""Bulk stores in flight, in groups by thread: their sources stay untouchable and their targets unreadable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.lanes import Lanes
from gen.ptx.semantics import ATOMIC, WEAK

if TYPE_CHECKING:
    from gen.ptx.pending import PendingWrite
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction


@dataclass(slots=True)
class BulkStore:
    """A copy of one lane out of `source` (offsets of 16-byte units of shared storage)."""

    instruction: Instruction
    lane: int
    group: int
    source: Array
    target: PendingWrite
    write: Callable[[], None]
    reading: bool = True


class BulkGroups:
    """The bulk stores of a batch that nobody has waited for."""

    def __init__(self, lanes: int) -> None:
        self.committed = np.zeros(lanes, np.int32)
        self.flying: list[BulkStore] = []

    def issue(
        self, m: State, ins: Instruction, source: Array, target: PendingWrite, write: Callable[[], None]
    ) -> None:
        """The current lane (one, repeated for every unit) starts a store into its uncommitted group."""
        lane = int(m.lanes.ids[0])
        m.proxy.begin_read(m, ins, source, 16, int(m.row_of[lane]))
        m.memory.pending.append(target)
        self.flying.append(BulkStore(ins, lane, int(self.committed[lane]), source, target, write))

    def commit(self, m: State) -> None:
        """Closes the current lanes' groups."""
        self.committed[m.sel] += 1

    def wait(self, m: State, pending: int, *, read: bool) -> None:
        """The current lanes wait for all but `pending` groups of theirs; `read`: for the sources only."""
        if not self.flying:
            return
        waiting = np.zeros(m.total, bool)
        waiting[m.sel] = True
        lanes = m.lanes
        kept = []
        for store in self.flying:
            if not waiting[store.lane] or store.group >= self.committed[store.lane] - pending:
                kept.append(store)
                continue
            if store.reading:
                m.repeat(Lanes(range(store.lane, store.lane + 1)), len(store.source))
                m.proxy.end_read(m, store.instruction, store.source, 16, int(m.row_of[store.lane]))
                store.reading = False
            if read:
                kept.append(store)
            else:
                self._land(m, store)
        self.flying = kept
        m.select(lanes)

    def on_exit(self, m: State, lanes: Lanes) -> None:
        """Threads end: their stores land, if they made sure that shared memory outlives the copying."""
        if not self.flying:
            return
        running = m.lanes
        leaving = np.zeros(m.total, bool)
        leaving[lanes.index] = True
        kept = []
        for store in self.flying:
            if not leaving[store.lane]:
                kept.append(store)
                continue
            if store.reading:
                m.fault_at(
                    "pending copy",
                    store.instruction,
                    store.lane,
                    "the thread ends while this copy may still read shared memory; commit its group and "
                    "execute cp.async.bulk.wait_group.read 0 before the end of the kernel",
                )
            self._land(m, store)
        self.flying = kept
        m.select(running)

    @staticmethod
    def _land(m: State, store: BulkStore) -> None:
        target = store.target
        m.memory.pending.remove(target)
        if len(target.starts):
            m.repeat(Lanes(range(store.lane, store.lane + 1)), len(target.starts))
            how = ATOMIC if target.reduces else WEAK
            m.memory.order(m, store.instruction, target.starts, target.size, True, how)
        store.write()
        m.progress()
