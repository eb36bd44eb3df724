"""mma, ldmatrix, stmatrix and movmatrix: whole warps at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.lanes import Lanes
from gen.ptx.numerics.mma import mma as multiply
from gen.ptx.ops.access import GENERIC, SHARED, classify, shared_offset, to_space
from gen.ptx.ops.memory import take_space
from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op

_KINDS = ("kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_ROW_BYTES = 16


def mma(c: Context) -> Op:
    """mma.sync, with and without block scaling."""
    c.need(4, 8)
    modifiers = c.modifiers
    modifiers.flag("sync", "aligned", "row", "col")
    shape = next((w for w in modifiers.left if w[0] == "m" and w[1:2].isdigit()), "")
    modifiers.flag(shape)
    kind = modifiers.pick(*_KINDS) or None
    modifiers.flag("block_scale")
    scale_vec = modifiers.pick("scale_vec::1X", "scale_vec::2X", "scale_vec::4X") or None
    satfinite = modifiers.flag("satfinite")
    types = modifiers.types()
    modifiers.done()
    if len(types) not in (4, 5) or satfinite:
        raise c.instruction.error("this form of mma is not implemented")
    d_type, a_type, b_type, c_type, *scale = types
    vectors = [[c.source(o, "b32").index for o in c.vector(v)] for v in c.operands[1:4]]
    outs = [c.destination(o, "b32").index for o in c.vector(c.operands[0])]
    options: dict[str, Any] = {"kind": kind and kind[6:], "scale_vec": scale_vec and scale_vec[11:]}
    scales: list[int] = []
    if scale:
        scales, ids = _scales(c)
        options |= {"scale_type": scale[0], "ids_a": ids[0], "ids_b": ids[1]}
        if options["scale_vec"] is None:
            options["scale_vec"] = {"mxf8f6f4": "1X", "mxf4": "2X"}.get(options["kind"])
    _try(c, shape, (a_type, b_type, c_type, d_type), vectors, options, bool(scale))

    def run(m: State) -> None:
        v, s = m.v["u32"], m.sel
        warps = m.n // 32
        a, b, acc = (np.stack([v[i][s] for i in regs]).reshape(len(regs), warps, 32) for regs in vectors)
        extra = dict(options)
        for name, index in zip(("scale_a", "scale_b"), scales, strict=False):
            extra[name] = np.ascontiguousarray(v[index][s]).reshape(warps, 32)
        result = multiply(shape, a_type, b_type, c_type, d_type, a, b, acc, **extra)
        for i, index in enumerate(outs):
            v[index][s] = result[i].reshape(-1)

    return run


def _scales(c: Context) -> tuple[list[int], list[tuple[int, int]]]:
    """Scale registers and their (byte, thread) selectors."""
    registers = [c.source(c.vector(c.operands[i])[0], "b32").index for i in (4, 6)]
    ids = []
    for i in (5, 7):
        items = c.vector(c.operands[i])
        values = [item.bits for item in items if isinstance(item, Immediate)]
        if len(values) != 2:
            raise c.instruction.error("byte-id and thread-id must be literals")
        ids.append((values[0], values[1]))
    return registers, ids


def _try(
    c: Context,
    shape: str,
    types: tuple[str, str, str, str],
    vectors: list[list[int]],
    options: dict[str, Any],
    scaled: bool,
) -> None:
    """Runs the instruction once on zeros, so that a form nobody implements is refused before a launch."""
    a, b, acc = (np.zeros((len(regs), 1, 32), np.uint32) for regs in vectors)
    extra = dict(options)
    if scaled:
        extra |= {"scale_a": np.zeros((1, 32), np.uint32), "scale_b": np.zeros((1, 32), np.uint32)}
    try:
        multiply(shape, types[0], types[1], types[2], types[3], a, b, acc, **extra)
    except (ValueError, KeyError) as error:
        raise c.instruction.error(f"this form of mma is not implemented ({error})") from error


def _matrix_form(c: Context) -> tuple[str, int, bool]:
    """(space, matrices, transposed) of an 8×8 b16 ldmatrix or stmatrix."""
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
    """ldmatrix.m8n8.b16: lane 4r+k of register i gets elements 2k, 2k+1 of row r of matrix i."""
    c.need(2)
    space, count, transposed = _matrix_form(c)
    address, ins = c.address(c.operands[1]), c.instruction
    outs = [c.destination(o, "b32").index for o in c.vector(c.operands[0])]
    if len(outs) != count:
        raise ins.error(f"{count} destinations expected")
    words_of_row = 4 * np.arange(4)

    def run(m: State) -> None:
        lanes = m.lanes
        givers, offset = _rows(m, c, space, count, address(m))
        m.shared.read(m, ins, offset, _ROW_BYTES, m.row_of[givers.index])
        m.select(lanes)
        words = HOST.load((m.shared.start + offset)[:, None] + words_of_row, 4)
        matrices = words.reshape(-1, count, 8, 4)
        if transposed:
            elements = matrices.view(np.uint16).swapaxes(2, 3)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        read = m.counters.bytes_read
        read[SHARED] = read.get(SHARED, 0) + _ROW_BYTES * len(offset)
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
    **{"mma": mma, "ldmatrix": ldmatrix, "stmatrix": stmatrix, "movmatrix": movmatrix},
}
