"""Loads and stores by address: the state spaces, their checks and their counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.program import SHARED_BASE
from gen.ptx.report import extra_wavefronts
from gen.ptx.semantics import WEAK, Semantics
from gen.ptx.shared_faults import collision

if TYPE_CHECKING:
    from collections.abc import Callable

    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction

SHARED, GLOBAL, LOCAL, GENERIC = "shared", "global", "local", "generic"


def shared_offset(m: State, ins: Instruction, address: Array, size: int, *, by_threads: bool = True) -> Array:
    """Shared-space addresses of the current lanes, checked, as offsets into the batch's storage.

    Accesses `by_threads`, not those of copy engines, are sampled for bank conflicts.
    """
    low, high = int(address.min()), int(address.max())
    first = m.shared_base[m.sel]
    inside = address - SHARED_BASE
    if low < SHARED_BASE or high > SHARED_BASE + m.shared_size - size:
        k = int(np.flatnonzero((inside < 0) | (inside > m.shared_size - size))[0])
        m.fault(
            "out of bounds",
            ins,
            k,
            "touches bytes outside the block's shared memory; check the index, and the dynamic shared memory "
            "of the launch",
            m.shared_access(int(address[k]), size),
        )
    if (address & (size - 1)).any():
        k = int(np.flatnonzero(address & (size - 1))[0])
        m.fault(
            "misaligned",
            ins,
            k,
            f"the shared address is not a multiple of {size} bytes",
            m.shared_access(int(address[k]), size),
        )
    offset = address + (first - m.shared.start)
    if m.sampling and by_threads:
        _sample(m, ins, offset, size)
    return np.asarray(offset)


def _sample(m: State, ins: Instruction, offset: Array, size: int) -> None:
    """Counts bank conflicts of the launch's first block."""
    mine = m.row_of[m.sel] < m.warps
    if mine.any():
        extra = extra_wavefronts(offset[mine], m.row_of[m.sel][mine], size)
        m.counters.conflicts[ins.line] = m.counters.conflicts.get(ins.line, 0) + extra


def local_address(m: State, ins: Instruction, address: Array, size: int) -> Array:
    """Local-space addresses of the current lanes, checked, as host addresses."""
    bad = (address < 0) | (address > m.local_size - size) | (address & (size - 1) != 0)
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        kind = "misaligned" if int(address[k]) & (size - 1) else "out of bounds"
        m.fault(
            kind,
            ins,
            k,
            "the local address is not a multiple of the access size"
            if kind == "misaligned"
            else f"touches bytes outside the thread's frame of {m.local_size} bytes; check the index",
            m.local_access(int(address[k]), size),
        )
    return np.asarray(address + m.local_base[m.sel])


def _check_local_read(m: State, ins: Instruction, address: Array, host: Array, size: int) -> None:
    """Reports reads of local memory of which no byte was written.

    Compilers move structures with their padding, so that an access with some written bytes passes.
    """
    written = m.local_written[_bytes_of(m, host, size)].any(1)
    if not written.all():
        k = int(np.flatnonzero(~written)[0])
        m.fault(
            "uninitialized read",
            ins,
            k,
            "reads local memory (a local array or a spilled variable) that the thread has not written",
            m.local_access(int(address[k]), size),
        )


def load(
    m: State, ins: Instruction, space: str, address: Array, width: int, count: int, how: Semantics = WEAK
) -> list[Array]:
    """`count` unsigned words of `width` bytes for each current lane."""
    size = width * count
    if space == GENERIC:
        return _generic(m, address, lambda where, a: load(m, ins, where, a, width, count, how), width)
    if space == SHARED:
        offset = shared_offset(m, ins, address, size)
        m.shared.read(m, ins, offset, size, m.row_of[m.sel], how.strong)
        address = m.shared.start + offset
    elif space == LOCAL:
        frame, address = address, local_address(m, ins, address, size)
        _check_local_read(m, ins, frame, address, size)
    else:
        m.memory.check(m, ins, address, size, read=True, write=False, how=how)
        if how.strong:
            for i in range(count):
                m.order.synchronize(m, address + i * width, how, reads=True, writes=False)
    read = m.counters.bytes_read
    read[space] = read.get(space, 0) + size * m.n
    return [HOST.load(address + i * width if i else address, width) for i in range(count)]


def store(
    m: State,
    ins: Instruction,
    space: str,
    address: Array,
    width: int,
    values: list[Array],
    how: Semantics = WEAK,
) -> None:
    """Stores unsigned words of `width` bytes of each current lane."""
    size = width * len(values)
    if space == GENERIC:
        _generic_store(m, ins, address, width, values, how)
        return
    written = m.counters.bytes_written
    written[space] = written.get(space, 0) + size * m.n
    m.scheduler.idle = 0
    host = address

    def same() -> Array:
        old = [HOST.load(host + i * width, width) == value for i, value in enumerate(values)]
        return np.asarray(np.logical_and.reduce(old))

    def put() -> None:
        for i, value in enumerate(values):
            HOST.store(host + i * width, value, width)

    if space == SHARED:
        offset = shared_offset(m, ins, address, size)
        host = m.shared.start + offset
        m.shared.write(m, ins, offset, size, m.row_of[m.sel], same, put, how.strong)
        return
    if space == LOCAL:
        host = local_address(m, ins, address, size)
        m.local_written[_bytes_of(m, host, size)] = True
        put()
        return
    m.memory.check(m, ins, address, size, read=False, write=True, how=how, same=same)
    put()
    if how.strong:
        for i in range(len(values)):
            m.order.synchronize(m, address + i * width, how, reads=False, writes=True)
    elif m.n > 1:
        _check_collisions(m, ins, address, size, same())


def _check_collisions(m: State, ins: Instruction, address: Array, size: int, kept: Array) -> None:
    """Lanes whose words, just stored, are not `kept` in memory: others wrote there as well."""
    if kept.all():
        return
    k = int(np.flatnonzero(~kept)[0])
    overlapping = np.flatnonzero(np.abs(address - address[k]) < size)
    collision(m, ins, k, int(overlapping[-1]), m.memory.access(int(address[k]), size))


def _bytes_of(m: State, host: Array, size: int) -> Array:
    """Indices into the bytes of all local memory, [n, size]."""
    return np.asarray((host - m.local_start)[:, None] + np.arange(size))


def classify(m: State, address: Array) -> str | Array:
    """The space of generic addresses: one name for all, or an array of 0 global, 1 shared, 2 local."""
    low, high = int(address.min()), int(address.max())
    if low >= m.shared.start and high < m.shared.end:
        return SHARED
    if low >= m.local_start and high < m.local_end:
        return LOCAL
    if (high < m.shared.start or low >= m.shared.end) and (high < m.local_start or low >= m.local_end):
        return GLOBAL
    kinds = np.zeros(len(address), np.int8)
    kinds[(address >= m.shared.start) & (address < m.shared.end)] = 1
    kinds[(address >= m.local_start) & (address < m.local_end)] = 2
    return kinds


def to_space(m: State, space: str, address: Array) -> Array:
    """Generic addresses of the current lanes as addresses of a space."""
    if space == SHARED:
        return np.asarray(address - m.shared_base[m.sel])
    if space == LOCAL:
        return np.asarray(address - m.local_base[m.sel])
    return address


def _generic(m: State, address: Array, one: Callable[[str, Array], list[Array]], width: int) -> list[Array]:
    kinds = classify(m, address)
    if isinstance(kinds, str):
        return one(kinds, to_space(m, kinds, address))
    lanes, out = m.lanes, list[Array]()
    for number, space in enumerate((GLOBAL, SHARED, LOCAL)):
        mask = kinds == number
        if mask.any():
            m.select(lanes.where(mask))
            parts = one(space, to_space(m, space, address[mask]))
            out = out or [np.zeros(len(address), p.dtype) for p in parts]
            for whole, part in zip(out, parts, strict=True):
                whole[mask] = part
    m.select(lanes)
    return out


def _generic_store(
    m: State, ins: Instruction, address: Array, width: int, values: list[Array], how: Semantics
) -> None:
    kinds = classify(m, address)
    if isinstance(kinds, str):
        store(m, ins, kinds, to_space(m, kinds, address), width, values, how)
        return
    lanes = m.lanes
    for number, space in enumerate((GLOBAL, SHARED, LOCAL)):
        mask = kinds == number
        if mask.any():
            m.select(lanes.where(mask))
            store(m, ins, space, to_space(m, space, address[mask]), width, [v[mask] for v in values], how)
    m.select(lanes)
