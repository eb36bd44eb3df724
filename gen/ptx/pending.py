"""Global memory that bulk stores in flight are about to change."""

from __future__ import annotations

import numpy as np

from gen.ptx.arrays import Array


class PendingWrite:
    """The bytes a bulk store will write: runs of `size` bytes at `addresses`.

    `reduces`: it adds to them (or the like) atomically, so that other atomics may interleave.
    """

    def __init__(self, addresses: Array, size: int, *, reduces: bool) -> None:
        self.starts = np.sort(addresses.reshape(-1))
        self.size, self.reduces = size, reduces

    def overlap(self, address: Array, size: int) -> Array:
        """Bool array: which accesses of `size` bytes touch any of the bytes."""
        if not len(self.starts):
            return np.zeros(len(address), bool)
        if int(address.max()) + size <= self.starts[0] or int(address.min()) >= self.starts[-1] + self.size:
            return np.zeros(len(address), bool)
        last = np.searchsorted(self.starts, address + (size - 1), "right") - 1
        return np.asarray((last >= 0) & (self.starts[np.maximum(last, 0)] + self.size > address))
