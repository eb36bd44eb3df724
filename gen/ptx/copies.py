"""cp.async: copies in flight, in groups by thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array

if TYPE_CHECKING:
    from gen.ptx.state import State


@dataclass(slots=True)
class Copy:
    """A copy of many lanes: where it lands and the words it brings; written at `time`, or at its wait."""

    lanes: Array
    group: Array
    offset: Array
    size: int
    words: list[Array]
    time: int | None = None
    bulk: bool = False


class AsyncCopies:
    """Copies that were issued and not yet waited for."""

    def __init__(self, lanes: int) -> None:
        self.committed = np.zeros(lanes, np.int32)
        self.flying: list[Copy] = []

    def issue(self, m: State, offset: Array, size: int, words: list[Array]) -> None:
        """The current lanes start copies into the group they have not committed yet."""
        lanes = m.lanes.ids
        self.flying.append(Copy(lanes, self.committed[lanes], offset, size, words))

    def commit(self, m: State) -> None:
        """Closes the current lanes' groups."""
        self.committed[m.sel] += 1

    def wait(self, m: State, pending: int | None) -> None:
        """Lands the current lanes' copies, but for their `pending` latest groups (None: lands all)."""
        if not self.flying:
            return
        waiting = np.zeros(m.total, bool)
        waiting[m.sel] = True
        kept = []
        for copy in self.flying:
            lands = waiting[copy.lanes]
            if pending is not None:
                lands &= copy.group < self.committed[copy.lanes] - pending
            if lands.all():
                self._land(m, copy)
            elif lands.any():
                self._land(m, _part(copy, lands))
                kept.append(_part(copy, ~lands))
            else:
                kept.append(copy)
        self.flying = kept

    def take(self, m: State) -> list[list[Copy]]:
        """Takes the copies of each current lane away from its groups."""
        ids = m.lanes.ids
        taken: list[list[Copy]] = [[] for _ in range(m.n)]
        kept = []
        for copy in self.flying:
            mine = np.isin(copy.lanes, ids)
            for k in np.searchsorted(ids, copy.lanes[mine]).tolist():
                taken[k].append(_part(copy, copy.lanes == ids[k]))
            if not mine.all():
                kept.append(_part(copy, ~mine))
        self.flying = kept
        return taken

    @staticmethod
    def _land(m: State, copy: Copy) -> None:
        m.shared.land_copy(copy.offset, copy.size, m.row_of[copy.lanes], copy.words, None, bulk=False)


def _part(copy: Copy, mask: Array) -> Copy:
    return Copy(
        copy.lanes[mask], copy.group[mask], copy.offset[mask], copy.size, [w[mask] for w in copy.words]
    )
