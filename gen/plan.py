"""What every family plans: shared memory of a block, splits of the reduction axis, and the launches.

Everything here is a pure function of sizes and device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gen.values import MAX_SPLITS, SplitWord

if TYPE_CHECKING:
    from gen.spec import KernelSpec, Split

SHARED_BYTES_PER_BLOCK = 101_376
"""Shared memory that a block may have on compute capability 12.0 (CUDA programming guide)."""

ELEMENT_BYTES = {"float32": 4, "int32": 4, "bfloat16": 2, "uint8": 1}
"""Bytes of an element of scratch."""

BLOCK_TILES = 1.5
"""What starting and ending a block costs, in key tiles: query load, partial store."""

MERGE_TILES = 0.05
"""What merging one more split costs, in key tiles."""


@dataclass(frozen=True)
class SharedBuffer:
    """One shared-memory buffer of a block."""

    name: str
    shape: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        """Size, rounded up to the 16-byte unit of vector accesses."""
        return math.ceil(math.prod(self.shape) * self.element_bytes / 16) * 16


def shared_bytes(buffers: Sequence[SharedBuffer]) -> int:
    """Bytes of all buffers together."""
    return sum(buffer.bytes for buffer in buffers)


def refuse_oversized(spec: KernelSpec, buffers: Sequence[SharedBuffer], field_name: str, fix: str) -> None:
    """Raise SpecError where the buffers exceed the shared memory of a block; `fix` says what fits."""
    total = shared_bytes(buffers)
    if total <= SHARED_BYTES_PER_BLOCK:
        return
    largest = ", ".join(
        f"{buffer.name} {buffer.bytes:,}" for buffer in sorted(buffers, key=lambda b: -b.bytes)[:3]
    )
    raise spec.error(
        field_name,
        f"a block would need {total:,} B of shared memory ({largest}, …), over {SHARED_BYTES_PER_BLOCK:,} B",
        fix,
    )


@dataclass(frozen=True)
class Splits:
    """Key tiles divided over `count` blocks of `tiles_per_split` each; the last may have fewer."""

    count: int
    tiles_per_split: int
    blocks: int
    waves: int
    last_wave_fill: float
    """Share of the card's block slots that the last wave uses, 0 to 1."""


def plan_splits(strategy: Split | int, *, tiles: int, rows: int, slots: int) -> Splits:
    """Divide `tiles` tiles of work for each of `rows` independent blocks on a card with `slots` block slots.

    `none` keeps one block a row. `fixed: N`, or N itself, gives each split the tiles that N equal ones would
    have, rounded up, and leaves out splits without a tile: at most N remain. `waves` takes the count whose
    estimated time, waves × (tiles a block + start and end) + merge, is least, and of equals the smallest. No
    strategy makes more than `MAX_SPLITS`, well within the 65,535 blocks that CUDA allows along z.
    """
    tiles = max(tiles, 1)
    if strategy is SplitWord.NONE:
        return _splits(1, tiles, rows, slots)
    if not isinstance(strategy, SplitWord):
        count = strategy if isinstance(strategy, int) else strategy.fixed
        return _splits(min(count, tiles), tiles, rows, slots)
    candidates = [_splits(count, tiles, rows, slots) for count in range(1, min(tiles, MAX_SPLITS) + 1)]
    return min(
        candidates,
        key=lambda s: (s.waves * (s.tiles_per_split + BLOCK_TILES) + MERGE_TILES * s.count, s.count),
    )


def _splits(count: int, tiles: int, rows: int, slots: int) -> Splits:
    per_split = math.ceil(tiles / count)
    count = math.ceil(tiles / per_split)
    blocks = rows * count
    waves = math.ceil(blocks / slots)
    last = blocks - (waves - 1) * slots if blocks else 0
    return Splits(count, per_split, blocks, waves, last / slots)


@dataclass(frozen=True)
class Launch:
    """One kernel launch: grid (x, y, z) and threads a block; shared memory is the compiled kernel's."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int


@dataclass(frozen=True)
class Scratch:
    """A buffer that the caller provides; a `zeroed` one is zero before the first launch ever."""

    shape: tuple[int, ...]
    dtype: str
    zeroed: bool = False


@dataclass(frozen=True)
class LaunchPlan:
    """Everything that a launch needs beside the tensors. Nothing in it depends on device data."""

    splits: Splits
    launches: tuple[Launch, ...]
    scalars: dict[str, int | float]
    scratch: dict[str, Scratch] = field(default_factory=dict)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of all scratch buffers."""
        return sum(ELEMENT_BYTES[buffer.dtype] * math.prod(buffer.shape) for buffer in self.scratch.values())


@dataclass(frozen=True)
class TilePlan:
    """What a spec alone decides: the block's buffers and the values that the template is rendered with.

    `archs` names the architectures that have the kernels' instructions, where not all do, and `mma` the one
    tensor-core instruction that their machine code for the target must have, where that matters.
    """

    template: str
    kernels: tuple[str, ...]
    buffers: tuple[SharedBuffer, ...]
    threads: int
    context: dict[str, Any]
    archs: tuple[str, ...] = ()
    mma: str | None = None

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the largest kernel's block."""
        return shared_bytes(self.buffers)
