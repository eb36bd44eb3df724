"""Tensor maps: what `cuTensorMapEncodeTiled` takes, with its checks, as a launch argument.

Sizes, boxes and coordinates are innermost dimension first, as in CUDA, so they run against `array.shape`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.errors import PtxError
from gen.ptx.memory import Undefined
from gen.ptx.spans import span_of

MAP_BYTES = 128
UNIT = 16  # bytes that stay together in shared memory, whatever the swizzle
_MAGIC = int.from_bytes(b"TensrMap", "little")
_SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_BOX_LIMIT = 256
_STRIDE_LIMIT = 8
_SIZE_LIMIT = 1 << 32
_PITCH_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Packing:
    """`count` elements that lie in `stored` bytes of global and `spread` bytes of shared memory."""

    count: int
    stored: int
    spread: int


_PACKINGS = {
    "b4x16": Packing(2, 1, 1),
    "b4x16_p64": Packing(16, 8, 16),
    "b6x16_p32": Packing(16, 12, 16),
}
_NANS = {
    "float16": 0x7FF7,
    "bfloat16": 0x7FF7,
    "float32": 0x7FF77FF7,
    "float64": 0x7FF77FF77FF77FF7,
}
"""What the copy engine of sm_90 fills floating-point elements with: 0x7FF7 in every 16 bits."""


class TensorMap:
    """A launch argument for a `CUtensorMap` parameter (or a pointer to one), of tile mode, interleave none.

    array: NumPy array or CPU torch tensor of rank 1 to 5, contiguous in its last dimension, or an
    `Undefined` one. box: elements of a copy along each dimension, innermost first. element_strides:
    every how many elements of the box one is copied (that of dimension 0 is ignored, as the hardware does).
    swizzle: "none", "32B", "64B" or "128B". fill: what elements out of bounds read as, "zeros" or "nan".
    elements: "b4x16", "b4x16_p64" or "b6x16_p32" where the array holds packed 4- or 6-bit elements in
    bytes; the padded kinds give every 16 elements 16 bytes of shared memory.
    Raises `PtxError` for what the driver would refuse.
    """

    def __init__(
        self,
        array: Any,
        *,
        box: Sequence[int],
        element_strides: Sequence[int] | None = None,
        swizzle: str = "none",
        fill: str = "zeros",
        elements: str | None = None,
        interleave: str = "none",
    ) -> None:
        self.array = array
        plain = array.array if isinstance(array, Undefined) else array
        self.span = span_of(plain)
        self.kind = str(plain.dtype).removeprefix("torch.")
        itemsize = self.span.itemsize
        if elements is None:
            self.packing = Packing(1, itemsize, itemsize)
        elif elements in _PACKINGS and itemsize == 1:
            self.packing = _PACKINGS[elements]
            self.kind = elements
        else:
            raise PtxError(f"TensorMap: elements={elements!r} must be one of {list(_PACKINGS)}, of bytes")
        _one_of("swizzle", swizzle, _SPANS)
        _one_of("fill", fill, ("zeros", "nan"))
        _one_of("interleave", interleave, ("none",))
        p = self.packing
        shape = [int(n) for n in self.span.shape[::-1]]
        self.rank = len(shape)
        self.sizes = (shape[0] * itemsize * p.count // p.stored, *shape[1:]) if shape else ()
        self.strides = tuple(int(s) for s in self.span.strides[::-1])
        self.box = tuple(int(n) for n in box)
        given = [1] * self.rank if element_strides is None else [int(s) for s in element_strides]
        self.swizzle, self.fill = _SPANS[swizzle], fill
        self._check(given)
        self.steps = (1, *given[1:])
        self.extents = tuple(-(-n // s) for n, s in zip(self.box, self.steps, strict=True))
        self.row_bytes = self.box[0] // p.count * p.spread
        self.bytes = self.row_bytes * math.prod(self.extents[1:])
        # Padding does not count (CUTLASS, sm120_blockscaled_mma_tma.hpp: TmaTransactionBytes).
        self.transaction_bytes = self.bytes // self.packing.spread * self.packing.stored

    def _check(self, element_strides: list[int]) -> None:
        """The driver's rules. Raises `PtxError`."""
        p, aligned = self.packing, 32 if self.packing.spread > self.packing.stored else 16
        if not 1 <= self.rank <= 5:
            raise PtxError(f"TensorMap: an array of rank {self.rank}; tensor maps have 1 to 5 dimensions")
        if len(self.box) != self.rank or len(element_strides) != self.rank:
            raise PtxError(
                f"TensorMap: box {self.box} and element strides {tuple(element_strides)} must have one entry "
                f"for each of {self.rank} dimensions, innermost first"
            )
        if not all(0 < n <= _SIZE_LIMIT for n in self.sizes):
            raise PtxError(f"TensorMap: sizes {self.sizes} must be from 1 to 2^32")
        if self.strides[0] != self.span.itemsize:
            raise PtxError("TensorMap: the last dimension of the array must be contiguous")
        if self.span.pointer % aligned:
            raise PtxError(
                f"TensorMap: the array starts at {self.span.pointer:#x}, which is not a multiple of "
                f"{aligned} bytes"
            )
        for i, (stride, size) in enumerate(zip(self.strides[1:], self.sizes[1:], strict=True), 1):
            if stride % aligned or not (0 < stride < _PITCH_LIMIT or size == 1):
                raise PtxError(
                    f"TensorMap: dimension {i} has a stride of {stride} bytes; it must be positive, below "
                    f"2^40 and a multiple of {aligned}: pad the rows of the array"
                )
        if not all(1 <= n <= _BOX_LIMIT for n in self.box):
            raise PtxError(f"TensorMap: box {self.box} must have 1 to {_BOX_LIMIT} elements a dimension")
        if not all(1 <= s <= _STRIDE_LIMIT for s in element_strides):
            raise PtxError(
                f"TensorMap: element strides {tuple(element_strides)} must be 1 to {_STRIDE_LIMIT}"
            )
        if p.spread > p.stored and (self.sizes[0] % 128 or self.box[0] != 128):
            raise PtxError(
                f"TensorMap: padded {self.kind} needs a box of 128 elements and sizes of a multiple of 128 "
                f"along dimension 0, not {self.box[0]} and {self.sizes[0]}"
            )
        inner = self.box[0] * p.spread // p.count
        if inner % UNIT or self.box[0] % p.count:
            raise PtxError(
                f"TensorMap: {self.box[0]} elements are {inner} bytes along dimension 0 of the box, "
                f"which must be a multiple of {UNIT}"
            )
        if self.swizzle and inner > self.swizzle:
            raise PtxError(
                f"TensorMap: {inner} bytes along dimension 0 of the box exceed the {self.swizzle}B swizzle"
            )
        if self.fill == "nan" and self.kind not in _NANS:
            raise PtxError(f"TensorMap: fill='nan' needs a floating-point type, not {self.kind}")

    @property
    def alignment(self) -> int:
        """Elements that the coordinate along dimension 0 is a multiple of: 16 bytes, as measured on sm_90."""
        p = self.packing
        if p.count == 1:
            return max(UNIT // p.stored, 1)
        return 128 if p.spread > p.stored else p.count

    def handle(self, number: int) -> bytes:
        """The 128 bytes that stand for the `number`-th map of a launch."""
        return np.array([_MAGIC, number] + [0] * 14, np.uint64).tobytes()

    def out_of_bounds(self) -> Array:
        """The `spread` bytes of an element out of bounds, uint8."""
        value = _NANS[self.kind] if self.fill == "nan" else 0
        return np.frombuffer(value.to_bytes(self.packing.spread, "little"), np.uint8)

    def walk(self, start: Sequence[int], *, words: bool = True) -> tuple[Array, Array, int]:
        """Global addresses of a box in the order of shared memory.

        start: coordinates of the box's first element, of any sign. words: go in 8-byte steps, not by
        elements, where whole rows allow it. Returns (addresses int64 [rows, steps], which of them are in
        bounds, bytes of a step).
        """
        p = self.packing
        rows = np.full(1, self.span.pointer, np.int64)
        inside = np.ones(1, bool)
        for i in range(1, self.rank):
            at = start[i] + self.steps[i] * np.arange(self.extents[i], dtype=np.int64)
            within = (at >= 0) & (at < self.sizes[i])
            rows = (rows + (at * self.strides[i])[:, None]).reshape(-1)
            inside = (inside & within[:, None]).reshape(-1)
        first, count, size = start[0], self.box[0] // p.count, p.stored
        groups = first + p.count * np.arange(count, dtype=np.int64)
        columns = first // p.count * size + size * np.arange(count, dtype=np.int64)
        within = (groups >= 0) & (groups <= self.sizes[0] - p.count)
        if words and p.stored == p.spread and within.all() and columns[0] % 8 == 0:
            columns, size = columns[0] + np.arange(0, self.row_bytes, 8), 8
            within = np.ones(len(columns), bool)
        return rows[:, None] + columns, inside[:, None] & within, size

    def place(self, address: int) -> Array:
        """Shared-space addresses of the box's 16-byte units, in order, for a box that is put at `address`."""
        pitch = max(self.row_bytes, self.swizzle)  # swizzled rows are as long as the swizzle spans
        rows = address + pitch * np.arange(self.bytes // self.row_bytes, dtype=np.int64)
        unit = (rows[:, None] + np.arange(0, self.row_bytes, UNIT)).reshape(-1)
        if self.swizzle:
            unit ^= (unit >> 7 & (self.swizzle // UNIT - 1)) << 4
        return unit


def read_handle(words: Array) -> int | None:
    """The number that `TensorMap.handle` put into 128 bytes (uint64 [16]), or None for other bytes."""
    return int(words[1]) if int(words[0]) == _MAGIC else None


def _one_of(what: str, value: str, known: Any) -> None:
    if value not in known:
        raise PtxError(f"TensorMap: {what}={value!r} is not one of {list(known)}")
