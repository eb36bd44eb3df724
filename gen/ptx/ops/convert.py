"""cvt: scalar and packed conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import DTYPES, VIEWS, Array
from gen.ptx.numerics import convert as numerics
from gen.ptx.ops.emit import emit
from gen.ptx.syntax import Name, Operand
from gen.ptx.translation import Slot

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.translation import Op

_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "rs")
_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_PACKED = ("e4m3x2", "e5m2x2", "e3m2x2", "e2m3x2", "e2m1x2", "ue8m0x2", "f16x2", "bf16x2")


def _register_view(c: Context, operand: Operand, kind: str, *, write: bool = False) -> Slot:
    """A register that may be wider than an integer type, as a view of the type's signedness."""
    slot = c.register(operand, write=write)
    if slot is None:
        wide = {"u8": "u16", "s8": "s16", "b8": "b16"}.get(kind, kind)
        return c.source(operand, wide)
    if kind in _INTEGERS:
        view = ("s" if kind[0] == "s" else "u") + slot.view[1:]
        return Slot(view, slot.index)
    return c.source(operand, kind)


def cvt(c: Context) -> Op:
    """cvt of one value, or of two packed ones."""
    rounding = c.modifiers.pick(*_ROUNDINGS) or None
    flags: dict[str, Any] = {
        name: True for name in ("ftz", "sat", "satfinite", "relu") if c.modifiers.flag(name)
    }
    kinds = c.modifiers.types()
    if rounding == "rs" or len(kinds) != 2:
        raise c.instruction.error("this conversion is not implemented")
    c.modifiers.done()
    out, kind = kinds
    if out in _PACKED or kind in _PACKED:
        return _packed(c, out, kind, rounding, flags)
    c.need(2)
    source = _register_view(c, c.operands[1], kind)
    if out in _INTEGERS:
        destination = _register_view(c, c.operands[0], out, write=True)
        if kind in _INTEGERS and "sat" not in flags:
            return _resize(destination, out, source, kind)
    else:
        destination = c.destination(c.operands[0], out)
    if kind == "f32" and out == "tf32" and rounding is None:
        rounding = "rna"
    function: Callable[..., Array] = partial(
        numerics.convert, dst_type=out, src_type=kind, rounding=rounding, **flags
    )
    if kind in _INTEGERS:
        narrow = DTYPES[kind]
        return emit(lambda a: function(a.astype(narrow)), destination, source)
    return emit(function, destination, source)


def _resize(destination: Slot, out: str, source: Slot, kind: str) -> Op:
    """Integer to integer without saturation: truncate to the narrower type, extend by the source's sign."""
    narrow, last = DTYPES[kind], DTYPES[out]
    if out[0] == kind[0] and int(source.view[1:]) == int(kind[1:]) < int(out[1:]):
        return emit(lambda a: a, destination, source)
    return emit(lambda a: a.astype(narrow, copy=False).astype(last, copy=False), destination, source)


def _packed(c: Context, out: str, kind: str, rounding: str | None, flags: dict[str, Any]) -> Op:
    flags.pop("ftz", None)
    if len(c.operands) == 3:
        hi, lo = c.source(c.operands[1], kind), c.source(c.operands[2], kind)
        function: Callable[..., Array] = partial(
            numerics.convert_x2, out, kind, rounding=rounding or "rn", **flags
        )
        return emit(lambda a, b: function(a, b), _container(c, out, destination=True, at=0), hi, lo)
    if out in ("f16x2", "bf16x2"):
        unpack: Callable[..., Array] = partial(numerics.unpack_x2, out, kind, **flags)
        destination = _container(c, out, destination=True, at=0)
        return emit(
            lambda a: unpack(a.astype(np.uint8) if kind == "e2m1x2" else a),
            destination,
            _container(c, kind, destination=False, at=1),
        )
    if kind in ("f16x2", "bf16x2"):

        def repack(a: Any) -> Any:
            low, high = (a & np.uint32(0xFFFF)).astype(np.uint16), (a >> np.uint32(16)).astype(np.uint16)
            return numerics.convert_x2(out, kind, high, low, rounding or "rn", **flags)

        source = c.source(c.operands[1], "b32")
        return emit(repack, _container(c, out, destination=True, at=0), source)
    raise c.instruction.error("this conversion is not implemented")


def _container(c: Context, kind: str, *, destination: bool, at: int) -> Slot:
    """The register of a packed type: 32 bits for two halves, else 16 (8-bit registers are kept in 16)."""
    view = VIEWS.get(kind, "u16")
    operand = c.operands[at]
    if not isinstance(operand, Name):
        return c.source(operand, view)
    return c.destination(operand, view) if destination else c.source(operand, view)


TABLE: dict[str, Callable[[Context], Op]] = {"cvt": cvt}
