"""dp4a and dp2a: dot products of the parts of 32-bit words (PTX ISA, "Integer Arithmetic Instructions").

Arrays are int32 or uint32 by the instruction's types; results wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[Any]


def dp4a(a: IntArray, b: IntArray, c: IntArray, *, a_signed: bool, b_signed: bool) -> IntArray:
    """c plus the dot product of four bytes, wrapping; int32, or uint32 with both operands unsigned."""
    total = np.asarray(c).astype(np.int64)
    for i in range(4):
        total = total + _extract_byte(a, i, a_signed) * _extract_byte(b, i, b_signed)
    return np.asarray(total.astype(np.int32 if a_signed or b_signed else np.uint32))


def dp2a(a: IntArray, b: IntArray, c: IntArray, *, a_signed: bool, b_signed: bool, high: bool) -> IntArray:
    """c plus the dot product of a's 16-bit halves and b's lower (or upper) two bytes, wrapping; as `dp4a`."""
    total = np.asarray(c).astype(np.int64)
    for i in range(2):
        half = (a.view(np.uint32) >> np.uint32(16 * i)).astype(np.uint16)
        wide = (half.view(np.int16) if a_signed else half).astype(np.int64)
        total = total + wide * _extract_byte(b, i + 2 * high, b_signed)
    return np.asarray(total.astype(np.int32 if a_signed or b_signed else np.uint32))


def _extract_byte(a: IntArray, index: int, signed: bool) -> npt.NDArray[np.int64]:
    byte = ((a.view(np.uint32) >> np.uint32(8 * index)) & np.uint32(0xFF)).astype(np.uint8)
    return np.asarray((byte.view(np.int8) if signed else byte).astype(np.int64))
