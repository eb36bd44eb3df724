"""Happens-before through global memory: fences, and accesses that synchronize warps by what they read.

A warp that executes a fence, or a releasing access, and then a strong write to a location *releases* what it
is ordered after; a warp that later reads the location by a strong access *acquires* it (PTX ISA, "Release and
Acquire Patterns"). Releases are the nodes of a graph that is only walked when two accesses of different
blocks conflict. What a warp acquired is an event of its own in the vector clocks of its block, so that
barriers hand it on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.shared import BLOCK_FENCED, DEVICE_FENCED

if TYPE_CHECKING:
    from gen.ptx.semantics import Semantics
    from gen.ptx.shared import SharedMemory
    from gen.ptx.state import State

WEAK_PLANE, STRONG_PLANE = 0, 1
_FOLD = 16  # acquisitions of a block from which on it is worthwhile to merge some


@dataclass(slots=True, eq=False)
class Release:
    """A release by a warp of `block`: the latest time of each of its block's warps that it covers.

    For strong accesses that is `strong`, where the releasing access itself counts too. `parents` are the
    releases that it passes on. Once asked for, `table` ([plane, block, warp], int32) stands for all of it.
    """

    block: int
    weak: Array
    strong: Array
    parents: tuple[Release, ...]
    table: Array | None = None

    def times(self, blocks: int) -> Array:
        """Latest times covered, [plane, block, warp]."""
        if self.table is not None:
            return self.table
        out = np.zeros((2, blocks, len(self.weak)), np.int32)
        stack, seen = [self], set[int]()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.table is not None:
                np.maximum(out, node.table, out=out)
                continue
            np.maximum(out[WEAK_PLANE, node.block], node.weak, out=out[WEAK_PLANE, node.block])
            np.maximum(out[STRONG_PLANE, node.block], node.strong, out=out[STRONG_PLANE, node.block])
            stack += node.parents
        self.table, self.parents = out, ()
        return out


@dataclass(slots=True)
class Flag:
    """A location that synchronizes: its latest release, and what it tells warps of the releasing blocks."""

    release: Release | None = None
    inner: dict[int, Array] = field(default_factory=dict)


@dataclass(slots=True)
class Acquired:
    """A warp of the block acquired a release at `time`; `usable` once nothing more, as a fence, is needed."""

    warp: int
    time: int
    release: Release
    usable: bool


class DeviceOrder:
    """What the blocks of a batch know of other blocks. `flags` are the launch's, by address."""

    def __init__(self, flags: dict[int, Flag], shared: SharedMemory, first_block: int, total: int) -> None:
        self.flags, self.shared = flags, shared
        self.first_block, self.total = first_block, total
        self.warps = shared.warps
        self.acquired: dict[int, dict[tuple[int, int, bool], Acquired]] = {}
        self.fenced = False
        self._tables: dict[int, tuple[list[Release], Array]] = {}

    def fence(self, rows: Array, *, device: bool) -> None:
        """A fence by warps (rows of the clocks), at device or at block scope."""
        self.fenced = True
        shared, warps = self.shared, self.warps
        known = shared.clock[rows, :warps]
        for section in (DEVICE_FENCED, BLOCK_FENCED) if device else (BLOCK_FENCED,):
            part = slice(section * warps, (section + 1) * warps)
            shared.clock[rows, part] = np.maximum(shared.clock[rows, part], known)
        shared.advance(rows)
        if not (device and self.acquired):
            return
        for row in rows.tolist():
            entries = self.acquired.get(row // warps, {})
            for entry in [e for e in entries.values() if not e.usable and self._reaches(row, e)]:
                self._add(row, entry.release, usable=True)

    def synchronize(
        self, m: State, address: Array, how: Semantics, *, reads: bool, writes: bool, acquires: bool = False
    ) -> None:
        """A strong access to one location a running lane; `acquires`: without a fence after it."""
        if not (self.fenced or self.flags or how.release):
            return
        rows = m.row_of[m.sel].tolist()
        for row, at in sorted(set(zip(rows, address.tolist(), strict=True))):
            flag = self.flags.get(at)
            if reads and flag:
                self._acquire(row, flag, how, acquires or how.acquire)
            if writes:
                self._release(row, at, flag if reads else None, how)

    def _acquire(self, row: int, flag: Flag, how: Semantics, usable: bool) -> None:
        shared, block = self.shared, row // self.warps
        inner = flag.inner.get(self.first_block + block)
        if inner is not None:
            shared.clock[row] = np.maximum(shared.clock[row], inner)
        if how.device and flag.release is not None:
            self._add(row, flag.release, usable)

    def _add(self, row: int, release: Release, usable: bool) -> None:
        """Notes that a warp acquired a release, now unless it had before."""
        entry = Acquired(row % self.warps, int(self.shared.own[row]), release, usable)
        entries = self.acquired.setdefault(row // self.warps, {})
        entries.setdefault((entry.warp, id(release), usable), entry)
        if len(entries) > _FOLD:
            self._fold(row // self.warps)

    def _fold(self, block: int) -> None:
        """Makes one entry of those of each kind that every warp of a block is ordered after."""
        rows = slice(block * self.warps, (block + 1) * self.warps)
        reached = self.shared.clock[rows, : self.warps].min(0)
        entries = self.acquired[block]
        for usable in (True, False):
            old = [e for e in entries.values() if e.usable == usable and e.time <= reached[e.warp]]
            if len(old) > 1:
                nothing = np.zeros(self.warps, np.int32)
                releases = {id(e.release): e.release for e in old}
                every = Release(self.first_block + block, nothing, nothing, tuple(releases.values()))
                for e in old:
                    del entries[e.warp, id(e.release), usable]
                last = old[-1]
                entries[last.warp, id(every), usable] = Acquired(last.warp, last.time, every, usable)

    def _release(self, row: int, address: int, before: Flag | None, how: Semantics) -> None:
        """A strong write; `before` is the flag whose releases it continues, being a read-modify-write."""
        shared, warps = self.shared, self.warps
        if how.release:
            self.fence(np.array([row]), device=how.device)
        clock = shared.clock[row].reshape(-1, warps)
        known = self.visible(row)
        if not (clock[BLOCK_FENCED].any() or known):
            if before is None:
                self.flags.pop(address, None)
            return
        flag = before or Flag()
        self.flags[address] = flag
        inner = shared.clock[row].copy()
        inner[:warps] = clock[BLOCK_FENCED]
        block = self.first_block + row // warps
        old = flag.inner.get(block)
        flag.inner[block] = inner if old is None else np.maximum(old, inner)
        if how.device:
            weak = clock[DEVICE_FENCED].copy()
            strong = weak.copy()
            strong[row % warps] = shared.own[row]
            parents = (flag.release, *known) if flag.release else tuple(known)
            flag.release = Release(block, weak, strong, parents)
        shared.advance(np.array([row]))

    def _reaches(self, row: int, entry: Acquired) -> bool:
        """Whether a warp is ordered after an acquisition of its block."""
        return int(self.shared.clock[row, entry.warp]) >= entry.time

    def visible(self, row: int) -> list[Release]:
        """The releases that a warp is ordered after."""
        entries = self.acquired.get(row // self.warps)
        if not entries:
            return []
        return [e.release for e in entries.values() if e.usable and self._reaches(row, e)]

    def times(self, row: int) -> Array | None:
        """Latest times of other blocks' warps that a warp is ordered after, [plane, block, warp]."""
        releases = self.visible(row)
        if not releases:
            return None
        known = self._tables.get(row)
        if known is None or known[0] != releases:
            tables = [release.times(self.total) for release in releases]
            known = releases, tables[0] if len(tables) == 1 else np.maximum.reduce(tables)
            self._tables[row] = known
        return known[1]
