"""barrier.cluster of clusters of one block: a barrier of the block whose two halves are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.sync import MISMATCH

if TYPE_CHECKING:
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction


class ClusterBarriers:
    """One barrier for each block of a batch; a thread arrives, then waits, in turns.

    What warps did before they arrived (`width` items of a clock row) gathers in `known`, and reaches from
    `released` those that wait.
    """

    def __init__(self, blocks: int, lanes: int, width: int) -> None:
        self.known = np.zeros((blocks, width), np.int32)
        self.released = np.zeros_like(self.known)
        self.arrived = np.zeros(lanes, bool)
        self.owes_wait = np.zeros(lanes, bool)
        self.phase = np.zeros(blocks, np.int32)
        self.awaited = np.zeros(lanes, np.int32)
        self.used = False

    def arrive(self, m: State, ins: Instruction) -> None:
        """The current lanes arrive."""
        self.used = True
        again = self.owes_wait[m.sel]
        if again.any():
            k = int(np.flatnonzero(again)[0])
            m.fault(MISMATCH, ins, k, "arrives twice at the cluster's barrier without barrier.cluster.wait")
        self.arrived[m.sel] = self.owes_wait[m.sel] = True
        self.awaited[m.sel] = self.phase[m.block_of[m.sel]]
        rows = np.unique(m.row_of[m.sel])
        np.maximum.at(self.known, rows // m.warps, m.shared.clock[rows])
        m.shared.advance(rows)
        self.check(m)

    def check(self, m: State) -> None:
        """Completes the barrier of blocks in which every thread that still runs has arrived."""
        if not self.used:
            return
        missing = np.bincount(m.block_of[m.live & ~self.arrived], minlength=m.blocks)
        present = np.bincount(m.block_of[m.live & self.arrived], minlength=m.blocks)
        done = np.flatnonzero((missing == 0) & (present > 0))
        if not len(done):
            return
        self.phase[done] += 1
        self.arrived[np.isin(m.block_of, done)] = False
        self.released[done] = self.known[done]
        m.progress()

    def passed(self, m: State, ins: Instruction) -> Array:
        """Which of the current lanes may go on from a wait, bool; those owe an arrival next."""
        strange = ~self.owes_wait[m.sel]
        if strange.any():
            k = int(np.flatnonzero(strange)[0])
            m.fault(MISMATCH, ins, k, "waits at the cluster's barrier without barrier.cluster.arrive")
        over = self.phase[m.block_of[m.sel]] > self.awaited[m.sel]
        self.owes_wait[m.lanes.ids[over]] = False
        rows = np.unique(m.row_of[m.lanes.ids[over]])
        m.shared.clock[rows] = np.maximum(m.shared.clock[rows], self.released[rows // m.warps])
        return np.asarray(over)
