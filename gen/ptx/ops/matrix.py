"""ldmatrix, stmatrix and movmatrix: 8-row matrices across the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.lanes import Lanes
from gen.ptx.ops.access import GENERIC, SHARED, classify, shared_offset, to_space
from gen.ptx.ops.memory import take_space

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op

_ROW_BYTES = 16


def _spread_nibbles(words: Array) -> Array:
    """[rows, 2] words of 4-bit elements as [rows, 4] words with one element in the low bits of each byte."""
    packed = np.ascontiguousarray(words).view(np.uint8)
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(words), 16).view(np.uint32)


def _spread_six_bits(words: Array) -> Array:
    """[rows, 3] words of 6-bit elements as [rows, 4] words with one element in the low bits of each byte."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    values = np.packbits(bits.reshape(len(words), 16, 6), axis=-1, bitorder="little")
    return values.reshape(len(words), 16).view(np.uint32)


_PACKINGS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "b4x16_p64": (8, _spread_nibbles),
    "b6x16_p32": (12, _spread_six_bits),
}
"""Bytes of a row that hold its 16 elements, the rest being padding, and how they spread to bytes."""


def _matrix_form(c: Context) -> tuple[str, int, bool]:
    """(space, matrices, transposed) of an ldmatrix or stmatrix with rows of 16 bytes."""
    modifiers = c.modifiers
    modifiers.flag("sync", "aligned", "m8n8", "b16")
    count = int(modifiers.pick("x1", "x2", "x4")[1:])
    transposed = modifiers.flag("trans")
    space = take_space(modifiers)
    modifiers.done()
    c.translation.shared_widths.add(4)
    return space, count, transposed


def _rows(m: State, c: Context, space: str, count: int, address: Array) -> tuple[Lanes, Array]:
    """(the lanes that give row addresses, offsets [warps · count · 8] of the rows in shared storage).

    Lanes 8i..8i+7 of a warp address the rows of matrix i.
    """
    lanes = m.lanes
    if count == 4:
        givers = lanes
    else:
        givers = lanes.where((lanes.ids & 31) < 8 * count)
        address = address.reshape(-1, 32)[:, : 8 * count].reshape(-1)
    m.select(givers)
    if space == GENERIC:
        kind = classify(m, address)
        if kind != SHARED:
            m.fault("unsupported address", c.instruction, 0, "matrix rows must be in shared memory")
        address = to_space(m, SHARED, address)
    return givers, shared_offset(m, c.instruction, address, _ROW_BYTES)


def ldmatrix(c: Context) -> Op:
    """ldmatrix m8n8.b16 and m8n16.b8x16: lane 4r+k of register i gets bytes 4k… of row r of matrix i."""
    c.need(2)
    packing = c.modifiers.pick(*_PACKINGS) if c.modifiers.flag("m8n16") & c.modifiers.flag("b8x16") else ""
    stored = _PACKINGS[packing][0] if packing else _ROW_BYTES
    space, count, transposed = _matrix_form(c)
    address, ins = c.address(c.operands[1]), c.instruction
    outs = [c.destination(o, "b32").index for o in c.vector(c.operands[0])]
    if len(outs) != count:
        raise ins.error(f"{count} destinations expected")
    words_of_row = 4 * np.arange(stored // 4)
    pieces = [(0, 8), (8, 4)] if stored == 12 else [(0, stored)]

    def run(m: State) -> None:
        lanes = m.lanes
        givers, offset = _rows(m, c, space, count, address(m))
        who = m.row_of[givers.index]
        for first, size in pieces:
            m.shared.read(m, ins, offset + first, size, who)
        m.select(lanes)
        words = HOST.load((m.shared.start + offset)[:, None] + words_of_row, 4)
        if packing:
            words = _PACKINGS[packing][1](words)
        matrices = words.reshape(-1, count, 8, 4)
        if transposed:
            elements = matrices.view(np.uint16).swapaxes(2, 3)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        read = m.counters.bytes_read
        read[SHARED] = read.get(SHARED, 0) + stored * len(offset)
        v, s = m.v["u32"], m.sel
        for i, index in enumerate(outs):
            v[index][s] = matrices[:, i].reshape(-1)

    return run


def stmatrix(c: Context) -> Op:
    """stmatrix.m8n8.b16: the inverse of ldmatrix."""
    c.need(2)
    space, count, transposed = _matrix_form(c)
    address, ins = c.address(c.operands[0]), c.instruction
    sources = [c.source(o, "b32").index for o in c.vector(c.operands[1])]
    if len(sources) != count:
        raise ins.error(f"{count} sources expected")

    def run(m: State) -> None:
        lanes = m.lanes
        v, s = m.v["u32"], m.sel
        matrices = np.stack([v[i][s].reshape(-1, 8, 4) for i in sources], axis=1)
        if transposed:
            elements = matrices.view(np.uint16).swapaxes(2, 3)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        rows = matrices.reshape(-1, 4)
        givers, offset = _rows(m, c, space, count, address(m))
        where = m.shared.start + offset

        def same() -> Array:
            return np.asarray(np.all([HOST.load(where + 4 * i, 4) == rows[:, i] for i in range(4)], axis=0))

        def put() -> None:
            for i in range(4):
                HOST.store(where + 4 * i, rows[:, i], 4)

        m.shared.write(m, ins, offset, _ROW_BYTES, m.row_of[givers.index], same, put)
        m.select(lanes)
        m.scheduler.idle = 0
        written = m.counters.bytes_written
        written[SHARED] = written.get(SHARED, 0) + _ROW_BYTES * len(offset)

    return run


def movmatrix(c: Context) -> Op:
    """movmatrix.trans.m8n8.b16: an 8×8 transpose across a warp."""
    c.need(2)
    c.modifiers.flag("sync", "aligned", "trans", "m8n8", "b16")
    c.modifiers.done()
    c.translation.sync_masks[c.position] = None
    d, a = c.destination(c.operands[0], "b32").index, c.source(c.operands[1], "b32").index

    def run(m: State) -> None:
        v, s = m.v["u32"], m.sel
        elements = np.ascontiguousarray(v[a][s]).view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)
        v[d][s] = np.ascontiguousarray(elements).view(np.uint32).reshape(-1)

    return run


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"ldmatrix": ldmatrix, "stmatrix": stmatrix, "movmatrix": movmatrix},
}
