"""Shared memory of the blocks of a batch: bounds, initialization, pending copies and races.

Happens-before is tracked with one vector clock a warp. `clock[b · warps + u, w]` is the latest time of warp w
that warp u of block b is ordered after; barriers join the rows of their participants and advance their own
entries. Every *granule* (the smallest access of the entry) remembers the time and warp of its last write and,
for each warp, the time of its last read. An access races with an earlier one whose time exceeds the clock
(FastTrack, PLDI 2009). Further sections of each row, `clock[r, section · warps + w]`, are the latest time of
warp w that a fence of one kind covers: `PROXY_FENCED`, made visible to the async proxy; `DEVICE_FENCED` and
`BLOCK_FENCED`, released by the next strong write. They travel along with the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.errors import PtxError
from gen.ptx.program import SHARED_BASE
from gen.ptx.shared_faults import collision, race, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gen.ptx.errors import Access
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction

UNWRITTEN, PENDING = -1, -2
_STRONG = 32  # flag in a stamp: written by an atomic, volatile or synchronizing access
PROXY_FENCED, DEVICE_FENCED, BLOCK_FENCED, SECTIONS = 1, 2, 3, 4
ASYNC = 64  # flag in a stamp: written by the async proxy
TIME_SHIFT = 7
_TIME_LIMIT = 1 << (31 - TIME_SHIFT)


_WIDE = {1: np.int32, 2: np.int64, 4: np.complex128}


def take(granules: Array, rows: Array, per: int) -> Array:
    """Rows of `per` consecutive int32, [n, per]."""
    return granules.reshape(-1, per).take(rows, axis=0, mode="wrap")


def _put(granules: Array, rows: Array, per: int, values: Array) -> None:
    """Fills rows of `per` consecutive int32 with one value each, as wide items where NumPy has them."""
    wide = _WIDE.get(per)
    if wide is None:
        granules.reshape(-1, per)[rows] = values[:, None]
    else:
        granules.view(wide)[rows] = np.repeat(values, per).view(wide)


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
        self.reads = np.zeros((warps, granules), np.int32)
        self.owner = np.zeros(granules, np.int32)
        self.clock = np.zeros((blocks * warps, SECTIONS * warps), np.int32)
        self.now = 1
        self.own = np.ones(blocks * warps, np.int32)
        self.clock[np.arange(blocks * warps), np.arange(blocks * warps) % warps] = 1
        self.settled = 0  # every warp is ordered after every access up to this time

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

    def join_blocks(self, blocks: Array) -> None:
        """`join` of all warps of each of several blocks, at once."""
        warp = np.arange(self.warps)
        clock = self.clock.reshape(-1, self.warps, SECTIONS * self.warps)
        clock[blocks] = clock[blocks].max(1, keepdims=True)
        self._tick()
        self.own.reshape(-1, self.warps)[blocks] = self.now
        clock[blocks[:, None], warp, warp] = self.now

    def advance(self, participants: Array) -> None:
        """Starts a new time for these warps, so that what they do next is not ordered by earlier barriers."""
        self._tick()
        self.own[participants] = self.now
        self.clock[participants, participants % self.warps] = self.now

    def _tick(self) -> None:
        self.now += 1
        if self.now >= _TIME_LIMIT:
            raise PtxError(f"more than {_TIME_LIMIT} synchronizations in one batch; launch fewer blocks")

    def settle(self, running: Array) -> None:
        """Recomputes `settled` after a round of joins, from the warps that still run (bool, a row each)."""
        others = self.clock[:, : self.warps].copy()
        rows = np.arange(len(others))
        others[rows, rows % self.warps] = np.iinfo(np.int32).max
        self.settled = int(others[running].min(initial=self.now))

    # -- accesses; `offset` counts from the first block's first byte, `who` is the warp row of each access --

    def rows(self, offset: Array, size: int) -> tuple[Array, int]:
        """(row, granules a row) of aligned accesses of a power of two bytes."""
        per = max(size >> self.shift, 1)
        return offset >> (self.shift + per.bit_length() - 1), per

    def read(
        self, m: State, ins: Instruction, offset: Array, size: int, who: Array, strong: bool = False
    ) -> None:
        """Checks and records reads."""
        rows, per = self.rows(offset, size)
        stamps = take(self.stamp, rows, per)
        if stamps.min() < 0:
            self._unreadable(m, ins, stamps, offset, size)
        if self.warps == 1:
            return
        if stamps.max() >> TIME_SHIFT > self.settled:
            times, writers = stamps >> TIME_SHIFT, stamps & 31
            racy = times > self.clock[who[:, None], writers]
            if strong:
                flagged = racy & (stamps & _STRONG > 0)
                racy &= ~flagged
                for reader, writer, time in {
                    (int(who[i]), int(writers[i, j]), int(times[i, j])) for i, j in np.argwhere(flagged)
                }:
                    self._observe(reader, writer, time)
            if racy.any():
                i, j = np.argwhere(racy)[0]
                access = self._access(m, int(offset[i]), size)
                race(m, ins, int(i), "reads", "wrote", access, int(writers[i, j]))
        if not strong:
            of_warp = self.reads.shape[1] // per
            _put(self.reads.reshape(-1), rows + who % self.warps * of_warp, per, self.own[who])

    def _observe(self, reader: int, writer: int, time: int) -> None:
        """A warp read what warp `writer` of its block strongly wrote at a time: ordered after that."""
        known = self.clock[reader - reader % self.warps + writer].reshape(-1, self.warps).copy()
        known[:, writer] = np.minimum(known[:, writer], time)  # not what it did since
        self.clock[reader] = np.maximum(self.clock[reader], known.reshape(-1))

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
        rows, per = self.rows(offset, size)
        self._check_write(m, ins, offset, size, rows, per, who, same, strong)
        order = np.arange(len(rows))
        self.owner[rows] = order
        overwritten = self.owner[rows] != order
        store()
        mine = (self.own[who] << TIME_SHIFT) | (who % self.warps)
        if strong:
            mine |= _STRONG
        _put(self.stamp, rows, per, mine.astype(np.int32))
        if strong:
            self.advance(np.unique(who))
        elif overwritten.any():
            self._check_collisions(m, ins, offset, size, rows, overwritten, who, same)

    def _check_write(
        self,
        m: State,
        ins: Instruction,
        offset: Array,
        size: int,
        rows: Array,
        per: int,
        who: Array,
        same: Callable[[], Array],
        strong: bool,
    ) -> None:
        """Conflicts of writes with what came before."""
        if m.proxy.reading:
            m.proxy.check_sources(m, ins, rows, per)
        stamps = take(self.stamp, rows, per)
        if stamps.min() == PENDING:
            self._unreadable(m, ins, np.where(stamps == PENDING, stamps, 0), offset, size)
        if self.warps == 1:
            return
        if stamps.max() >> TIME_SHIFT > self.settled:
            # A negative stamp, of a granule nothing wrote, names no warp.
            times, writers = stamps >> TIME_SHIFT, np.where(stamps >= 0, stamps & 31, 0)
            racy = (stamps >= 0) & (times > self.clock[who[:, None], writers])
            if strong:
                racy &= stamps & _STRONG == 0
            if racy.any():
                differs = racy & ~same()[:, None]
                if differs.any():
                    i, j = np.argwhere(differs)[0]
                    access = self._access(m, int(offset[i]), size)
                    race(m, ins, int(i), "writes", "wrote", access, int(writers[i, j]))
                m.warn(
                    ins, "several warps write the same value to a shared location without a barrier between"
                )
        for warp in range(self.warps):
            reads = take(self.reads[warp], rows, per)
            if reads.max() <= self.settled:
                continue
            racy = reads > self.clock[who, warp][:, None]
            if racy.any():
                i, _ = np.argwhere(racy)[0]
                race(m, ins, int(i), "writes", "read", self._access(m, int(offset[i]), size), warp)

    def _check_collisions(
        self,
        m: State,
        ins: Instruction,
        offset: Array,
        size: int,
        rows: Array,
        overwritten: Array,
        who: Array,
        same: Callable[[], Array],
    ) -> None:
        """Lanes that wrote one location in this very instruction."""
        lost = overwritten & ~same()
        if lost.any():
            i = int(np.flatnonzero(lost)[0])
            collision(m, ins, i, int(self.owner[rows[i]]), self._access(m, int(offset[i]), size))
        if (who[self.owner[rows]] != who).any():
            m.warn(ins, "several warps write the same value to a shared location without a barrier between")

    def _unreadable(self, m: State, ins: Instruction, stamps: Array, offset: Array, size: int) -> None:
        i = int(np.argwhere(stamps < 0)[0][0])
        access = self._access(m, int(offset[i]), size)
        unreadable(m, ins, i, access, pending=bool((stamps[i] == PENDING).any()))

    def _access(self, m: State, offset: int, size: int) -> Access:
        return m.shared_access(self.address(offset), size)

    def address(self, offset: int) -> int:
        """Shared-space address of an offset into the storage."""
        return offset % self.stride + SHARED_BASE

    # -- asynchronous copies --

    def begin_copy(self, m: State, ins: Instruction, offset: Array, size: int, who: Array) -> None:
        """Marks destinations as pending; conflicts like a write."""
        rows, per = self.rows(offset, size)
        never = np.zeros(len(rows), bool)
        self._check_write(m, ins, offset, size, rows, per, who, lambda: never, False)
        _put(self.stamp, rows, per, np.full(len(rows), PENDING, np.int32))

    def land_copy(
        self, offset: Array, size: int, who: Array, words: list[Array], time: int | None, *, bulk: bool
    ) -> None:
        """Writes the 32-bit words of finished copies, as of `time` (None: now); `bulk`: by async proxy."""
        rows, per = self.rows(offset, size)
        for i, word in enumerate(words):
            HOST.store(self.start + offset + 4 * i, word, 4)
        times = self.own[who] if time is None else time
        stamps = (times << TIME_SHIFT) | (who % self.warps) | (ASYNC if bulk else 0)
        _put(self.stamp, rows, per, stamps.astype(np.int32))
