"""mov, cvta, isspacep and other copies between registers and of addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import DTYPES, VIEWS, Array
from gen.ptx.ops.emit import copy
from gen.ptx.syntax import Address, Name, Operand, Vector

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op, Slot

_CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def mov(c: Context) -> Op:
    """mov of a value, a special register or an address, and packing and unpacking of vectors."""
    c.need(2)
    kind = c.modifiers.type()
    c.modifiers.done()
    target, origin = c.operands
    if isinstance(target, Vector):
        return _unpack(c, kind, target, origin)
    if isinstance(origin, Vector):
        return _pack(c, kind, target, origin)
    if isinstance(origin, Address) and origin.base:
        base = c.variable_address(origin.base.text)
        if base is None:
            raise c.instruction.error(f"{origin.base.text} is not a variable")
        view = c.destination(target, kind).view
        return copy(c.destination(target, kind), c.constant(base + origin.offset, view))
    if isinstance(origin, Name) and origin.text in _CLOCKS:
        return _clock(c.destination(target, kind), origin.text)
    return copy(c.destination(target, kind), c.source(origin, kind))


def _clock(destination: Slot, name: str) -> Op:
    view, index = destination.view, destination.index
    bits, high = int(view[1:]), name.endswith("_hi")

    def run(m: State) -> None:
        now = m.clock() >> 32 if high else m.clock()
        m.v[view][index][m.sel] = DTYPES[view].type(now & ((1 << bits) - 1))

    return run


def _part_width(c: Context, kind: str, vector: Vector) -> int:
    width = int(kind[1:]) // len(vector.items)
    if width not in (8, 16, 32, 64):
        raise c.instruction.error("this size of vector parts is not implemented")
    return width


def _part_kind(width: int) -> str:
    """The register type of a part; 8-bit registers are kept in 16 bits."""
    return f"b{max(width, 16)}"


def _unpack(c: Context, kind: str, target: Vector, origin: Operand) -> Op:
    width = _part_width(c, kind, target)
    part = DTYPES[f"u{width}"]
    source = c.source(origin, "b" + kind[1:])
    outs = [
        (i, c.destination(item, _part_kind(width)).index)
        for i, item in enumerate(target.items)
        if not (isinstance(item, Name) and item.text == "_")
    ]
    view, index, whole = source.view, source.index, DTYPES[source.view].type
    out_view = VIEWS[_part_kind(width)]

    def run(m: State) -> None:
        s = m.sel
        value = m.v[view][index][s]
        for i, out in outs:
            m.v[out_view][out][s] = (value >> whole(i * width) if i else value).astype(part)

    return run


def _pack(c: Context, kind: str, target: Operand, origin: Vector) -> Op:
    width = _part_width(c, kind, origin)
    destination = c.destination(target, "b" + kind[1:])
    parts = [c.source(item, _part_kind(width)) for item in origin.items]
    view, whole = destination.view, DTYPES[destination.view]
    part = DTYPES[f"u{width}"]

    def run(m: State) -> None:
        v, s = m.v, m.sel
        value: Array = v[parts[0].view][parts[0].index][s].astype(part, copy=False).astype(whole)
        for i, p in enumerate(parts[1:], 1):
            value |= v[p.view][p.index][s].astype(part, copy=False).astype(whole) << whole.type(i * width)
        v[view][destination.index][s] = value

    return run


def cvta(c: Context) -> Op:
    """cvta and cvta.to: generic addresses are host addresses, shared and local ones offsets."""
    c.need(2)
    to = c.modifiers.flag("to")
    space = c.modifiers.pick("global", "const", "param", "shared", "shared::cta", "shared::cluster", "local")
    kind = c.modifiers.type()
    c.modifiers.done()
    destination, source = c.destination(c.operands[0], kind), c.source(c.operands[1], kind)
    if space in ("global", "const", "param"):
        return copy(destination, source)
    if kind != "u64":
        raise c.instruction.error("only 64-bit generic addresses are implemented")
    shared, d, i = space != "local", destination.index, source.index

    def run(m: State) -> None:
        s = m.sel
        base = (m.shared_base if shared else m.local_base)[s]
        address = m.v["s64"][i][s]
        m.v["s64"][d][s] = address - base if to else address + base

    return run


def is_space(c: Context) -> Op:
    """isspacep: whether a generic address is in a space."""
    c.need(2)
    space = c.modifiers.pick("global", "const", "param", "shared", "shared::cta", "shared::cluster", "local")
    c.modifiers.done()
    p, source = c.destination(c.operands[0], "pred"), c.source(c.operands[1], "u64")
    module, addresses = c.translation.program.module, c.translation.global_addresses
    nested = (v for f in module.functions.values() for v in f.variables)
    constants = [
        (addresses[v.name], addresses[v.name] + v.size)
        for v in (*module.variables.values(), *nested)
        if v.space == "const" and v.name in addresses
    ]

    def run(m: State) -> None:
        s = m.sel
        address = m.v["s64"][source.index][s]
        shared = (address >= m.shared.start) & (address < m.shared.end)
        local = (address >= m.local_start) & (address < m.local_end)
        start = m.parameters.ctypes.data
        param = (address >= start) & (address < start + m.parameters.size)
        if space.startswith("shared"):
            result = shared
        elif space == "local":
            result = local
        elif space == "param":
            result = param
        else:
            const = np.zeros(len(address), bool)
            for first, end in constants:
                const |= (address >= first) & (address < end)
            result = const if space == "const" else ~(shared | local | param | const)
        m.v["pred"][p.index][s] = result

    return run


TABLE: dict[str, Callable[[Context], Op]] = {"mov": mov, "cvta": cvta, "isspacep": is_space}
