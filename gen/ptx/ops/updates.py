"""What atomics and reductions do to one memory word."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.numerics import float32, float64, half
from gen.ptx.ops.emit import halves, join_halves

Update = Callable[..., Array]


def _increment(old: Array, bound: Array) -> Array:
    return np.where(old >= bound, np.zeros_like(old), old + np.ones_like(old))


def _decrement(old: Array, bound: Array) -> Array:
    return np.where((old == 0) | (old > bound), bound, old - np.ones_like(old))


_UPDATES: dict[str, Any] = {
    **{"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or},
    **{"xor": np.bitwise_xor, "exch": lambda old, b: b, "cas": lambda old, b, c: np.where(old == b, c, old)},
    **{"inc": _increment, "dec": _decrement},
}
OPERATIONS = tuple(_UPDATES)
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def update_of(name: str, kind: str, *, ftz: bool = False) -> Update:
    """The new value of a word of PTX type `kind` from (old, operands…). Raises KeyError for unknown names.

    16-bit floats are raw bits (uint16, or uint32 for the x2 types); the other types are their NumPy dtypes.
    ftz: f32 additions flush subnormals, as those of `atom` and `red` on global memory do (PTX ISA, `atom`).
    """
    if name == "add" and kind == "f32":
        return partial(float32.add, ftz=ftz)
    if name == "add" and kind == "f64":
        return lambda old, b: float64.add(b, old)  # the memory's NaN before the operand's
    if kind not in _HALVES:
        update: Update = _UPDATES[name]
        return update
    one = partial(half.arith, {"add": "add", "min": "min", "max": "max"}[name], kind.removesuffix("x2"))
    if not kind.endswith("x2"):
        return one

    def both(old: Array, b: Array) -> Array:
        x, y = halves(old), halves(b)
        return join_halves(one(x[0], y[0]), one(x[1], y[1]))

    return both
