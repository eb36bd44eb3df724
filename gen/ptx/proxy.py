"""The async proxy: how bulk copies see shared memory, and when threads may use what they use.

Threads write through the generic proxy, bulk copies read and write through the async proxy. What a thread
wrote is visible to a bulk copy only if a proxy fence follows the write and comes before the copy, by whatever
chain of barriers. The other way round needs no fence: a copy's completion, once observed, implies one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.shared import ASYNC, PROXY_FENCED, TIME_SHIFT, SharedMemory, take

if TYPE_CHECKING:
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction


class AsyncProxy:
    """Bulk copies' view of the shared memory of a batch; `reading` counts sources still being read."""

    def __init__(self, shared: SharedMemory) -> None:
        self.shared = shared
        self.reading = 0
        self._readers: Array | None = None

    def fence(self, rows: Array) -> None:
        """fence.proxy.async by warps (rows of `clock`): all they know of is visible to the async proxy."""
        shared = self.shared
        section = slice(PROXY_FENCED * shared.warps, (PROXY_FENCED + 1) * shared.warps)
        fenced = shared.clock[rows, section]
        shared.clock[rows, section] = np.maximum(fenced, shared.clock[rows, : shared.warps])
        shared.advance(rows)

    def require_fence(self, m: State, ins: Instruction, offset: Array, size: int, row: int) -> None:
        """Reports generic writes to `offset` that no proxy fence separates from a copy by warp `row`."""
        rows, per = self.shared.rows(offset, size)
        stamps = take(self.shared.stamp, rows, per)
        writers = np.where(stamps >= 0, stamps & 31, 0)
        unseen = (stamps >= 0) & (stamps & ASYNC == 0)
        unseen &= stamps >> TIME_SHIFT > self.shared.clock[row, PROXY_FENCED * self.shared.warps + writers]
        if unseen.any():
            i, j = np.argwhere(unseen)[0]
            m.fault(
                "missing proxy fence",
                ins,
                int(i),
                f"copies from or over shared memory which warp {int(writers[i, j])} wrote with an ordinary "
                "store; let the writers execute fence.proxy.async.shared::cta after their stores, before the "
                "barrier ahead of the copy",
                m.shared_access(self.shared.address(int(offset[i])), size),
            )

    def begin_read(self, m: State, ins: Instruction, offset: Array, size: int, row: int) -> None:
        """A copy by a warp starts to read its source, which nobody may overwrite until it has."""
        shared = self.shared
        shared.read(m, ins, offset, size, np.full(len(offset), row))
        self.require_fence(m, ins, offset, size, row)
        if self._readers is None:
            self._readers = np.zeros(len(shared.stamp), np.int16)
        rows, per = shared.rows(offset, size)
        np.add.at(self._readers.reshape(-1, per), rows, 1)
        self.reading += 1

    def end_read(self, m: State, ins: Instruction, offset: Array, size: int, row: int) -> None:
        """The warp knows that its copy has read the source: to others this is a read by it, now."""
        assert self._readers is not None
        shared = self.shared
        rows, per = shared.rows(offset, size)
        np.subtract.at(self._readers.reshape(-1, per), rows, 1)
        self.reading -= 1
        shared.read(m, ins, offset, size, np.full(len(offset), row))

    def check_sources(self, m: State, ins: Instruction, rows: Array, per: int) -> None:
        """Reports writes to what a copy may still be reading."""
        assert self._readers is not None
        busy = take(self._readers, rows, per).any(1)
        if busy.any():
            k = int(np.flatnonzero(busy)[0])
            where = self.shared.address(int(rows[k]) * per << self.shared.shift)
            m.fault(
                "pending copy",
                ins,
                k,
                "overwrites shared memory which a bulk store may still be reading; the thread that issued it "
                "must commit its group and execute cp.async.bulk.wait_group.read, then a barrier must follow",
                m.shared_access(where, per << self.shared.shift),
            )

    def begin_write(self, m: State, ins: Instruction, offset: Array, size: int, row: int) -> None:
        """A copy by a warp starts to fill shared memory."""
        self.require_fence(m, ins, offset, size, row)
        self.shared.begin_copy(m, ins, offset, size, np.full(len(offset), row))
