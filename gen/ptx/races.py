"""Races in global memory, between warps of one block and between blocks.

Every granule of a region that the launch may write remembers, in a *stamp*, the warp and the time of its last
write and of its last two readers. An access conflicts with a remembered one of another warp unless it is
ordered after it: within a block by the vector clocks of `shared`, else by `ordering`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.ordering import STRONG_PLANE, WEAK_PLANE
from gen.ptx.semantics import Semantics

if TYPE_CHECKING:
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction

# A stamp, from the lowest bit: strong, device scope, time of the warp, number of the warp in the launch.
_STRONG, _DEVICE = 1, 2
_TIME_AT, _TIME_BITS = 2, 26
_WARP_AT = _TIME_AT + _TIME_BITS
_TIME_MASK = (1 << _TIME_BITS) - 1


class Region:
    """Contiguous global memory that the launch may write, in granules of 2**shift bytes."""

    def __init__(self, start: int, end: int, shift: int) -> None:
        self.start, self.end, self.shift = start, end, shift
        self.writer: Array | None = None
        self.readers: tuple[Array, Array] | None = None

    def _new(self) -> Array:
        return np.zeros(-(-(self.end - self.start) >> self.shift) + 1, np.int64)

    def _granules(self, address: Array, size: int) -> Array:
        """Granules of each access, [n, granules an access]."""
        first = (address - self.start) >> self.shift
        count = max(size >> self.shift, 1)
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)

    def read(self, m: State, ins: Instruction, address: Array, size: int, how: Semantics) -> None:
        """Checks reads of the running lanes, all inside; remembers weak ones."""
        at, mine = self._granules(address, size), _stamps(m, how)
        if self.writer is not None:
            racy = _unordered(m, self.writer[at], mine, how)
            if racy is not None:
                self._fault(m, ins, address, size, racy, self.writer[at], "reads", "wrote")
        if how.strong:
            return
        if self.readers is None:
            self.readers = self._new(), self._new()
        last, other = self.readers
        mine = np.broadcast_to(mine[:, None], at.shape)
        before = last[at]
        if (before == mine).all():
            return
        other[at] = np.where(before >> _WARP_AT != mine >> _WARP_AT, before, other[at])
        last[at] = mine
        lost = last[at] >> _WARP_AT != mine >> _WARP_AT  # another warp read it by this very instruction
        if lost.any():
            other[at[lost]] = mine[lost]

    def write(
        self,
        m: State,
        ins: Instruction,
        address: Array,
        size: int,
        how: Semantics,
        same: Callable[[], Array] | None,
    ) -> None:
        """Checks and remembers writes of the running lanes, all inside, before they are performed.

        same: tells which lanes' values equal memory's; such writes are no fault but a warning.
        """
        at, mine = self._granules(address, size), _stamps(m, how)
        if self.readers is not None:
            for readers in self.readers:
                racy = _unordered(m, readers[at], mine, how)
                if racy is not None:
                    self._fault(m, ins, address, size, racy, readers[at], "writes", "read")
        if self.writer is None:
            self.writer = self._new()
        else:
            before = self.writer[at]
            racy = _unordered(m, before, mine, how)
            if racy is not None:
                differs = racy if same is None else racy & ~same()[:, None]
                if differs.any():
                    self._fault(m, ins, address, size, differs, before, "writes", "wrote")
                _warn(m, ins)
        self.writer[at] = mine[:, None]
        if m.n == 1:
            return
        after = self.writer[at]
        racy = None if (after == mine[:, None]).all() else _unordered(m, after, mine, how)
        if racy is not None:
            if how.strong:
                self._fault(m, ins, address, size, racy, after, "writes", "wrote")
            _warn(m, ins)

    @staticmethod
    def _fault(
        m: State,
        ins: Instruction,
        address: Array,
        size: int,
        racy: Array,
        stamps: Array,
        does: str,
        did: str,
    ) -> None:
        k, j = (int(i) for i in np.argwhere(racy)[0])
        stamp = int(stamps[k, j])
        block, warp = divmod(stamp >> _WARP_AT, m.warps)
        lane = int(m.lanes.ids[k])
        mine, my_block = int(m.row_of[lane]) % m.warps, m.first_block + int(m.block_of[lane])
        if block == my_block:
            who = f"warp {mine} {does} global memory that warp {warp} of the same block {did}"
            cure = "with no barrier between them; add one (all participants of both sides must arrive at it)"
        else:
            who = (
                f"warp {mine} {does} global memory that warp {warp} of block {m.block_position(block)} {did}"
            )
            cure = (
                "with nothing that orders the blocks; release by __threadfence() and an atomic or volatile "
                "flag, or by .release at .gpu scope, and acquire by reading it likewise before this access"
            )
        if stamp & _STRONG:
            did_how = "an atomic, volatile or relaxed access" + ("" if stamp & _DEVICE else " of .cta scope")
            cure += f" (the earlier access was {did_how})"
        m.fault("data race", ins, k, f"{who} {cure}", m.memory.access(int(address[k]), size))


def _warn(m: State, ins: Instruction) -> None:
    m.warn(ins, "several warps write the same value to a global location with nothing that orders them")


def _stamps(m: State, how: Semantics) -> Array:
    """The stamp of an access by each running lane."""
    rows = m.row_of[m.sel]
    out = (m.first_block * m.warps + rows) << _WARP_AT
    out |= m.shared.own[rows].astype(np.int64) << _TIME_AT
    return np.asarray(out | (_STRONG * how.strong + _DEVICE * how.device))


def _unordered(m: State, stamps: Array, mine: Array, how: Semantics) -> Array | None:
    """Which remembered accesses ([n, granules]) those by `mine` conflict with; None: with none of them."""
    warp = stamps >> _WARP_AT
    racy = (warp != (mine >> _WARP_AT)[:, None]) & (stamps != 0)
    if not racy.any():
        return None
    k, _ = where = np.nonzero(racy)
    stamps, warp, rows = stamps[where], warp[where], m.row_of[m.lanes.ids[k]]
    block, warp = np.divmod(warp, m.warps)
    time = stamps >> _TIME_AT & _TIME_MASK
    inside = block == m.first_block + rows // m.warps
    late = ~inside | (time > m.shared.clock[rows, warp])
    strong = stamps & _STRONG > 0
    if how.strong:
        late &= ~(strong & (inside | ((stamps & _DEVICE > 0) & how.device)))
    if late.any() and m.order.acquired:
        for row in np.unique(rows[late]).tolist():
            known = m.order.times(row)
            if known is not None:
                mine_late = np.flatnonzero(late & (rows == row))
                plane = np.where(strong[mine_late], STRONG_PLANE, WEAK_PLANE)
                late[mine_late] = time[mine_late] > known[plane, block[mine_late], warp[mine_late]]
    racy[where] = late
    return np.asarray(racy) if late.any() else None
