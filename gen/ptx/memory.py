"""Global memory: the allocations a launch may touch, and which of their bytes were written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.errors import Access, Hit, PtxError
from gen.ptx.races import Region
from gen.ptx.semantics import WEAK, Semantics
from gen.ptx.spans import Span, span_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gen.ptx.ordering import Flag
    from gen.ptx.pending import PendingWrite
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.tensormap import TensorMap

_SHADOW_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NULL_PAGES = 1 << 16
_ALL_WRITTEN = 0x0101010101010101


class Undefined:
    """Marks an argument as memory nothing has written yet: reading a byte before it is written is a fault."""

    def __init__(self, array: Any) -> None:
        self.array = array


@dataclass(slots=True)
class Written:
    """One byte a byte of a buffer: 1 where something was written. `keep` holds the buffer alive."""

    start: int
    shadow: Array
    keep: Any


class Memory:
    """What was written of `Undefined` buffers; give one to several launches to carry it across them."""

    def __init__(self) -> None:
        self._written: list[Written] = []

    def shadow(self, array: Any, span: Span, create: bool) -> Written | None:
        """The written-state that covers a span, made on first sight if `create`."""
        for known in self._written:
            if known.start <= span.start and span.end <= known.start + len(known.shadow):
                return known
        if not create:
            return None
        start = span.start & ~15
        entry = Written(start, np.zeros((span.end - start + 15) & ~15, np.uint8), array)
        for known in self._written:
            lo, hi = max(start, known.start), min(span.end, known.start + len(known.shadow))
            if lo < hi:
                entry.shadow[lo - start : hi - start] = known.shadow[lo - known.start : hi - known.start]
        self._written.append(entry)
        return entry

    def unwritten(self, array: Any) -> Array:
        """The bytes of an `Undefined` buffer never written: bool, of shape `array.shape + (itemsize,)`."""
        span = span_of(array.array if isinstance(array, Undefined) else array)
        state = self.shadow(array, span, create=False)
        if state is None:
            raise PtxError("this array was not passed as Undefined(...) to a launch with this Memory")
        bytes_ = np.lib.stride_tricks.as_strided(
            state.shadow[span.start - state.start :],
            (*span.shape, span.itemsize),
            (*span.strides, 1),
            writeable=False,
        )
        return np.asarray(bytes_ == 0)


@dataclass(slots=True)
class Allocation:
    """Memory that one argument (or module variable) makes accessible."""

    name: str
    span: Span
    written: Written | None = None
    writable: bool = True

    def contains(self, address: Array, size: int) -> Array:
        """Bool array: which accesses of `size` bytes lie wholly on bytes of the array."""
        offset = address - self.span.start
        ok = (offset >= 0) & (offset <= self.span.end - self.span.start - size)
        for stride, count in self.span.outer:
            step = np.clip(offset // stride, 0, count - 1)
            offset = offset - step * stride
        return ok & (offset + size <= self.span.run)


@dataclass
class GlobalMemory:
    """The allocations of a launch, its tensor maps by number, and what bulk stores are about to change.

    `keep` holds memory that the launch itself made.
    """

    allocations: list[Allocation] = field(default_factory=list)
    tensor_maps: list[TensorMap] = field(default_factory=list)
    pending: list[PendingWrite] = field(default_factory=list)
    keep: list[Array] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    flags: dict[int, Flag] = field(default_factory=dict)

    def watch(self, granule: int) -> None:
        """Sets up the checks for races in what the launch may write; call it with all allocations made."""
        spans = sorted((a.span.start, a.span.end, a.writable) for a in self.allocations)
        merged: list[tuple[int, int, bool]] = []
        for start, end, writable in spans:
            if merged and start < merged[-1][1]:
                before = merged.pop()
                merged.append((before[0], max(end, before[1]), writable or before[2]))
            else:
                merged.append((start, end, writable))
        shift = granule.bit_length() - 1
        self.regions = [Region(start & ~15, end, shift) for start, end, writable in merged if writable]

    def check(
        self,
        m: State,
        ins: Instruction,
        address: Array,
        size: int,
        *,
        read: bool,
        write: bool,
        how: Semantics = WEAK,
        same: Callable[[], Array] | None = None,
        in_order: bool = True,
    ) -> None:
        """Every check of one access a lane of `m.lanes`, before it is performed.

        how: its memory semantics. same: see `Region.write`. in_order: False for an access that is performed
        later and calls `order` then.
        """
        low, high = int(address.min()), int(address.max())
        bad = np.bitwise_and(address, size - 1)
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            access = self.access(int(address[k]), size)
            m.fault("misaligned", ins, k, f"the address is not a multiple of {size} bytes", access)
        if self.pending:
            self._check_pending(m, ins, address, size, atomic=read and write)
        for allocation in self.allocations:
            span = allocation.span
            if span.start <= low and high + size <= span.end and not span.outer:
                self._touch(m, ins, allocation, address, size, None, read, write)
                if in_order:
                    self.order(m, ins, address, size, write, how, same)
                return
        left = np.ones(len(address), bool)
        for allocation in self.allocations:
            inside = left & allocation.contains(address, size)
            if inside.any():
                self._touch(m, ins, allocation, address, size, inside, read, write)
                left &= ~inside
        if left.any():
            k = int(np.flatnonzero(left)[0])
            access = self.access(int(address[k]), size)
            m.fault("out of bounds", ins, k, self._miss(access), access)
        if in_order:
            self.order(m, ins, address, size, write, how, same)

    def order(
        self,
        m: State,
        ins: Instruction,
        address: Array,
        size: int,
        write: bool,
        how: Semantics,
        same: Callable[[], Array] | None = None,
    ) -> None:
        """Checks for races of accesses that are performed now."""
        low, high = int(address.min()), int(address.max())
        for region in self.regions:
            if region.start <= low and high < region.end:
                if write:
                    region.write(m, ins, address, size, how, same)
                else:
                    region.read(m, ins, address, size, how)
                return
        lanes = m.lanes
        for region in self.regions:
            if low < region.end and region.start <= high:
                inside = (address >= region.start) & (address < region.end)
                if inside.any():
                    m.select(lanes.where(inside))
                    if write:
                        part = None if same is None else _part(same, inside)
                        region.write(m, ins, address[inside], size, how, part)
                    else:
                        region.read(m, ins, address[inside], size, how)
        m.select(lanes)

    def _check_pending(self, m: State, ins: Instruction, address: Array, size: int, *, atomic: bool) -> None:
        for store in self.pending:
            touched = store.overlap(address, size) if not (atomic and store.reduces) else np.zeros(1, bool)
            if touched.any():
                k = int(np.flatnonzero(touched)[0])
                m.fault(
                    "pending copy",
                    ins,
                    k,
                    "touches the target of a bulk store in flight; the thread that issued it must execute "
                    "cp.async.bulk.wait_group (without .read), and a barrier or flag must order this access "
                    "after that",
                    self.access(int(address[k]), size),
                )

    def _touch(
        self,
        m: State,
        ins: Instruction,
        allocation: Allocation,
        address: Array,
        size: int,
        mask: Array | None,
        read: bool,
        write: bool,
    ) -> None:
        if write and not allocation.writable:
            k = 0 if mask is None else int(np.flatnonzero(mask)[0])
            access = self.access(int(address[k]), size)
            detail = f"{allocation.name} is not among the arguments declared as written"
            m.fault("read-only", ins, k, detail, access)
        state = allocation.written
        if state is None:
            return
        width = min(size, 8)
        words = state.shadow.view(_SHADOW_DTYPES[width])
        index = (address - state.start) >> (width.bit_length() - 1)
        if mask is not None:
            index = index[mask]
        full = _ALL_WRITTEN & ((1 << 8 * width) - 1)
        for part in range(size // width):
            if read and (words[index + part] != full).any():
                k = int(np.flatnonzero(words[index + part] != full)[0])
                k = k if mask is None else int(np.flatnonzero(mask)[k])
                m.fault(
                    "uninitialized read",
                    ins,
                    k,
                    f"reads memory of {allocation.name} which nothing has written; initialize it or write it "
                    "first",
                    self.access(int(address[k]), size),
                )
            if write:
                words[index + part] = full

    def access(self, address: int, size: int) -> Access:
        """An access to the address, with the allocation that it hits or misses by least."""
        if not self.allocations or address < _NULL_PAGES:
            return Access("global", address, size)

        def outside(allocation: Allocation) -> int:
            span = allocation.span
            return address - span.start if address < span.start else max(address + size - span.end, 0)

        near = min(self.allocations, key=lambda allocation: abs(outside(allocation)))
        span = near.span
        hit = Hit(near.name, span.end - span.start, address - span.start, outside(near))
        return Access("global", address, size, hit)

    @staticmethod
    def _miss(access: Access) -> str:
        """Why an access is out of bounds."""
        if access.hit is None:
            return "touches no allocation of this launch" + (
                "; a null pointer plus an offset" if access.address < _NULL_PAGES else ""
            )
        if access.hit.outside == 0:
            return (
                f"touches a gap between the rows of a strided view, {access.hit.name}; check the stride the "
                "kernel was given"
            )
        return "touches bytes in no allocation of this launch; check index and mask"


def _part(same: Callable[[], Array], inside: Array) -> Callable[[], Array]:
    return lambda: same()[inside]
