"""Special registers that are constant while a thread runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gen.ptx.arrays import Array

if TYPE_CHECKING:
    from gen.ptx.state import State

_ALL = 0xFFFFFFFF


def _lane(m: State) -> Array:
    return m.thread_of & 31


def _axis(number: Array, sizes: tuple[int, int, int], axis: int) -> Array:
    """Coordinate of linear numbers along an axis."""
    below = (1, sizes[0], sizes[0] * sizes[1])[axis]
    return number // below if axis == 2 else number // below % sizes[axis]


_PLAIN: dict[str, Callable[[State], Array | int]] = {
    "%laneid": _lane,
    "%warpid": lambda m: m.thread_of >> 5,
    "%nwarpid": lambda m: m.warps,
    "%smid": lambda m: 0,
    "%nsmid": lambda m: 1,
    "%gridid": lambda m: 0,
    "%cluster_ctarank": lambda m: 0,
    "%cluster_nctarank": lambda m: 1,
    "%is_explicit_cluster": lambda m: 0,
    "%lanemask_eq": lambda m: 1 << _lane(m),
    "%lanemask_lt": lambda m: (1 << _lane(m)) - 1,
    "%lanemask_le": lambda m: (2 << _lane(m)) - 1,
    "%lanemask_gt": lambda m: _ALL & ~((2 << _lane(m)) - 1),
    "%lanemask_ge": lambda m: _ALL & ~((1 << _lane(m)) - 1),
    "%dynamic_smem_size": lambda m: m.dynamic_shared_bytes,
    "%total_smem_size": lambda m: m.shared_size,
    "%aggr_smem_size": lambda m: m.shared_size,
}

_BY_AXIS: dict[str, Callable[[State, int], Array | int]] = {
    "%tid": lambda m, axis: _axis(m.thread_of, m.block, axis),
    "%ctaid": lambda m, axis: _axis(m.first_block + m.block_of, m.grid, axis),
    "%clusterid": lambda m, axis: _axis(m.first_block + m.block_of, m.grid, axis),
    "%ntid": lambda m, axis: m.block[axis],
    "%nctaid": lambda m, axis: m.grid[axis],
    "%nclusterid": lambda m, axis: m.grid[axis],
    "%cluster_ctaid": lambda m, axis: 0,
    "%cluster_nctaid": lambda m, axis: 1,
}

NAMES = frozenset(_PLAIN) | {f"{name}.{axis}" for name in _BY_AXIS for axis in "xyz"}


def value(name: str, m: State) -> Array | int:
    """Value of one of `NAMES`: an array over all lanes, or one number for all."""
    if name in _PLAIN:
        return _PLAIN[name](m)
    base, axis = name.split(".")
    return _BY_AXIS[base](m, "xyz".index(axis))
