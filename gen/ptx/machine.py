"""Runs a translated kernel: batches of blocks, and within a batch one straight run of code at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.errors import Fault
from gen.ptx.lanes import Lanes
from gen.ptx.mbarrier import MBARRIER_BYTES
from gen.ptx.program import ends_run
from gen.ptx.sync import DIVERGENCE

if TYPE_CHECKING:
    from gen.ptx.arrays import Array
    from gen.ptx.state import State
    from gen.ptx.translation import Op, Translation


@dataclass(slots=True)
class Run:
    """Straight code from `start` up to `stop`; `end` is the branch, barrier or exit after it, if any."""

    start: int
    stop: int
    ops: list[Op]
    end: Op | None
    syncs: list[int]
    spins: bool


class Machine:
    """Runs batches of one kernel; `runs` remembers its straight code between launches."""

    def __init__(
        self, translation: Translation, runs: dict[int, Run], spin_limit: int, step_limit: int
    ) -> None:
        self.translation = translation
        self.spin_limit, self.step_limit = spin_limit, step_limit
        self.runs = runs

    def run_at(self, position: int) -> Run:
        """The straight code that starts at a position."""
        run = self.runs.get(position)
        if run is None:
            run = self.runs[position] = self._cut(position)
        return run

    def _cut(self, start: int) -> Run:
        t = self.translation
        code, stop = t.program.code, start
        while True:
            if ends_run(code[stop].instruction):
                end: Op | None = t.ops[stop]
                break
            stop += 1
            if stop in t.program.leaders:
                end = None
                break
        body = range(start, stop)
        syncs = [p for p in body if p in t.sync_masks]
        return Run(
            start, stop, t.ops[start:stop], end, syncs, any(p in t.spinning for p in range(start, stop + 1))
        )

    def execute(self, m: State) -> None:
        """Runs one batch to its end. Raises `Fault`."""
        scheduler = m.scheduler
        parked: dict[int, list[Lanes]] = {}
        m.ready(0, Lanes(np.flatnonzero(m.live)))
        while True:
            if not scheduler.heap:
                if not parked:
                    break
                self._retry(m, parked)
            position, lanes = scheduler.pop(m.total)
            if position in parked:
                scheduler.push(position, lanes)
                for group in parked.pop(position):
                    scheduler.push(position, group)
                continue
            run = self.run_at(position)
            m.select(lanes)
            if run.syncs and not lanes.whole_warps:
                self._run_partial(m, run, lanes, parked)
            else:
                for op in run.ops:
                    op(m)
                self._finish(m, run, lanes)
            self._watch(m, run)
        if m.live.any():
            self._deadlock(m, parked)

    @staticmethod
    def _finish(m: State, run: Run, lanes: Lanes) -> None:
        if run.end is None:
            m.counters.ran(run.start, run.stop, lanes.count, lanes.warps)
            m.ready(run.stop, lanes)
        else:
            m.counters.ran(run.start, run.stop + 1, lanes.count, lanes.warps)
            run.end(m)

    def _run_partial(self, m: State, run: Run, lanes: Lanes, parked: dict[int, list[Lanes]]) -> None:
        """Runs code with warp-wide instructions for sets with partial warps: those wait for their lanes."""
        start = run.start
        for sync in run.syncs:
            for op in run.ops[start - run.start : sync - run.start]:
                op(m)
            if sync > start:
                m.counters.ran(start, sync, lanes.count, lanes.warps)
            start = sync
            complete = self._complete(m, sync, lanes)
            if not complete.all():
                parked.setdefault(sync, []).append(lanes.where(~complete))
                if complete.any():
                    rest = lanes.where(complete)
                    m.select(rest)
                    m.translation.ops[sync](m)
                    m.counters.ran(sync, sync + 1, rest.count, rest.warps)
                    m.ready(sync + 1, rest)
                return
        for op in run.ops[start - run.start :]:
            op(m)
        if run.end is None:
            m.counters.ran(start, run.stop, lanes.count, lanes.warps)
            m.ready(run.stop, lanes)
        else:
            m.counters.ran(start, run.stop + 1, lanes.count, lanes.warps)
            run.end(m)

    def _complete(self, m: State, position: int, lanes: Lanes) -> Array:
        """Bool for each of `lanes`: whether all lanes its warp needs at this instruction are here."""
        here = np.zeros(m.total, bool)
        here[lanes.index] = True
        needed = self.translation.sync_masks[position]
        if needed is None:
            wanted = np.ones(m.total, bool)
            missing = wanted & ~here
        else:
            bits = np.zeros(m.total, np.uint32)
            bits[lanes.index] = needed(m)
            union = np.bitwise_or.reduce(bits.reshape(-1, 32), axis=1)
            wanted = (union[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool).reshape(-1)
            missing = wanted & ~here & m.live
        incomplete: Array = np.asarray(missing.reshape(-1, 32).any(1))
        return np.asarray(~incomplete[lanes.ids >> 5])

    def _retry(self, m: State, parked: dict[int, list[Lanes]]) -> None:
        """Nothing else can run: parked warps go on if lanes they waited for have exited; else a fault."""
        for position, groups in list(parked.items()):
            member = np.zeros(m.total, bool)
            for group in groups:
                member[group.index] = True
            lanes = Lanes(np.flatnonzero(member))
            m.select(lanes)
            if self._complete(m, position, lanes).any():
                del parked[position]
                m.ready(position, lanes)
                return
        position, groups = next(iter(parked.items()))
        placed = self.translation.program.code[position]
        m.select(groups[0])
        m.fault(
            "non-converged",
            placed.instruction,
            0,
            "the other lanes of this warp never arrive here: every lane that the instruction names (all 32 "
            f"for mma and ldmatrix) must execute it together. {self._whereabouts(m, parked)}",
        )

    def _watch(self, m: State, run: Run) -> None:
        scheduler = m.scheduler
        scheduler.idle += 1
        limit = self.step_limit
        if run.spins:
            scheduler.spins += 1
            limit = self.spin_limit
        if scheduler.idle > limit:
            if (wait := m.mbarriers.waits.get(int(m.row_of[m.lanes.first]))) and run.spins:
                m.fault_at(
                    "mbarrier misuse",
                    wait.instruction,
                    m.lanes.first,
                    f"waits for a phase that can never come: {wait.state()}. {self._whereabouts(m, {})}",
                    m.shared_access(m.shared.address(wait.offset), MBARRIER_BYTES),
                )
            placed = self.translation.program.code[run.start]
            raise Fault(
                "no progress",
                f"{scheduler.idle} steps without a store, a barrier or an exit; a spin-wait whose condition "
                f"never comes, or a loop without end. {self._whereabouts(m, {})}",
                line=placed.instruction.line,
                text=placed.instruction.text,
                source=m.source(placed.instruction),
            )

    def _deadlock(self, m: State, parked: dict[int, list[Lanes]]) -> None:
        barriers = m.barriers
        parted = barriers.parted(m)
        first = int(np.flatnonzero(m.live)[0]) if parted is None else parted
        resume = barriers.resumptions[int(barriers.where[first])]
        kind, why = "deadlock", "all threads that still run wait at barriers that cannot complete"
        if parted is not None:
            kind = DIVERGENCE
            why = (
                "the threads of this warp wait at different barriers, none of which can complete; all "
                "threads of a warp must execute the same bar.sync (__syncthreads)"
            )
        m.fault_at(kind, resume.instruction, first, f"{why}. {self._whereabouts(m, parked)}")

    def _whereabouts(self, m: State, parked: dict[int, list[Lanes]]) -> str:
        """Each warp of the first stuck block with its PTX line and what it waits for."""
        code = self.translation.program.code
        place: dict[int, tuple[int, str]] = {}
        for lane in np.flatnonzero(m.live & (m.barriers.waiting >= 0)).tolist():
            resume = m.barriers.resumptions[int(m.barriers.where[lane])]
            place[lane] = (resume.instruction.line, f"barrier {int(m.barriers.waiting[lane])}")
        for source, why in ((parked, "the rest of its warp"), (m.scheduler.groups, "nothing, it runs")):
            for position, groups in source.items():
                for lane in (lane for group in groups for lane in group.ids.tolist()):
                    wait = m.mbarriers.waits.get(int(m.row_of[lane]))
                    reason = f"the mbarrier at {m.shared.address(wait.offset):#x}" if wait else why
                    place[lane] = code[position].instruction.line, reason
        if not place:
            return ""
        block = min(int(m.block_of[lane]) for lane in place)
        warps: dict[tuple[int, int, str], int] = {}
        for lane, (line, why) in place.items():
            if int(m.block_of[lane]) == block:
                key = (int(m.row_of[lane]) % m.warps, line, why)
                warps[key] = warps.get(key, 0) + 1
        lines = [
            f"warp {warp} ({count} threads) at line {line} for {why}"
            for (warp, line, why), count in sorted(warps.items())
        ]
        more = f", and {len(lines) - 16} more" if len(lines) > 16 else ""
        waits = {w.offset: w for row, w in m.mbarriers.waits.items() if row // m.warps == block}
        states = [f". At {m.shared.address(at):#x} {wait.state()}" for at, wait in sorted(waits.items())]
        return f"In block {m.first_block + block}: {'; '.join(lines[:16])}{more}{''.join(states[:16])}"
