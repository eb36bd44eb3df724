"""The result of translating a kernel: closures, register slots and control flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gen.ptx.arrays import Array
from gen.ptx.program import Program

if TYPE_CHECKING:
    from gen.ptx.state import State

Op = Callable[["State"], None]

WIDTH_CLASSES = ("pred", "u16", "u32", "u64")


@dataclass(frozen=True, slots=True)
class Slot:
    """A register array: `m.v[view][index]`; constants and special registers count down from −1."""

    view: str
    index: int


@dataclass(slots=True)
class Flow:
    """The registers (in their unsigned views) an instruction reads and writes, and where it may lead."""

    successors: list[int]
    reads: set[Slot] = field(default_factory=set)
    writes: set[Slot] = field(default_factory=set)


@dataclass
class Translation:
    """What a kernel needs to run, shared by its launches."""

    program: Program
    ops: list[Op] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WIDTH_CLASSES, 0))
    extras: dict[str, dict[int | str, int]] = field(default_factory=lambda: {c: {} for c in WIDTH_CLASSES})
    names: dict[tuple[int, str], Slot] = field(default_factory=dict)
    sync_masks: dict[int, Callable[[State], Array] | None] = field(default_factory=dict)
    spinning: set[int] = field(default_factory=set)
    shared_widths: set[int] = field(default_factory=set)
    global_widths: set[int] = field(default_factory=set)
    global_addresses: dict[str, int] = field(default_factory=dict)

    @property
    def granule(self) -> int:
        """The smallest shared-memory access of the entry in bytes, at most 4."""
        return min(self.shared_widths | {4})

    @property
    def global_granule(self) -> int:
        """The smallest global-memory access of the entry in bytes, at most 4."""
        return min(self.global_widths | {4})
