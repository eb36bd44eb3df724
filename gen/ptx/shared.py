"""Shared memory of the blocks of a batch: bounds, initialization, pending copies and races.

Happens-before is tracked with one vector clock a warp. `clock[b · warps + u, w]` is the latest time of warp w
that warp u of block b is ordered after; barriers join the rows of their participants and advance their own
entries. Every *granule* (the smallest access of the entry) remembers the time and warp of its last write and,
for each warp, the time of its last read. An access races with an earlier one whose time exceeds the clock
(FastTrack, PLDI 2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.program import SHARED_BASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction

UNWRITTEN, PENDING = -1, -2
_STRONG = 32  # flag in a stamp: written by an atomic, volatile or synchronizing access
_TIME_SHIFT = 6


class SharedMemory:
    """`size` bytes for each of `blocks` blocks of `warps` warps, contiguous, block after block."""

    def __init__(self, blocks: int, warps: int, size: int, granule: int) -> None:
        self.blocks, self.warps, self.size = blocks, warps, size
        self.stride = -(-size // 128) * 128
        self.storage = np.zeros(blocks * self.stride + 1024, np.uint8)
        self.start = -(-self.storage.ctypes.data // 1024) * 1024
        self.end = self.start + blocks * self.stride
        self.shift = granule.bit_length() - 1
        granules = blocks * self.stride >> self.shift
        self.stamp = np.full(granules, UNWRITTEN, np.int32)
        self.reads = np.zeros(granules * warps, np.int32)
        self.owner = np.zeros(granules, np.int32)
        self.clock = np.zeros((blocks * warps, warps), np.int32)
        self.now = 1
        self.own = np.ones(blocks * warps, np.int32)
        self.clock[np.arange(blocks * warps), np.arange(blocks * warps) % warps] = 1
        self.settled = 0  # every warp is ordered after every access up to this time
        self.pending = 0

    # -- time --

    def join(self, participants: Array, known: Array | None = None) -> None:
        """Orders everything the warps `participants` (rows of `clock`, of one block) did before what follows.

        `known` (a clock row) adds what warps that arrived without waiting had done.
        """
        top = self.clock[participants].max(0)
        if known is not None:
            top = np.maximum(top, known)
        self.clock[participants] = top
        self.advance(participants)

    def advance(self, participants: Array) -> None:
        """Starts a new time for these warps, so that what they do next is not ordered by earlier barriers."""
        self.now += 1
        self.own[participants] = self.now
        self.clock[participants, participants % self.warps] = self.now

    def settle(self) -> None:
        """Recomputes `settled` after a round of joins; warps that never run again hold it back harmlessly."""
        others = self.clock.copy()
        rows = np.arange(len(others))
        others[rows, rows % self.warps] = np.iinfo(np.int32).max
        self.settled = int(others.min())

    # -- accesses; `offset` counts from the first block's first byte, `who` is the warp row of each access --

    def _granules(self, offset: Array, size: int) -> Array:
        first = offset >> self.shift
        per = size >> self.shift
        if per <= 1:
            return first[:, None]
        return np.asarray(first[:, None] + np.arange(per))

    def read(
        self, m: State, ins: Instruction, offset: Array, size: int, who: Array, strong: bool = False
    ) -> None:
        """Checks and records reads."""
        granules = self._granules(offset, size)
        stamps = self.stamp.take(granules, mode="wrap")
        if stamps.min() < 0:
            self._unreadable(m, ins, stamps, who)
        if self.warps == 1:
            return
        if stamps.max() >> _TIME_SHIFT > self.settled:
            times, writers = stamps >> _TIME_SHIFT, stamps & 31
            racy = times > self.clock[who[:, None], writers]
            if strong:
                flagged = racy & (stamps & _STRONG > 0)
                racy &= ~flagged
                for reader, writer in {(int(who[i]), int(writers[i, j])) for i, j in np.argwhere(flagged)}:
                    row = self.clock[reader - reader % self.warps + writer]
                    self.clock[reader] = np.maximum(self.clock[reader], row)
            if racy.any():
                i, j = np.argwhere(racy)[0]
                self._race(m, ins, "reads", "wrote", int(offset[i]), int(writers[i, j]), int(who[i]), i)
        if not strong:
            self.reads[granules * self.warps + (who % self.warps)[:, None]] = self.own[who][:, None]

    def write(
        self,
        m: State,
        ins: Instruction,
        offset: Array,
        size: int,
        who: Array,
        same: Callable[[], Array],
        store: Callable[[], None],
        strong: bool = False,
    ) -> None:
        """Checks, performs (`store`) and records writes; `same` tells which lanes' bytes equal memory's."""
        granules = self._granules(offset, size)
        stamps = self.stamp.take(granules, mode="wrap")
        if self.pending and (stamps == PENDING).any():
            self._unreadable(m, ins, np.where(stamps == PENDING, stamps, 0), who)
        if self.warps > 1:
            self._check_write(m, ins, offset, granules, stamps, who, same, strong)
        self.owner[granules[:, 0]] = np.arange(len(granules))
        shared_granule = self.owner[granules[:, 0]] != np.arange(len(granules))
        store()
        mine = (self.own[who] << _TIME_SHIFT) | (who % self.warps)
        if strong:
            mine |= _STRONG
        self.stamp[granules] = mine[:, None]
        if strong:
            self.advance(np.unique(who))
        elif shared_granule.any():
            self._check_collisions(m, ins, offset, granules, shared_granule, who, same)

    def _check_write(
        self,
        m: State,
        ins: Instruction,
        offset: Array,
        granules: Array,
        stamps: Array,
        who: Array,
        same: Callable[[], Array],
        strong: bool,
    ) -> None:
        if stamps.max() >> _TIME_SHIFT > self.settled:
            # A negative stamp, of a granule nothing wrote, names no warp.
            times, writers = stamps >> _TIME_SHIFT, np.where(stamps >= 0, stamps & 31, 0)
            racy = (stamps >= 0) & (times > self.clock[who[:, None], writers])
            if strong:
                racy &= stamps & _STRONG == 0
            if racy.any():
                differs = racy & ~same()[:, None]
                if differs.any():
                    i, j = np.argwhere(differs)[0]
                    self._race(m, ins, "writes", "wrote", int(offset[i]), int(writers[i, j]), int(who[i]), i)
                m.warn(
                    ins, "several warps write the same value to a shared location without a barrier between"
                )
        reads = self.reads.reshape(-1, self.warps)[granules]
        if reads.max() > self.settled:
            racy = reads > self.clock[who][:, None, :]
            if racy.any():
                i, _, warp = np.argwhere(racy)[0]
                self._race(m, ins, "writes", "read", int(offset[i]), int(warp), int(who[i]), i)

    def _check_collisions(
        self,
        m: State,
        ins: Instruction,
        offset: Array,
        granules: Array,
        shared_granule: Array,
        who: Array,
        same: Callable[[], Array],
    ) -> None:
        """Lanes that wrote one location in this very instruction."""
        lost = shared_granule & ~same()
        if lost.any():
            i = int(np.flatnonzero(lost)[0])
            j = int(self.owner[granules[i, 0]])
            m.fault(
                "data race",
                ins,
                i,
                f"writes shared address {self.address(int(offset[i])):#x} and so does {m.describe(j)} in the "
                "same instruction with another value; only one of them should store, or use an atomic",
            )
        if (self.stamp[granules[:, 0]] & 31 != who % self.warps).any():
            m.warn(ins, "several warps write the same value to a shared location without a barrier between")

    def _unreadable(self, m: State, ins: Instruction, stamps: Array, who: Array) -> None:
        i = int(np.argwhere(stamps < 0)[0][0])
        if (stamps[i] == PENDING).any():
            m.fault(
                "pending copy",
                ins,
                i,
                "touches shared memory that a cp.async is still filling; wait for its group "
                "(cp.async.wait_group), then pass a barrier before other threads use it",
            )
        m.fault(
            "uninitialized read",
            ins,
            i,
            "reads shared memory that nothing has written; check the loop that fills the tile and its bounds",
        )

    def _race(
        self, m: State, ins: Instruction, does: str, did: str, offset: int, other: int, who: int, k: int
    ) -> None:
        m.fault(
            "data race",
            ins,
            int(k),
            f"warp {who % self.warps} {does} shared address {self.address(offset):#x}, which warp {other} "
            f"{did} with no barrier between them; add one (all participants of both sides must arrive at it)",
        )

    def address(self, offset: int) -> int:
        """Shared-space address of an offset into the storage."""
        return offset % self.stride + SHARED_BASE

    # -- asynchronous copies --

    def begin_copy(self, m: State, ins: Instruction, offset: Array, size: int, who: Array) -> None:
        """Marks destinations as pending; conflicts like a write."""
        granules = self._granules(offset, size)
        stamps = self.stamp.take(granules, mode="wrap")
        if self.pending and (stamps == PENDING).any():
            self._unreadable(m, ins, np.where(stamps == PENDING, stamps, 0), who)
        if self.warps > 1:
            self._check_write(
                m, ins, offset, granules, stamps, who, lambda: np.zeros(len(offset), bool), False
            )
        self.stamp[granules] = PENDING
        self.pending += 1

    def land_copy(
        self, offset: Array, size: int, who: Array, words: list[Array], time: int | None = None
    ) -> None:
        """Writes the 32-bit words of finished copies, as of `time` (None: now)."""
        granules = self._granules(offset, size)
        for i, word in enumerate(words):
            HOST.store(self.start + offset + 4 * i, word, 4)
        times = self.own[who] if time is None else time
        self.stamp[granules] = ((times << _TIME_SHIFT) | (who % self.warps))[:, None]
