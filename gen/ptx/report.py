"""What a launch did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array

if TYPE_CHECKING:
    from gen.ptx.program import Program

_BANKS = 32
_WARNING_LIMIT = 50


@dataclass
class Report:
    """Counts of one launch.

    `thread_instructions` and `warp_instructions` are by opcode (predicated-off instructions count as
    executed; a divergent warp counts once a path). Bytes are by state space. `sampled_bank_conflicts` are
    the wavefronts beyond the fewest possible of shared-memory accesses, by PTX line, of the first block
    only; multiply by `blocks` for an estimate.
    """

    blocks: int
    threads: int
    thread_instructions: dict[str, int]
    warp_instructions: dict[str, int]
    bytes_read: dict[str, int]
    bytes_written: dict[str, int]
    sampled_bank_conflicts: dict[int, int]
    seconds: float
    warnings: list[str]
    messages: list[str] = field(default_factory=list)
    """What printf wrote, in the order of execution."""


@dataclass
class Counters:
    """Running totals behind a `Report`."""

    runs: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)
    bytes_written: dict[str, int] = field(default_factory=dict)
    conflicts: dict[int, int] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def ran(self, start: int, stop: int, threads: int, warps: int) -> None:
        """The instructions of positions start..stop−1 were executed by so many threads."""
        known = self.runs.get((start, stop))
        if known is None:
            self.runs[start, stop] = [threads, warps]
        else:
            known[0] += threads
            known[1] += warps

    def warn(self, message: str) -> None:
        """Keeps a warning once."""
        if len(self.warnings) < _WARNING_LIMIT:
            self.warnings[message] = None

    def report(self, program: Program, blocks: int, threads: int, seconds: float) -> Report:
        """The totals by opcode."""
        change = np.zeros((len(program.code) + 1, 2), np.int64)
        for (start, stop), counts in self.runs.items():
            change[start] += counts
            change[stop] -= counts
        totals = change.cumsum(0)
        by_thread: dict[str, int] = {}
        by_warp: dict[str, int] = {}
        for placed, (lanes, warps) in zip(program.code, totals.tolist(), strict=False):
            if lanes:
                opcode = placed.instruction.opcode
                by_thread[opcode] = by_thread.get(opcode, 0) + lanes
                by_warp[opcode] = by_warp.get(opcode, 0) + warps
        return Report(
            blocks,
            threads,
            by_thread,
            by_warp,
            self.bytes_read,
            self.bytes_written,
            {line: n for line, n in sorted(self.conflicts.items()) if n},
            seconds,
            list(self.warnings),
            self.messages,
        )


def extra_wavefronts(offset: Array, warp: Array, size: int) -> int:
    """Wavefronts beyond the fewest that shared-memory accesses take.

    Accesses of up to 4 bytes are served a warp at a time, 8-byte ones in halves and 16-byte ones in quarters;
    in each such group every bank (4 bytes wide, 32 of them) serves one distinct word a wavefront.
    `offset` are byte offsets and `warp` the warp of each access, in lane order.
    """
    lanes = {8: 16, 16: 8}.get(size, 32)
    lane = np.zeros(len(warp), np.int64)
    starts = np.flatnonzero(np.r_[True, warp[1:] != warp[:-1]])
    for start, stop in zip(starts, np.r_[starts[1:], len(warp)], strict=True):
        lane[start:stop] = np.arange(stop - start)
    group = warp * (32 // lanes) + lane // lanes
    words = np.arange(max(size // 4, 1))
    word = (offset >> 2)[:, None] + words
    key = np.unique((group[:, None] << 40) | word)
    cells, counts = np.unique((key >> 40) * _BANKS + (key & (_BANKS - 1)), return_counts=True)
    worst = np.zeros(int(cells[-1] // _BANKS) + 1, np.int64)
    np.maximum.at(worst, cells // _BANKS, counts)
    return int((worst[worst > 0] - 1).sum())
