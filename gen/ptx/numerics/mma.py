"""`mma.sync`: fragments to dense matrices, the product, and back.

One warp's fragment register i is the 32-bit word of each of its 32 lanes; arrays are uint32 `[registers,
warps, 32]`. With g = lane >> 2, l = lane & 3 and e elements in a register (tf32 1, 16-bit 2, 8-bit containers
4, 4-bit 8): A register i holds row g + 8(i & 1), k = e*l + 4e*(i >> 1) + j; B register i holds column g, k =
e*l + 4e*i + j; a 32-bit C or D register i holds row g + 8(i >> 1), column 2l + (i & 1); a 16-bit one holds
row g + 8i and columns 2l, 2l + 1 (PTX ISA, "Matrix multiply-accumulate operation using mma instruction").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gen.ptx.numerics.float32 import canonical
from gen.ptx.numerics.formats import decode, encode
from gen.ptx.numerics.rounding import Float64Array

UInt32Array = npt.NDArray[np.uint32]

FP8 = ("e4m3", "e5m2")
F8F6F4 = (*FP8, "e3m2", "e2m3", "e2m1")
_ELEMENTS = {"tf32": 1, "f16": 2, "bf16": 2} | dict.fromkeys((*F8F6F4, "s8", "u8"), 4)
# operand types, accumulator types, K; (kind, scale_vec) -> scale types
_PLAIN: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]], ...] = (
    (("tf32",), ("f32",), (4, 8)),
    (("f16",), ("f32", "f16"), (8, 16)),
    (("bf16",), ("f32",), (8, 16)),
    (FP8, ("f32", "f16"), (16, 32)),
    (("s8", "u8"), ("s32",), (16, 32)),
)
_SCALES = {
    ("mxf8f6f4", "1X"): ("ue8m0",),
    ("mxf4", "2X"): ("ue8m0",),
    ("mxf4nvf4", "2X"): ("ue8m0",),
    ("mxf4nvf4", "4X"): ("ue4m3", "ue8m0"),
}
_DEFAULT_SCALE_VEC = {"mxf8f6f4": "1X", "mxf4": "2X"}
_BYTE_IDS = {"1X": (0, 1, 2, 3), "2X": (0, 2), "4X": (0,)}
_BYTES = np.arange(256)
_E2M1_PAIRS = decode(np.stack((_BYTES, _BYTES >> 4), axis=1), "e2m1").astype(np.float64)  # low nibble first


@dataclass(frozen=True)
class Scale:
    """Block scales of one operand: registers uint32 `[warps, 32]`, their type, blocks along k, selectors."""

    registers: UInt32Array
    type: str
    blocks: int
    byte_id: int
    thread_id: int


def mma(
    shape: str,
    a_type: str,
    b_type: str,
    c_type: str,
    d_type: str,
    a: UInt32Array,
    b: UInt32Array,
    c: UInt32Array,
    *,
    kind: str | None = None,
    scale_vec: str | None = None,
    scale_type: str | None = None,
    scale_a: UInt32Array | None = None,
    scale_b: UInt32Array | None = None,
    ids_a: tuple[int, int] = (0, 0),
    ids_b: tuple[int, int] = (0, 0),
    satfinite: bool = False,
) -> UInt32Array:
    """D = A B + C of every warp, as D registers uint32 `[registers, warps, 32]`.

    `shape` is like "m16n8k32"; `kind` is None, "f8f6f4", "mxf8f6f4", "mxf4" or "mxf4nvf4", the last three
    with `scale_vec` ("1X", "2X", "4X"), `scale_type`, and scale registers uint32 `[warps, 32]`; `ids` are
    (byte id, thread id). `satfinite` clamps the integer accumulation instead of wrapping.

    Products are exact; they are summed over k with c in float64 and rounded once, to nearest even, to the
    type of D. Hardware aligns and truncates the partial sums in an order of its own, so its result may differ
    by a few units in the last place of the largest term. Integer accumulation is exact. NaN results are
    canonical. Raises ValueError for a combination that is not an instruction, or arrays that do not fit it.
    """
    kind, scale_vec = _plain_name(kind, "kind::"), _plain_name(scale_vec, "scale_vec::")
    scale_vec = scale_vec or _DEFAULT_SCALE_VEC.get(kind or "")
    k = _check(shape, a_type, b_type, c_type, d_type, kind, scale_vec, scale_type)
    with np.errstate(all="ignore"):
        dense_a, dense_b = fragment_a(a, a_type, k, kind), fragment_b(b, b_type, k, kind)
        if scale_type is not None and scale_vec is not None:
            if scale_a is None or scale_b is None:
                raise ValueError(f"mma kind::{kind} needs scale_a and scale_b registers")
            blocks = int(scale_vec[0])
            shape_a, shape_b = (len(dense_a), 16, blocks, -1), (len(dense_b), blocks, -1, 8)
            by_block_a = dense_a.reshape(shape_a)
            by_block_a *= scales_a(Scale(scale_a, scale_type, blocks, *ids_a))[..., None]
            by_block_b = dense_b.reshape(shape_b)
            by_block_b *= scales_b(Scale(scale_b, scale_type, blocks, *ids_b))[:, :, None]
            dense_a, dense_b = by_block_a.reshape(dense_a.shape), by_block_b.reshape(dense_b.shape)
        total = np.matmul(dense_a, dense_b)
        total += fragment_c(c, c_type)
        return scatter_d(total, d_type, satfinite=satfinite)


def fragment_a(a: UInt32Array, a_type: str, k: int, kind: str | None = None) -> Float64Array:
    """A registers `[registers, warps, 32]` to dense float64 `[warps, 16, k]`, unscaled."""
    _require_registers(a, 16 * k // (32 * _per_register(a_type, kind)), "A")
    words = a.reshape(-1, 2, a.shape[1], 8, 4)  # k half, row half, warp, g, l
    return _elements(words.transpose(2, 1, 3, 0, 4), a_type, kind).reshape(a.shape[1], 16, k)


def fragment_b(b: UInt32Array, b_type: str, k: int, kind: str | None = None) -> Float64Array:
    """B registers `[registers, warps, 32]` to dense float64 `[warps, k, 8]`, unscaled."""
    _require_registers(b, 8 * k // (32 * _per_register(b_type, kind)), "B")
    words = b.reshape(-1, b.shape[1], 8, 4)  # k half, warp, g, l
    return _elements(words.transpose(1, 2, 0, 3), b_type, kind).reshape(b.shape[1], 8, k).transpose(0, 2, 1)


def fragment_c(c: UInt32Array, c_type: str) -> Float64Array:
    """C registers of f32, s32 (4 registers) or f16 (2) to dense float64 `[warps, 16, 8]`."""
    registers = 2 if c_type == "f16" else 4
    _require_registers(c, registers, "C")
    warps = c.shape[1]
    if c_type == "f16":
        values = decode(_view(c, np.uint16), "f16").reshape(2, warps, 8, 4, 2)
        return values.astype(np.float64).transpose(1, 0, 2, 3, 4).reshape(warps, 16, 8)
    values = _view(c, np.int32 if c_type == "s32" else np.float32).reshape(2, 2, warps, 8, 4)
    return values.astype(np.float64).transpose(2, 0, 3, 4, 1).reshape(warps, 16, 8)


def scatter_d(d: Float64Array, d_type: str, *, satfinite: bool = False) -> UInt32Array:
    """Dense float64 `[warps, 16, 8]` rounded to D registers of f32, f16 or s32."""
    warps = d.shape[0]
    if d_type == "f16":
        halves = encode(d, "f16").reshape(warps, 2, 32, 2).transpose(1, 0, 2, 3)
        return np.ascontiguousarray(halves).view(np.uint32).reshape(2, warps, 32)
    words: npt.NDArray[Any]
    if d_type == "s32":
        whole = d.astype(np.int64)
        if satfinite:
            whole = whole.clip(-(2**31), 2**31 - 1)
        words = whole.astype(np.uint32)
    else:
        with np.errstate(all="ignore"):
            words = canonical(d.astype(np.float32)).view(np.uint32)
    return np.ascontiguousarray(words.reshape(warps, 2, 32, 2).transpose(1, 3, 0, 2)).reshape(4, warps, 32)


def scales_a(scale: Scale) -> Float64Array:
    """Scales of A, float64 `[warps, 16, blocks]`: row m is in lane 4(m mod 8) + 2 * thread_id + (m div 8)."""
    _check_ids(scale, "A", 2)
    row = np.arange(16)
    return _scale_values(scale, 4 * (row % 8) + 2 * scale.thread_id + row // 8)


def scales_b(scale: Scale) -> Float64Array:
    """Scales of B, float64 `[warps, blocks, 8]`: column n is in lane 4n + thread_id."""
    _check_ids(scale, "B", 4)
    return _scale_values(scale, 4 * np.arange(8) + scale.thread_id).transpose(0, 2, 1)


def _scale_values(scale: Scale, lanes: npt.NDArray[np.int64]) -> Float64Array:
    registers = scale.registers[:, lanes]
    codes = _view(registers, np.uint8).reshape(*registers.shape, 4)
    return decode(codes[..., scale.byte_id : scale.byte_id + scale.blocks], scale.type).astype(np.float64)


def _check_ids(scale: Scale, operand: str, threads: int) -> None:
    byte_ids = _BYTE_IDS[f"{scale.blocks}X"]
    if scale.byte_id not in byte_ids or scale.thread_id not in range(threads):
        raise ValueError(
            f"mma scale selector of {operand} is {{{scale.byte_id}, {scale.thread_id}}}; with "
            f"scale_vec::{scale.blocks}X the byte id is one of {byte_ids} and the thread id below {threads}"
        )


def _per_register(type_: str, kind: str | None) -> int:
    return 8 if kind in ("mxf4", "mxf4nvf4") else _ELEMENTS[type_]


def _elements(words: UInt32Array, type_: str, kind: str | None) -> Float64Array:
    """The values of uint32 words in order, float64, the first in the low bits; the last axis grows."""
    per = _per_register(type_, kind)
    if per == 1:
        return decode(words, type_).astype(np.float64)
    if per == 2:
        return decode(_view(words, np.uint16), type_).astype(np.float64)
    codes = _view(words, np.uint8)
    if per == 8:
        return np.asarray(_E2M1_PAIRS[codes])
    if type_ in ("s8", "u8"):
        return (codes.view(np.int8) if type_ == "s8" else codes).astype(np.float64)
    if type_ == "e2m1":  # in the middle of its byte
        codes = codes >> np.uint8(2)
    return decode(codes, type_).astype(np.float64)


def _view(registers: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(registers, dtype=np.uint32).view(dtype)


def _require_registers(registers: UInt32Array, count: int, operand: str) -> None:
    if registers.ndim != 3 or registers.shape[0] != count or registers.shape[2] != 32:
        raise ValueError(
            f"mma operand {operand} needs shape [{count}, warps, 32], not {list(registers.shape)}"
        )


def _plain_name(name: str | None, prefix: str) -> str | None:
    return None if name is None else name.lstrip(".").removeprefix(prefix)


def _check(
    shape: str,
    a_type: str,
    b_type: str,
    c_type: str,
    d_type: str,
    kind: str | None,
    scale_vec: str | None,
    scale_type: str | None,
) -> int:
    """K of a combination that exists; ValueError naming it otherwise."""
    m, _, k_text = shape.partition("n8k")
    k = int(k_text) if m == "m16" and k_text.isdigit() else 0
    if kind is None:
        ok = scale_type is None and any(
            a_type in operands
            and b_type in operands
            and c_type in accumulators
            and d_type in accumulators
            and k in ks
            for operands, accumulators, ks in _PLAIN
        )
    elif kind == "f8f6f4":
        ok = a_type in F8F6F4 and b_type in F8F6F4 and k == 32 and scale_type is None
        ok = ok and c_type in ("f32", "f16") and d_type in ("f32", "f16")
    else:
        types, depth = (F8F6F4, 32) if kind == "mxf8f6f4" else (("e2m1",), 64)
        ok = a_type in types and b_type in types and k == depth and c_type == d_type == "f32"
        ok = ok and scale_type in _SCALES.get((kind, scale_vec or ""), ())
    if not ok:
        scaled = f" scale_vec::{scale_vec} {scale_type}" if scale_vec or scale_type else ""
        raise ValueError(
            f"mma {shape} {d_type}.{a_type}.{b_type}.{c_type} kind {kind}{scaled} is not implemented; "
            "the PTX ISA's table of mma shapes and types has those that exist"
        )
    return k
