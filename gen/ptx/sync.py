"""Block barriers: who waits where, and when they go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction

BARRIERS_PER_BLOCK = 16
MISMATCH, DIVERGENCE = "barrier mismatch", "barrier divergence"
_NOBODY = -1
ALL = 0


@dataclass(slots=True)
class Resumption:
    """Where the threads of one barrier instruction go on, and what they do when it completes.

    All threads of a warp must execute an `aligned` one together.
    """

    position: int
    instruction: Instruction
    aligned: bool
    action: Callable[[State, Lanes, Array], None] | None


class BlockBarriers:
    """All barriers of the blocks of a batch. A warp arrives when all of its threads that still run have."""

    def __init__(self, blocks: int, warps: int) -> None:
        self.blocks, self.warps = blocks, warps
        lanes = blocks * warps * 32
        self.waiting = np.full(lanes, _NOBODY, np.int8)
        self.where = np.zeros(lanes, np.int32)
        self.flags = np.zeros(lanes, bool)
        self.expected = np.full((BARRIERS_PER_BLOCK, blocks), -1, np.int32)
        self.passed_by = np.zeros((BARRIERS_PER_BLOCK, blocks), np.int32)
        self.known: dict[tuple[int, int], Array] = {}
        self.resumptions: dict[int, Resumption] = {}

    def _by_warp(self, mask: Array) -> Array:
        """Counts of lanes, [warps, blocks]."""
        return np.asarray(mask.reshape(self.warps, self.blocks, 32).sum(-1))

    def arrive(self, m: State, ins: Instruction, ids: Array, counts: Array, wait: Resumption | None) -> None:
        """The current lanes arrive at barriers `ids` (one a lane), for `counts` threads (0: all)."""
        if ids.min() < 0 or ids.max() >= BARRIERS_PER_BLOCK:
            m.fault(
                MISMATCH,
                ins,
                int(np.argmax(ids)),
                f"barrier {int(ids.max())} does not exist; ids are 0..15",
            )
        if (counts % 32).any():
            k = int(np.flatnonzero(counts % 32)[0])
            m.fault(MISMATCH, ins, k, f"thread count {int(counts[k])} is not a multiple of the warp size 32")
        block = m.block_of[m.sel]
        mixed = self.expected[ids, block]
        wrong = (mixed >= 0) & (mixed != counts)
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            m.fault(
                MISMATCH,
                ins,
                k,
                f"arrives at barrier {int(ids[k])} for {int(counts[k]) or 'all'} threads, others for "
                f"{int(mixed[k]) or 'all'}; every participant must name the same count",
            )
        self.expected[ids, block] = counts
        if wait is None:
            self._pass_by(m, ids, block)
        else:
            self.waiting[m.sel] = ids
            self.where[m.sel] = wait.position
            self.resumptions[wait.position] = wait
        for barrier in np.unique(ids) if ids.min() != ids.max() else ids[:1]:
            self.check(m, int(barrier))

    def _pass_by(self, m: State, ids: Array, block: Array) -> None:
        """`bar.arrive`: counts warps, and remembers what they had done."""
        rows = m.row_of[m.sel]
        for row, barrier in sorted({(int(r), int(i)) for r, i in zip(rows, ids, strict=True)}):
            home = row // self.warps
            self.passed_by[barrier, home] += 32
            known = m.shared.clock[row].copy()
            old = self.known.get((barrier, home))
            self.known[barrier, home] = known if old is None else np.maximum(known, old)
            m.shared.advance(np.array([row]))

    def check(self, m: State, barrier: int) -> None:
        """Releases the blocks in which a barrier is complete."""
        at = self.waiting == barrier
        arrived = self._by_warp(at)
        live = self._by_warp(m.live)
        full = (arrived > 0) & (arrived == live)
        partial = (arrived > 0) & ~full
        expected = self.expected[barrier]
        threads = full.sum(0) * 32 + self.passed_by[barrier]
        everyone = (full | (live == 0)).all(0) & full.any(0)
        done = np.where(expected == ALL, everyone, (threads >= expected) & ~partial.any(0) & (expected > 0))
        if not done.any():
            return
        over = done & (expected > 0) & (threads > expected)
        if over.any():
            block = int(np.flatnonzero(over)[0])
            lane = int(np.flatnonzero(at & (m.block_of == block))[0])
            resume = self.resumptions[int(self.where[lane])]
            m.fault_at(
                MISMATCH,
                resume.instruction,
                lane,
                f"{int(threads[block])} threads arrive at barrier {barrier}, made for {int(expected[block])}",
            )
        self._check_converged(m, at & done[m.block_of])
        self._release(m, barrier, done, full, at)

    def _check_converged(self, m: State, released: Array) -> None:
        """Reports warps whose threads arrived by different instructions, of which one is aligned."""
        lanes = np.flatnonzero(released)
        where = self.where[lanes]
        if where.min() == where.max():
            return
        parted = (lanes[1:] >> 5 == lanes[:-1] >> 5) & (where[1:] != where[:-1])
        for k in np.flatnonzero(parted).tolist():
            one, other = (self.resumptions[int(where[i])] for i in (k, k + 1))
            if one.aligned or other.aligned:
                m.fault_at(
                    DIVERGENCE,
                    one.instruction,
                    int(lanes[k]),
                    f"other threads of this warp are at the barrier of PTX line {other.instruction.line}; "
                    "all threads of a warp must execute the same bar.sync (__syncthreads): move it out of "
                    "the branch that parts them",
                )

    def parted(self, m: State) -> int | None:
        """A waiting thread whose warp is spread over several barriers, or None."""
        lanes = np.flatnonzero(m.live)
        state = np.stack([self.waiting[lanes], self.where[lanes]])
        apart = (lanes[1:] >> 5 == lanes[:-1] >> 5) & (state[:, 1:] != state[:, :-1]).any(0)
        return int(lanes[int(np.argmax(apart))]) if apart.any() else None

    def _release(self, m: State, barrier: int, done: Array, full: Array, at: Array) -> None:
        shared = m.shared
        if self.warps > 1:
            blocks = np.flatnonzero(done)
            if full[:, blocks].all() and not self.known:
                shared.join_blocks(blocks)
            else:
                for block in blocks:
                    rows = block * self.warps + np.flatnonzero(full[:, block])
                    shared.join(rows, self.known.pop((barrier, int(block)), None))
            running = m.live.reshape(self.warps, self.blocks, 32).any(-1)
            shared.settle(running.T.reshape(-1))
        self.expected[barrier][done] = -1
        self.passed_by[barrier][done] = 0
        released = np.flatnonzero(at & done[m.block_of])
        self.waiting[released] = _NOBODY
        where = self.where[released]
        m.progress()
        for position in np.unique(where) if where.min() != where.max() else where[:1]:
            lanes = Lanes(released[where == position]) if where.min() != where.max() else Lanes(released)
            action = self.resumptions[int(position)].action
            if action:
                action(m, lanes, released)
            m.ready(int(position), lanes)

    def on_exit(self, m: State) -> None:
        """Threads ended: barriers that wait for all threads may now be complete."""
        for barrier in np.unique(self.waiting):
            if barrier != _NOBODY:
                self.check(m, int(barrier))
