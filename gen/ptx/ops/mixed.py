"""add, sub and fma of f16 or bf16 sources into f32 (PTX ISA, Mixed Precision Floating Point Instructions)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gen.ptx.arrays import Array
from gen.ptx.numerics import float32
from gen.ptx.numerics.formats import decode
from gen.ptx.ops.emit import emit

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.translation import Op

NARROW = ("f16", "bf16")
_FUNCTIONS: dict[str, Callable[..., Array]] = {"add": float32.add, "sub": float32.sub, "fma": float32.fma}


def is_mixed(c: Context) -> bool:
    """Whether the types are .f32.f16 or .f32.bf16 of one of these instructions."""
    first, *rest = [name for name in c.modifiers.left if name in ("f32", *NARROW)] or [""]
    return first == "f32" and len(rest) == 1 and c.instruction.opcode in _FUNCTIONS


def mixed(c: Context) -> Op:
    """{add, sub}{.rnd}{.sat}.f32.atype d, a, c and fma.rnd{.sat}.f32.atype d, a, b, c.

    All sources but the last are of `atype`; they widen exactly, and the result is rounded once.
    """
    _, kind = c.modifiers.types()
    rounding = c.modifiers.pick("rn", "rz", "rm", "rp", default="rn")
    function = partial(_FUNCTIONS[c.instruction.opcode], rounding=rounding, sat=c.modifiers.flag("sat"))
    destination = c.destination(c.operands[0], "f32")
    c.modifiers.done()
    *narrow, last = c.operands[1:]

    def apply(*operands: Array) -> Array:
        return function(*(decode(a, kind) for a in operands[:-1]), operands[-1])

    return emit(apply, destination, *(c.source(o, kind) for o in narrow), c.source(last, "f32"))
