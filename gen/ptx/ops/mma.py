"""mma.sync: matrix products of whole warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.numerics.mma import mma as multiply
from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op

_KINDS = ("kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")


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
    if len(types) not in (4, 5) or (satfinite and types[0] != "s32"):
        raise c.instruction.error("this form of mma is not implemented")
    d_type, a_type, b_type, c_type, *scale = types
    vectors = [[c.source(o, "b32").index for o in c.vector(v)] for v in c.operands[1:4]]
    outs = [c.destination(o, "b32").index for o in c.vector(c.operands[0])]
    options: dict[str, Any] = {"kind": kind and kind[6:], "scale_vec": scale_vec and scale_vec[11:]}
    options["satfinite"] = satfinite
    scales = [c.source(c.vector(c.operands[i])[0], "b32").index for i in (4, 6)] if scale else []
    selectors = _selectors(c) if scale else {}
    if scale:
        options["scale_type"] = scale[0]
        if isinstance(selectors, dict):
            options |= selectors
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
        if not isinstance(selectors, dict):
            extra |= selectors(m)
        try:
            result = multiply(shape, a_type, b_type, c_type, d_type, a, b, acc, **extra)
        except ValueError as error:
            m.fault("selector", c.instruction, 0, str(error))
        for i, index in enumerate(outs):
            v[index][s] = result[i].reshape(-1)

    return run


Selectors = dict[str, tuple[int, int]]


def _selectors(c: Context) -> Selectors | Callable[[State], Selectors]:
    """(byte-id, thread-id) of A's scales and of B's: literals, or 16-bit registers equal in all threads."""
    items = [*c.vector(c.operands[5]), *c.vector(c.operands[7])]
    if len(items) != 4:
        raise c.instruction.error("byte-id and thread-id are two operands in braces")
    literals = [item.bits for item in items if isinstance(item, Immediate)]
    if len(literals) == 4:
        return _named(literals)
    sources = [c.source(item, "u16") for item in items]

    def selectors(m: State) -> Selectors:
        values = np.stack([m.v[source.view][source.index][m.sel] for source in sources])
        differs = (values != values[:, :1]).any(0)
        if differs.any():
            k = int(np.flatnonzero(differs)[0])
            m.fault("selector", c.instruction, k, "byte-id and thread-id must be the same in all threads")
        return _named(values[:, 0].tolist())

    return selectors


def _named(ids: list[int]) -> Selectors:
    return {"ids_a": (ids[0], ids[1]), "ids_b": (ids[2], ids[3])}


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


TABLE: dict[str, Callable[[Context], Op]] = {"mma": mma}
