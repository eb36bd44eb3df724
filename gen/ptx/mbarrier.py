"""mbarrier objects: phases, arrivals, transaction bytes, and the copies that complete on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array

if TYPE_CHECKING:
    from gen.ptx.copies import Copy
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction

MBARRIER_BYTES = 8
COUNT_LIMIT = (1 << 20) - 1
"""Largest arrival count and magnitude of the transaction count (PTX ISA, contents of the mbarrier object)."""


@dataclass(slots=True)
class MBarrier:
    """One barrier in shared memory. `known` gathers what arriving warps had done in the current phase."""

    expected: int
    pending: int
    known: Array
    phase: int = 0
    bytes: int = 0
    released: Array | None = None
    flying: list[Copy] = field(default_factory=list)
    landing: list[Copy] = field(default_factory=list)


@dataclass(slots=True)
class Wait:
    """The last wait of a warp that found its phase incomplete."""

    instruction: Instruction
    offset: int
    barrier: MBarrier

    def state(self) -> str:
        """What the phase lacks, in words."""
        b = self.barrier
        return (
            f"the barrier is in phase {b.phase} (parity {b.phase % 2}), lacking {b.pending} of {b.expected} "
            f"arrivals and {b.bytes} bytes of copies"
        )


class MBarriers:
    """The mbarriers of a batch, by offset into shared storage.

    Copies bound to a barrier stay pending until a thread has seen their phase complete, as the memory model
    gives nobody their bytes before that.
    """

    def __init__(self) -> None:
        self.objects: dict[int, MBarrier] = {}
        self.waits: dict[int, Wait] = {}

    def create(self, m: State, offset: int, count: int) -> None:
        """mbarrier.init."""
        self.objects[offset] = MBarrier(count, count, np.zeros(m.shared.clock.shape[1], np.int32))

    def arrive(self, m: State, barrier: MBarrier, row: int, count: int) -> None:
        """`count` arrivals by a warp; what it did before is released to those who wait."""
        barrier.known = np.maximum(barrier.known, m.shared.clock[row])
        m.shared.advance(np.array([row]))
        barrier.pending -= count
        self.settle(m, barrier)

    def transfer(self, m: State, barrier: MBarrier, row: int, copy: Copy, size: int) -> None:
        """A bulk copy of a warp completes `size` bytes on the barrier."""
        self.attach(m, barrier, row, [copy])
        barrier.bytes -= size
        self.settle(m, barrier)

    def attach(self, m: State, barrier: MBarrier, row: int, copies: list[Copy]) -> None:
        """Makes copies of a warp complete with the barrier's phase; they count as written by it now."""
        barrier.known = np.maximum(barrier.known, m.shared.clock[row])
        for copy in copies:
            copy.time = int(m.shared.own[row])
        m.shared.advance(np.array([row]))
        barrier.flying += copies

    def settle(self, m: State, barrier: MBarrier) -> None:
        """Completes the phase if every arrival and byte is in."""
        if barrier.pending == 0 and barrier.bytes == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            barrier.released, barrier.known = barrier.known, np.zeros_like(barrier.known)
            barrier.landing += barrier.flying
            barrier.flying = []
            m.progress()

    @staticmethod
    def observe(m: State, barrier: MBarrier, row: int) -> None:
        """A warp saw a completed phase: its copies have landed, and it is ordered after all arrivals."""
        for copy in barrier.landing:
            m.shared.land_copy(
                copy.offset, copy.size, m.row_of[copy.lanes], copy.words, copy.time, bulk=copy.bulk
            )
        barrier.landing = []
        if barrier.released is not None:
            m.shared.clock[row] = np.maximum(m.shared.clock[row], barrier.released)
