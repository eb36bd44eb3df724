"""Integer, bit and byte instructions.

Arrays carry the instruction's type: int32 for `.s32`, uint64 for `.u64`, and unsigned for `.b32`. Results
have the type of the first operand unless said otherwise; arithmetic wraps. Source: PTX ISA, "Integer
Arithmetic Instructions", "Logic and Shift Instructions" and `prmt`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[Any]
UInt32Array = npt.NDArray[np.uint32]

_PRMT_MODES: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    # Source bytes, lowest result byte first, for selector 0..3.
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def prmt(a: UInt32Array, b: UInt32Array, selector: UInt32Array, mode: str | None = None) -> UInt32Array:
    """Bytes of {b, a} picked by selector nibbles (bit 3 replicates the byte's sign), or by a mode; uint32."""
    selector = _u32(selector)
    if mode is None and selector.size and (selector == selector.flat[0]).all():
        return _prmt_uniform(_u32(a), _u32(b), int(selector.flat[0]), selector.shape)
    source = (_u32(b).astype(np.uint64) << np.uint64(32)) | _u32(a)
    table = None if mode is None else np.array(_lookup(_PRMT_MODES, mode, "prmt mode"), dtype=np.uint64)
    d = np.zeros(np.broadcast(source, selector).shape, dtype=np.uint32)
    for i in range(4):
        control = (selector >> np.uint32(4 * i)) & np.uint32(0xF)
        byte = (
            (control & np.uint32(7)).astype(np.uint64) if table is None else table[selector & np.uint32(3), i]
        )
        picked = ((source >> (byte * np.uint64(8))) & np.uint64(0xFF)).astype(np.uint32)
        if table is None:
            sign = (picked >> np.uint32(7)) * np.uint32(0xFF)
            picked = np.where(control >= 8, sign, picked)
        d |= picked << np.uint32(8 * i)
    return d


def _prmt_uniform(a: UInt32Array, b: UInt32Array, selector: int, shape: tuple[int, ...]) -> UInt32Array:
    """`prmt` with one selector for all threads, as with an immediate."""
    d = np.zeros(np.broadcast_shapes(a.shape, b.shape, shape), dtype=np.uint32)
    for i in range(4):
        control = selector >> (4 * i)
        word = b if control & 4 else a
        byte = (word >> np.uint32(8 * (control & 3))) & np.uint32(0xFF)
        if control & 8:
            byte = (byte >> np.uint32(7)) * np.uint32(0xFF)
        d |= byte << np.uint32(8 * i)
    return d


def lop3(a: IntArray, b: IntArray, c: IntArray, lut: int) -> IntArray:
    """Bitwise function of three operands whose truth table is `lut`: bit 4a + 2b + c of it."""
    d = np.zeros_like(a & b & c)
    for minterm in range(8):
        if lut >> minterm & 1:
            d |= (a if minterm & 4 else ~a) & (b if minterm & 2 else ~b) & (c if minterm & 1 else ~c)
    return d


def bfe(a: IntArray, pos: IntArray, length: IntArray) -> IntArray:
    """`length` bits of a from bit `pos` (both modulo 256), zero- or, for signed a, sign-extended."""
    width = _width(a)
    pos, length = _byte(pos), _byte(length)
    field = shr(a, pos)
    keep = np.minimum(length, width)
    up = np.minimum(width - keep, width - 1)
    field = (field << up.astype(a.dtype)) >> up.astype(a.dtype)
    return np.asarray(np.where(length == 0, a.dtype.type(0), field))


def bfi(a: IntArray, b: IntArray, pos: IntArray, length: IntArray) -> IntArray:
    """b with the low `length` bits of a inserted at bit `pos` (both modulo 256); unsigned."""
    pos, length = _byte(pos), _byte(length)
    mask = shl(~shl(np.full_like(a, -1 & (2 ** _width(a) - 1)), length), pos)
    return np.asarray((b & ~mask) | (shl(a, pos) & mask))


def shf(direction: str, mode: str, lo: UInt32Array, hi: UInt32Array, amount: UInt32Array) -> UInt32Array:
    """Funnel shift of {hi, lo}: the upper word of a left ("l"), the lower of a right ("r") shift; uint32.

    `mode` "clamp" limits the amount to 32, "wrap" takes it modulo 32.
    """
    if direction not in ("l", "r") or mode not in ("clamp", "wrap"):
        raise ValueError(
            f"shf.{direction}.{mode} is not an instruction: directions are l and r, modes clamp and wrap"
        )
    value = (_u32(hi).astype(np.uint64) << np.uint64(32)) | _u32(lo)
    n = _u32(amount)
    n64 = (np.minimum(n, np.uint32(32)) if mode == "clamp" else n & np.uint32(31)).astype(np.uint64)
    if direction == "l":
        return np.asarray(((value << n64) >> np.uint64(32)).astype(np.uint32))
    return np.asarray((value >> n64).astype(np.uint32))


def brev(a: IntArray) -> IntArray:
    """Bits in reverse order; unsigned 32 or 64 bits."""
    width = _width(a)
    dt = a.dtype.type
    step = width // 2
    ones = 2**width - 1
    while step:
        mask = dt(ones // (2**step + 1))  # the low `step` bits of every 2 * step
        a = ((a >> dt(step)) & mask) | ((a & mask) << dt(step))
        step //= 2
    return np.asarray(a)


def popc(a: IntArray) -> UInt32Array:
    """Number of one bits, uint32."""
    return np.asarray(np.bitwise_count(_unsigned(a)).astype(np.uint32))


def clz(a: IntArray) -> UInt32Array:
    """Number of leading zeros, uint32; the width for zero."""
    return np.asarray(np.uint32(_width(a)) - popc(_fill_right(_unsigned(a))))


def bfind(a: IntArray, *, shiftamt: bool = False) -> UInt32Array:
    """Position of the highest bit unlike the sign (unlike zero, unsigned), uint32; 0xFFFFFFFF without one.

    `shiftamt` gives the left shift that brings it to the most significant bit instead.
    """
    magnitude = _unsigned(np.where(a < 0, ~a, a))
    position = popc(_fill_right(magnitude)) - np.uint32(1)
    if shiftamt:
        position = np.where(magnitude == 0, position, np.uint32(_width(a) - 1) - position)
    return np.asarray(position)


def fns(mask: UInt32Array, base: UInt32Array, offset: npt.NDArray[np.int32]) -> UInt32Array:
    """Position of the |offset|-th set bit of mask from bit `base`, upwards or (negative) downwards; uint32.

    Offset 0 asks for bit `base` itself; 0xFFFFFFFF where there is none.
    """
    mask, base, offset = np.broadcast_arrays(
        _u32(mask), _u32(base).astype(np.int64), np.asarray(offset, np.int64)
    )
    wanted = np.maximum(np.abs(offset), 1)
    step = np.where(offset < 0, -1, 1)
    reach = np.where(offset == 0, 1, 32)
    d = np.full(mask.shape, 0xFFFFFFFF, dtype=np.uint32)
    seen = np.zeros(mask.shape, dtype=np.int64)
    for i in range(32):
        at = base + i * step
        hit = (
            (at >= 0)
            & (at < 32)
            & (i < reach)
            & (((mask >> (at & 31).astype(np.uint32)) & np.uint32(1)) == 1)
        )
        seen += hit
        d = np.where(hit & (seen == wanted), at.astype(np.uint32), d)
    return d


def szext(a: IntArray, length: UInt32Array, *, wrap: bool) -> IntArray:
    """The low `length` bits (modulo 32 with `wrap`, else at most 32) of a, extended to 32; 0 for length 0."""
    n = length.astype(np.int64) & 31 if wrap else np.minimum(length.astype(np.int64), 32)
    up = (32 - n).clip(0, 31).astype(a.dtype)
    return np.asarray(np.where(n == 0, a.dtype.type(0), (a << up) >> up))


def mul_hi(a: IntArray, b: IntArray) -> IntArray:
    """The upper half of the full product, 16, 32 or 64 bits, signed or unsigned as a."""
    width = _width(a)
    if width < 64:
        wide: Any = np.int64 if a.dtype.kind == "i" else np.uint64
        return np.asarray(((a.astype(wide) * b.astype(wide)) >> wide(width)).astype(a.dtype))
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_hi, a_lo, b_hi, b_lo = ua >> half, ua & low, ub >> half, ub & low
    middle = a_hi * b_lo + ((a_lo * b_lo) >> half)
    cross = a_lo * b_hi + (middle & low)
    high = a_hi * b_hi + (middle >> half) + (cross >> half)
    if a.dtype.kind == "i":  # the unsigned product counts a negative operand 2^64 too high
        zero = np.uint64(0)
        high = high - np.where(a < 0, ub, zero) - np.where(b < 0, ua, zero)
    return np.asarray(high.view(a.dtype))


def mul24(a: IntArray, b: IntArray, *, hi: bool = False) -> IntArray:
    """Product of the low 24 bits: its low 32 bits, or bits 47..16 with `hi`; int32 or uint32."""
    eight = a.dtype.type(8)
    product = ((a << eight) >> eight).astype(np.int64) * ((b << eight) >> eight).astype(np.int64)
    return np.asarray((product >> 16 if hi else product).astype(a.dtype))


def sad(a: IntArray, b: IntArray, c: IntArray) -> IntArray:
    """c + |a - b|, wrapping."""
    return np.asarray(c + np.where(a < b, b - a, a - b))


def add_sat(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """`add.sat.s32`: a + b clamped to int32."""
    return _clamp32(a.astype(np.int64) + b)


def sub_sat(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """`sub.sat.s32`: a - b clamped to int32."""
    return _clamp32(a.astype(np.int64) - b)


def div(a: IntArray, b: IntArray) -> IntArray:
    """a / b truncated towards zero.

    The PTX ISA leaves division by zero open; code of ptxas gives all ones (measured on sm_90). The least
    value by -1 wraps to itself.
    """
    safe = _safe_divisor(b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0))).astype(a.dtype)
        quotient = np.where(b == -1, -a, quotient)
    return np.asarray(np.where(b == 0, ~np.zeros_like(a), quotient))


def rem(a: IntArray, b: IntArray) -> IntArray:
    """a - b * (a / b), with the sign of a.

    The PTX ISA leaves the remainder by zero open; code of ptxas gives all ones (measured on sm_90).
    """
    return np.asarray(np.where(b == 0, ~np.zeros_like(a), a - b * div(a, b)))


def shl(a: IntArray, amount: IntArray) -> IntArray:
    """a << amount, zero from the width on; amount unsigned."""
    width = _width(a)
    n = np.asarray(amount)
    shifted = a << np.minimum(n, width - 1).astype(a.dtype)
    return np.asarray(np.where(n >= width, a.dtype.type(0), shifted))


def shr(a: IntArray, amount: IntArray) -> IntArray:
    """a >> amount, filled with zeros or, signed, with the sign; amounts clamp to the width."""
    width = _width(a)
    n = np.asarray(amount)
    shifted = a >> np.minimum(n, width - 1).astype(a.dtype)
    return np.asarray(shifted if a.dtype.kind == "i" else np.where(n >= width, a.dtype.type(0), shifted))


def _safe_divisor(b: IntArray) -> IntArray:
    """b without 0 and -1, whose quotients NumPy would warn of."""
    unsafe = b == 0 if b.dtype.kind == "u" else (b == 0) | (b == -1)
    return np.where(unsafe, b.dtype.type(1), b)


def _clamp32(total: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.asarray(total.clip(-(2**31), 2**31 - 1).astype(np.int32))


def _fill_right(a: IntArray) -> IntArray:
    """Every bit below the highest set one set too."""
    step = 1
    while step < _width(a):
        a = a | (a >> a.dtype.type(step))
        step *= 2
    return a


def _lookup(table: dict[str, tuple[tuple[int, int, int, int], ...]], key: str, what: str) -> Any:
    if key not in table:
        raise ValueError(f"unknown {what} {key!r}; known are {', '.join(table)}")
    return table[key]


def _width(a: IntArray) -> int:
    return a.dtype.itemsize * 8


def _unsigned(a: IntArray) -> IntArray:
    return np.asarray(a).view(f"u{a.dtype.itemsize}")


def _u32(a: IntArray) -> UInt32Array:
    return np.asarray(a).astype(np.uint32)


def _byte(n: IntArray) -> npt.NDArray[np.int64]:
    return np.asarray(n).astype(np.int64) & 0xFF
