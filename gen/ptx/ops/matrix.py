"""ldmatrix, stmatrix and movmatrix: matrices with rows of 16 bytes across the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Form:
    """What the modifiers of an ldmatrix or stmatrix say: `rows` is the rows of memory a matrix has."""

    space: str
    count: int
    rows: int
    element: int
    transposed: bool
    packing: str = ""

    @property
    def registers(self) -> int:
        """Registers of a lane: one holds four bytes of eight rows' worth."""
        return self.count * self.rows // 8


def _form(c: Context, store: bool) -> _Form:
    """The forms that PTX has: m8n8.b16; ldmatrix m8n16, unpacked to bytes, and m16n16; stmatrix m16n8."""
    modifiers = c.modifiers
    modifiers.flag("sync", "aligned")
    shape = modifiers.pick("m8n8", "m16n8") if store else modifiers.pick("m8n8", "m8n16", "m16n16")
    count = int(modifiers.pick("x1", "x2", "x4")[1:])
    transposed = modifiers.flag("trans")
    space = take_space(modifiers)
    packing = ""
    if shape == "m8n8":
        modifiers.flag("b16")
    elif shape == "m8n16" or not modifiers.flag("b8"):
        modifiers.flag("b8x16")
        packing = modifiers.pick(*_PACKINGS)
    modifiers.done()
    whole = shape in ("m8n8", "m8n16")
    if not (transposed or whole) or (transposed and shape == "m8n16") or (shape == "m16n16" and count == 4):
        raise c.instruction.error(f"{shape} has no such form")
    c.translation.shared_widths.add(4)
    return _Form(space, count, 8 if store or whole else 16, 2 if shape == "m8n8" else 1, transposed, packing)


def _rows(m: State, c: Context, form: _Form, address: Array) -> tuple[Lanes, Array]:
    """(the lanes that give row addresses, offsets [warps · count · rows] of the rows in shared storage).

    The first lanes of a warp address the rows of matrix 0, the next those of matrix 1, and so on.
    """
    lanes, needed = m.lanes, form.count * form.rows
    if needed == 32:
        givers = lanes
    else:
        givers = lanes.where((lanes.ids & 31) < needed)
        address = address.reshape(-1, 32)[:, :needed].reshape(-1)
    m.select(givers)
    if form.space == GENERIC:
        kind = classify(m, address)
        if kind != SHARED:
            m.fault("unsupported address", c.instruction, 0, "matrix rows must be in shared memory")
        address = to_space(m, SHARED, address)
    return givers, shared_offset(m, c.instruction, address, _ROW_BYTES)


def ldmatrix(c: Context) -> Op:
    """ldmatrix: lane 4r+k gets bytes 4k… of row r of each matrix; transposed, of column r.

    A transposed 16×16 matrix of bytes takes two registers, the second for columns 8 to 15.
    """
    c.need(2)
    form = _form(c, store=False)
    stored = _PACKINGS[form.packing][0] if form.packing else _ROW_BYTES
    address, ins = c.address(c.operands[1]), c.instruction
    outs = [c.destination(o, "b32").index for o in c.vector(c.operands[0])]
    if len(outs) != form.registers:
        raise ins.error(f"{form.registers} destinations expected")
    words_of_row = 4 * np.arange(stored // 4)
    pieces = [(0, 8), (8, 4)] if stored == 12 else [(0, stored)]

    def run(m: State) -> None:
        lanes = m.lanes
        givers, offset = _rows(m, c, form, address(m))
        who = m.row_of[givers.index]
        for first, size in pieces:
            m.shared.read(m, ins, offset + first, size, who)
        m.select(lanes)
        words = HOST.load((m.shared.start + offset)[:, None] + words_of_row, 4)
        if form.packing:
            words = _PACKINGS[form.packing][1](words)
        matrices = words.reshape(-1, form.count, form.rows, 4)
        if form.transposed:
            elements = matrices.view(np.uint16 if form.element == 2 else np.uint8).swapaxes(2, 3)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        registers = matrices.reshape(-1, form.registers, 32)
        read = m.counters.bytes_read
        read[SHARED] = read.get(SHARED, 0) + stored * len(offset)
        v, s = m.v["u32"], m.sel
        for i, index in enumerate(outs):
            v[index][s] = registers[:, i].reshape(-1)

    return run


def stmatrix(c: Context) -> Op:
    """stmatrix: m8n8.b16 is the inverse of ldmatrix.

    m16n8.b8 stores the transpose of a 16×8 matrix of bytes that lies in registers as an mma accumulator does:
    lane 4g+l holds rows g and g+8, columns 2l and 2l+1 (CUTLASS `copy_traits_sm100.hpp`, SM100_U8x4_STSM_T).
    """
    c.need(2)
    form = _form(c, store=True)
    address, ins = c.address(c.operands[0]), c.instruction
    sources = [c.source(o, "b32").index for o in c.vector(c.operands[1])]
    if len(sources) != form.count:
        raise ins.error(f"{form.count} sources expected")

    def run(m: State) -> None:
        lanes = m.lanes
        v, s = m.v["u32"], m.sel
        matrices = np.stack([v[i][s].reshape(-1, 8, 4) for i in sources], axis=1)
        if form.element == 1:
            halves = matrices.view(np.uint8).reshape(-1, form.count, 8, 4, 2, 2)  # [g, l, row half, column]
            elements = halves.transpose(0, 1, 3, 5, 4, 2)
            matrices = np.ascontiguousarray(elements).reshape(-1, form.count, 8, 16).view(np.uint32)
        elif form.transposed:
            pairs = matrices.view(np.uint16).swapaxes(2, 3)
            matrices = np.ascontiguousarray(pairs).view(np.uint32)
        rows = matrices.reshape(-1, 4)
        givers, offset = _rows(m, c, form, address(m))
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
