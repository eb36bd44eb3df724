"""Inputs of conformance cases: edge values of each type, crossed, then random ones from a fixed stream.

The stream is splitmix64, not NumPy's, so that the inputs of a record can be made again by any NumPy.
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]

WIDTHS = {
    **{f"{k}{n}": n for k in "usb" for n in (8, 16, 32, 64)},
    **{"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32, "f16x2": 32, "bf16x2": 32},
    **{"e4m3x2": 16, "e5m2x2": 16, "amount": 32, "pred": 32, "angle": 32, "u16x2": 32, "s16x2": 32},
}
"""Bits of each kind of input. "amount" is a shift amount, "pred" 0 or 1, "angle" an f32 within ±100π."""

_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def stream(seed: int | str, count: int) -> Bits:
    """`count` 64-bit words of splitmix64 (Steele, Lea and Flood, 2014)."""
    start = zlib.crc32(seed.encode()) if isinstance(seed, str) else seed
    with np.errstate(over="ignore"):
        x = np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def edges(kind: str) -> list[int]:
    """Raw bits of the values of a type where instructions go wrong, the most telling first."""
    width = WIDTHS[kind]
    if kind == "amount":
        return [0, 1, 31, 32, 63, 64, 255, 256, 7, 33, 65, 16, 8, 260, 0xFFFFFFFF, 0x80000000]
    if kind == "pred":
        return [0, 1]
    if kind == "angle":
        return [0, 0x80000000, 0x3F800000, 0xBFC90FDB, 0x40490FDB, 0x3FC90FDB, 0x40C90FDB, 1, 0x33800000]
    if kind in ("e4m3x2", "e5m2x2"):
        return [0x0080, 0x7E7F, 0xFFFE, 0x7C7B, 0xFC7D, 0x0104, 0x0338, 0x3C01]
    if kind.endswith("x2") and kind[0] in "fb":
        half = edges(kind[:-2])
        return [high << 16 | low for high, low in zip(half, half[3:] + half[:3], strict=True)]
    if kind in _FORMATS:
        return _float_edges(*_FORMATS[kind])
    if kind == "tf32":
        return _float_edges(8, 23)
    top = 1 << (width - 1)
    values = [0, 1, 2 * top - 1, top, top - 1, 2, top + 1, 3, 2 * top - 2, 7, 0x55555555, 1 << width // 2]
    return [v & (2 * top - 1) for v in values]


def _float_edges(exponent: int, mantissa: int) -> list[int]:
    """±0, ±1, ±infinity, NaNs, ends of the normal and subnormal ranges, and neighbours of 1."""
    sign = 1 << (exponent + mantissa)
    one = ((1 << (exponent - 1)) - 1) << mantissa
    inf = ((1 << exponent) - 1) << mantissa
    quiet = inf | 1 << (mantissa - 1)
    least = 1 << mantissa
    values = [0, one, inf, quiet | 5, sign, sign | one, sign | inf, inf | 3, least, 1, inf - 1, one + 1]
    values += [
        sign | least,
        sign | 1,
        sign | (inf - 1),
        sign | quiet,
        least - 1,
        one - 1,
        one + (1 << mantissa),
    ]
    values += [one + (1 << mantissa - 1), sign | one + 3, sign | inf | 1, sign | (least - 1), inf + least - 1]
    return [*values, sign | (inf + least - 1), quiet | quiet >> 2 & least - 1, inf | 1 << mantissa - 2]


def random(kind: str, seed: int | str, count: int) -> Bits:
    """Raw bits: of floats a third anywhere, a third near 1, a third within a few binades of each other."""
    words = stream(seed, count)
    width = WIDTHS[kind]
    mask = np.uint64((1 << width) - 1)
    if kind == "amount":
        return np.asarray(words % np.uint64(70))
    if kind == "pred":
        return np.asarray(words & np.uint64(1))
    if kind == "angle":
        reach = np.where(words & np.uint64(1) == 0, 2 * np.pi, 100 * np.pi)
        value = (words >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1
        return (value * reach).astype(np.float32).view(np.uint32).astype(np.uint64)
    if kind in ("f16x2", "bf16x2"):
        high, low = (random(kind[:-2], f"{seed}{part}", count) for part in "hl")
        return np.asarray(high << np.uint64(16) | low)
    bits = words & mask
    if kind in _FORMATS or kind == "tf32":
        exponent, mantissa = _FORMATS.get(kind, (8, 23))
        bias, field = (1 << (exponent - 1)) - 1, np.uint64((1 << exponent) - 1 << mantissa)
        near = np.uint64(bias - 2) + (words >> np.uint64(60)) % np.uint64(5)
        apart = np.uint64(bias // 2 + 3) + (words >> np.uint64(58)) % np.uint64(mantissa + 4)
        which = np.arange(count) % 3
        chosen = np.where(which == 1, near, apart) << np.uint64(mantissa)
        bits = np.where(which == 0, bits, (bits & ~field) | chosen)
    elif width >= 16 and kind[0] in "usb":  # small magnitudes too
        bits = np.where(np.arange(count) % 3 == 2, bits >> np.uint64(width - width // 3), bits)
    return np.asarray(bits)


def array(kind: str, bits: Bits) -> npt.NDArray[np.unsignedinteger]:
    """Raw bits in the unsigned dtype of a type's width."""
    return np.ascontiguousarray(bits.astype(f"u{WIDTHS[kind] // 8}"))


def operands(kinds: str, count: int) -> list[npt.NDArray[np.unsignedinteger]]:
    """One array a kind: edge values crossed in at most half of the elements, then random ones."""
    names = kinds.split()
    per = int((count // 2) ** (1 / len(names)) + 1e-9)
    crossed = list(itertools.product(*(edges(k)[: max(per, 1)] for k in names)))[:count]
    out = []
    for i, kind in enumerate(names):
        bits = random(kind, f"{kinds} {i}", count)
        bits[: len(crossed)] = np.array([c[i] for c in crossed], np.uint64)
        out.append(array(kind, bits))
    return out


def near_underflow(kind: str, count: int) -> list[npt.NDArray[np.unsignedinteger]]:
    """Three operands: a · b and a / b lie within some units of the least normal value, c is tiny or zero.

    b is within 8 units of ±1, so that what is subnormal before rounding may be normal after it.
    """
    exponent, mantissa = _FORMATS[kind]
    words = [stream(f"underflow {kind} {i}", count) for i in range(3)]
    least, one, sign = 1 << mantissa, ((1 << (exponent - 1)) - 1) << mantissa, np.uint64(exponent + mantissa)

    def around(center: int, w: Bits) -> Bits:
        """Within 8 units of a positive value, of either sign."""
        return np.asarray(
            np.uint64(center - 8) + (w >> np.uint64(8)) % np.uint64(17) | (w & np.uint64(1)) << sign
        )

    c = np.where(words[2] & np.uint64(6) == 0, around(least, words[2]), (words[2] & np.uint64(1)) << sign)
    c = np.where(words[2] & np.uint64(6) == 2, (words[2] >> np.uint64(8)) % np.uint64(9), c)
    return [array(kind, bits) for bits in (around(least, words[0]), around(one, words[1]), c)]


def nans(kind: str, count: int) -> list[npt.NDArray[np.unsignedinteger]]:
    """Three operands crossed from 0, 1, -infinity and NaNs of either sign, quiet and signaling."""
    exponent, mantissa = _FORMATS[kind]
    inf, quiet, sign = ((1 << exponent) - 1) << mantissa, 1 << (mantissa - 1), 1 << (exponent + mantissa)
    values = [
        0,
        ((1 << (exponent - 1)) - 1) << mantissa,
        sign | inf,
        inf | quiet | 5,
        inf | 3,
        sign | inf | quiet | 9,
    ]
    values += [sign | inf | 6]
    crossed = np.array(list(itertools.product(values, repeat=3)), np.uint64)[
        np.arange(count) % len(values) ** 3
    ]
    return [array(kind, crossed[:, i]) for i in range(3)]
