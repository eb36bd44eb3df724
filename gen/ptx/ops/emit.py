"""Closures that compute a register from registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import Array

if TYPE_CHECKING:
    from gen.ptx.state import State
    from gen.ptx.translation import Op, Slot


def emit(function: Callable[..., Any], destination: Slot, *sources: Slot) -> Op:
    """`destination = function(*sources)` for the current lanes; ufuncs write in place if those are dense."""
    d, k = destination.view, destination.index
    if len(sources) == 1:
        return _unary(function, d, k, sources[0])
    if len(sources) == 2:
        return _binary(function, d, k, sources[0], sources[1])
    if len(sources) == 3:
        (a, i), (b, j), (c, h) = ((s.view, s.index) for s in sources)

        def ternary(m: State) -> None:
            v, s = m.v, m.sel
            v[d][k][s] = function(v[a][i][s], v[b][j][s], v[c][h][s])

        return ternary
    pairs = [(s.view, s.index) for s in sources]

    def many(m: State) -> None:
        v, s = m.v, m.sel
        v[d][k][s] = function(*(v[a][i][s] for a, i in pairs))

    return many


def _unary(function: Callable[..., Any], d: str, k: int, source: Slot) -> Op:
    a, i = source.view, source.index

    def unary(m: State) -> None:
        v, s = m.v, m.sel
        v[d][k][s] = function(v[a][i][s])

    return unary


def _binary(function: Callable[..., Any], d: str, k: int, x: Slot, y: Slot) -> Op:
    (a, i), (b, j) = (x.view, x.index), (y.view, y.index)
    if isinstance(function, np.ufunc):
        ufunc = function

        def in_place(m: State) -> None:
            v, s = m.v, m.sel
            if type(s) is slice:
                ufunc(v[a][i][s], v[b][j][s], out=v[d][k][s])
            else:
                v[d][k][s] = ufunc(v[a][i][s], v[b][j][s])

        return in_place

    def binary(m: State) -> None:
        v, s = m.v, m.sel
        v[d][k][s] = function(v[a][i][s], v[b][j][s])

    return binary


def copy(destination: Slot, source: Slot) -> Op:
    """`destination = source`, converting by NumPy's rules where the views differ."""
    d, k, a, i = destination.view, destination.index, source.view, source.index

    def run(m: State) -> None:
        s = m.sel
        m.v[d][k][s] = m.v[a][i][s]

    return run


def nothing(m: State) -> None:
    """An instruction without effect here, such as a prefetch."""


def halves(a: Array) -> tuple[Array, Array]:
    """(low, high) 16-bit halves of 32-bit words."""
    return a.astype(np.uint16), (a >> np.uint32(16)).astype(np.uint16)


def join_halves(low: Array, high: Array) -> Array:
    """32-bit words of two 16-bit halves."""
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


def as_pairs(a: Array) -> Array:
    """64-bit words as f32, two an element."""
    return np.ascontiguousarray(a).view(np.float32)
