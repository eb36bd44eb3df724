"""NumPy types used throughout, and all of this process's memory as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

VIEWS = {
    **{kind: kind for kind in ("pred", "u16", "s16", "u32", "s32", "f32", "u64", "s64", "f64")},
    **{"b16": "u16", "f16": "u16", "bf16": "u16"},
    **{"b32": "u32", "f16x2": "u32", "bf16x2": "u32", "tf32": "u32"},
    **{"b64": "u64", "f32x2": "u64"},
}
"""The view of a register that holds a PTX type; 16-bit floats and packed types are kept as raw bits."""

DTYPES: dict[str, Any] = {
    "pred": np.bool_,
    **{f"u{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f32": np.float32,
    "f64": np.float64,
}

VIEW_BYTES = {"pred": 1, "u16": 2, "s16": 2, "u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}

_FIRST = 4096  # an array at address 0 would be taken for a missing one


class _Everything:
    def __init__(self, width: int) -> None:
        self.__array_interface__ = {
            "data": (_FIRST, False),
            "shape": ((1 << 47) // width,),
            "typestr": f"<u{width}",
            "version": 3,
        }


def _everything(width: int) -> Array:
    return np.asarray(_Everything(width))


class HostMemory:
    """The process's address space, read and written by address. Callers check every address first."""

    def __init__(self) -> None:
        self._words = {width: _everything(width) for width in (1, 2, 4, 8)}

    def load(self, address: Array, width: int, out: Array | None = None) -> Array:
        """Unsigned words of `width` bytes at int64 addresses that are multiples of it."""
        index = (address - _FIRST) >> (width.bit_length() - 1)
        return np.take(self._words[width], index, out=out, mode="wrap")

    def store(self, address: Array, values: Array, width: int) -> None:
        """Writes unsigned words; of several for one address the last stays."""
        self._words[width][(address - _FIRST) >> (width.bit_length() - 1)] = values


HOST = HostMemory()
