"""Sets of threads of a batch.

The threads of a batch are numbered *warp-major*: lane = (warp × blocks + block) × 32 + thread-in-warp. So
"all warps below 7 of every block" is one contiguous range, and the registers of such a set are NumPy views.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from gen.ptx.arrays import Array


class Lanes:
    """An ordered set of lanes; `index` (a slice if contiguous) selects them from a register array."""

    def __init__(self, ids: Array | range) -> None:
        self.count = len(ids)
        self.first = int(ids[0])
        self.last = int(ids[-1])
        self.dense = self.last - self.first + 1 == self.count
        self.index: slice | Array
        if self.dense:
            self.index = slice(self.first, self.last + 1)
        else:
            self.index = self.ids = np.asarray(ids)

    @cached_property
    def ids(self) -> Array:
        """Lane numbers, ascending, int64."""
        return np.arange(self.first, self.last + 1)

    @cached_property
    def whole_warps(self) -> bool:
        """Whether every warp in the set is in it with all 32 lanes."""
        if self.first % 32 or self.count % 32:
            return False
        if self.dense:
            return True
        rows = self.ids.reshape(-1, 32)
        return bool((rows[:, 31] - rows[:, 0] == 31).all() and not (rows[:, 0] % 32).any())

    @cached_property
    def warps(self) -> int:
        """Number of warps with a lane in the set."""
        if self.dense:
            return self.last // 32 - self.first // 32 + 1
        rows = self.ids >> 5
        return int(np.count_nonzero(rows[1:] != rows[:-1])) + 1

    def where(self, mask: Array) -> Lanes:
        """The lanes for which `mask` (bool, one a lane of this set, not all False) holds."""
        return Lanes(self.ids[mask])


class RepeatedLane(Lanes):
    """One lane, several times over."""

    def __init__(self, lane: int, times: int) -> None:
        super().__init__(range(lane, lane + 1))
        self.count, self.dense = times, False
        self.index = self.ids = np.full(times, lane)


def merge(groups: list[Lanes], total: int) -> Lanes:
    """The union of disjoint sets of lanes below `total`."""
    if len(groups) == 1:
        return groups[0]
    groups.sort(key=lambda group: group.first)
    if all(g.dense for g in groups) and all(a.last + 1 == b.first for a, b in pairwise(groups)):
        return Lanes(range(groups[0].first, groups[-1].last + 1))
    member = np.zeros(total, bool)
    for group in groups:
        member[group.index] = True
    return Lanes(np.flatnonzero(member))
