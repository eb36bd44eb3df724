"""Arguments of the catalogue's kernels."""

from __future__ import annotations

import numpy as np


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 16 bytes, as cudaMalloc gives."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    out = room[start : start + array.nbytes].view(array.dtype)
    out[:] = array
    return out


def floats(n: int) -> np.ndarray:
    """Zeros, float32."""
    return aligned(np.zeros(n, np.float32))


def ints(n: int) -> np.ndarray:
    """0 to n − 1, int32."""
    return aligned(np.arange(n, dtype=np.int32))


def zeros(n: int) -> np.ndarray:
    """Zeros, int32."""
    return aligned(np.zeros(n, np.int32))
