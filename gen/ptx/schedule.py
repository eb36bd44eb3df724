"""Which threads run next: the lowest position, with turns for the others while someone spins."""

from __future__ import annotations

import heapq

from gen.ptx.lanes import Lanes, merge

_SPIN_TURNS = 8
_LOOP_TURNS = 4096


class Scheduler:
    """Groups of runnable threads by position.

    Lowest position first makes the threads of a warp meet again behind a divergent branch. Threads that spin
    on memory would starve those they wait for, so every few of their turns another group gets one.
    """

    def __init__(self) -> None:
        self.groups: dict[int, list[Lanes]] = {}
        self.heap: list[int] = []
        self.spins = 0
        self.turns = 0
        self.last_fair = -1
        self.idle = 0
        self.steps = 0

    def push(self, position: int, lanes: Lanes) -> None:
        """Adds runnable threads."""
        known = self.groups.get(position)
        if known is None:
            self.groups[position] = [lanes]
            heapq.heappush(self.heap, position)
        else:
            known.append(lanes)

    def pop(self, total: int) -> tuple[int, Lanes]:
        """The next group, merged."""
        self.steps += 1
        self.turns += 1
        if len(self.heap) > 1 and (self.spins >= _SPIN_TURNS or self.turns >= _LOOP_TURNS):
            self.spins = self.turns = 0
            position = min((p for p in self.heap if p > self.last_fair), default=self.heap[0])
            self.last_fair = position
            self.heap.remove(position)
            heapq.heapify(self.heap)
        else:
            position = heapq.heappop(self.heap)
        return position, merge(self.groups.pop(position), total)
