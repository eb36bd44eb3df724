"""Which bytes of host memory an array covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gen.ptx.errors import PtxError


@dataclass(slots=True)
class Span:
    """The bytes an array covers: `outer` (stride, count) steps of a contiguous `run` from `start`.

    `pointer` is the address of element 0, which is not the lowest one where a stride is negative.
    """

    start: int
    end: int
    run: int
    outer: list[tuple[int, int]]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    pointer: int


def span_of(array: Any) -> Span:
    """Span of a NumPy array or CPU torch tensor. Raises `PtxError` for anything else."""
    if hasattr(array, "data_ptr"):
        if array.device.type != "cpu":
            raise PtxError(f"a tensor on {array.device}: the interpreter reads host memory, pass .cpu()")
        itemsize = int(array.element_size())
        shape = tuple(int(n) for n in array.shape)
        strides = tuple(int(s) * itemsize for s in array.stride())
        start = int(array.data_ptr())
    elif isinstance(array, np.ndarray):
        itemsize, shape, strides = array.itemsize, array.shape, array.strides
        start = int(array.__array_interface__["data"][0])
    else:
        raise PtxError(
            f"an argument of type {type(array).__name__}: pass a tensor, an array, a number or None"
        )
    if 0 in shape:
        return Span(start, start, 0, [], shape, strides, itemsize, start)
    steps = [(s, n) for s, n in zip(strides, shape, strict=True) if n > 1 and s]
    pointer = start
    start += sum(s * (n - 1) for s, n in steps if s < 0)
    run = itemsize
    outer: list[tuple[int, int]] = []
    for stride, count in sorted((abs(s), n) for s, n in steps):
        if not outer and stride <= run:
            run = max(run, stride * (count - 1) + run)
        else:
            outer.append((stride, count))
    end = start + run + sum(s * (n - 1) for s, n in outer)
    return Span(start, end, run, outer[::-1], shape, strides, itemsize, pointer)
