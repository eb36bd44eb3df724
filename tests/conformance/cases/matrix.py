# ruff: noqa: E501 - PTX bodies read better unbroken
"""ldmatrix, stmatrix, movmatrix and mma.sync."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.conformance.case import Array, Case, unwritten
from tests.conformance.cases.memory import words
from tests.conformance.inputs import random, stream
from tests.conformance.rules import EXACT, Accumulated, Rule

# operand type: (k, result types, bits)
_FLOATS = {
    "tf32": ((4, 8), ("f32",), 32),
    "f16": ((8, 16), ("f32", "f16"), 16),
    "bf16": ((8, 16), ("f32",), 16),
    "e4m3": ((16, 32), ("f32", "f16"), 8),
    "e5m2": ((16, 32), ("f32", "f16"), 8),
}
_WARPS = 4


def cases() -> list[Case]:
    out = [_load(count, trans) for count in (1, 2, 4) for trans in ("", ".trans")]
    out += [_store(count, trans) for count in (1, 2, 4) for trans in ("", ".trans")]
    body = """
mad.wide.u32 %q0, %r0, 4, %in0; mad.wide.u32 %q1, %r0, 4, %out; ld.global.u32 %r1, [%q0];
movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.u32 [%q1], %r2;"""
    out.append(Case("movmatrix.trans", body, lambda: words("movmatrix", 128), unwritten("u32", 128)))
    for a, (depths, results, bits) in _FLOATS.items():
        for b in ("e4m3", "e5m2") if bits == 8 else (a,):
            for k in depths:
                for d in results:
                    bound = 2.0**-21 if d == "f32" else 2.0**-10
                    for data in ("small integers", "near one", "special values", "subnormals"):
                        rule = (
                            EXACT
                            if data != "near one"
                            else Accumulated(bound, tuple(map(_magnitude, (a, b, d))))
                        )
                        out.append(_mma(k, d, a, b, bits, data, rule))
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            for k in (16, 32):
                for sat in ("", ".satfinite"):
                    out.append(_mma(k, "s32", a, b, 8, "bits", EXACT, sat))
    return out


def _rows(count: int) -> str:
    """Rows of shared memory, with a pad of 16 bytes between them: the row that each lane addresses in %r3."""
    return f"""
mov.u32 %r2, tile; and.b32 %r3, %r0, {8 * count - 1}; mad.lo.u32 %r3, %r3, 32, %r2;"""


def _load(count: int, trans: str) -> Case:
    regs = ", ".join(f"%r{10 + i}" for i in range(count))
    puts = " ".join(f"st.global.u32 [%q1+{4 * i}], %r{10 + i};" for i in range(count))
    body = f"""
mad.wide.u32 %q0, %r0, 32, %in0; mov.u32 %r2, tile; mad.lo.u32 %r4, %r0, 32, %r2;
ld.global.v4.u32 {{%r5, %r6, %r7, %r8}}, [%q0]; st.shared.v4.u32 [%r4], {{%r5, %r6, %r7, %r8}}; bar.sync 0; {_rows(count)}
ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{regs}}}, [%r3]; mad.wide.u32 %q1, %r0, {4 * count}, %out; {puts}"""
    name = f"ldmatrix.m8n8.x{count}{trans}.b16"
    declare = ".shared .align 16 .b8 tile[1024];"
    return Case(
        name, body, lambda: words(name, 256), unwritten("u32", 32, count), threads=32, declare=declare
    )


def _store(count: int, trans: str) -> Case:
    regs = ", ".join(f"%r{10 + i}" for i in range(count))
    loads = " ".join(f"ld.global.u32 %r{10 + i}, [%q0+{4 * i}];" for i in range(count))
    body = f"""
mad.wide.u32 %q0, %r0, 16, %in0; {loads} {_rows(count)} mov.u32 %r20, 0x5a5a5a5a; mad.lo.u32 %r4, %r0, 32, %r2;
st.shared.v4.u32 [%r4], {{%r20, %r20, %r20, %r20}}; bar.sync 0;
stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r3], {{{regs}}}; bar.sync 0;
ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r4]; mad.wide.u32 %q1, %r0, 16, %out; st.global.v4.u32 [%q1], {{%r5, %r6, %r7, %r8}};"""
    name = f"stmatrix.m8n8.x{count}{trans}.b16"
    declare = ".shared .align 16 .b8 tile[1024];"
    return Case(name, body, lambda: words(name, 128), unwritten("u32", 128), threads=32, declare=declare)


def _mma(k: int, d: str, a: str, b: str, bits: int, data: str, rule: Rule, sat: str = "") -> Case:
    """One product a warp: registers of A, B and C as they are loaded, D as it is stored."""
    of_a, of_b, of_c = 16 * k * bits // 1024, 8 * k * bits // 1024, 2 if d == "f16" else 4
    register = "f32" if d == "f32" else "b32"
    loads, lists = [], []
    for i, (name, count) in enumerate((("a", of_a), ("b", of_b), ("c", of_c))):
        loads.append(f"mad.wide.u32 %q{i}, %r0, {4 * count}, %in{i};")
        loads += [f"ld.global.b32 %{name}{j}, [%q{i}+{4 * j}];" for j in range(count)]
        lists.append("{" + ", ".join(f"%{name}{j}" for j in range(count)) + "}")
    puts = " ".join(f"st.global.b32 [%q9+{4 * i}], %d{i};" for i in range(of_c))
    result = "{" + ", ".join(f"%d{i}" for i in range(of_c)) + "}"
    instruction = f"mma.sync.aligned.m16n8k{k}.row.col{sat}.{d}.{a}.{b}.{d}"
    body = f"""{" ".join(loads)}
{instruction} {result}, {", ".join(lists)}; mad.wide.u32 %q9, %r0, {4 * of_c}, %out; {puts}"""
    declare = f".reg .b32 %a<{of_a}>, %b<{of_b}>; .reg .{register} %c<{of_c}>, %d<{of_c}>;"
    arrays = partial(_operands, (of_a, of_b, of_c), (a, b, d), data)
    value = "f16x2" if d == "f16" else d
    return Case(
        f"mma.m16n8k{k}{sat}.{d}.{a}.{b} {data}", body, arrays, unwritten("u32", 32 * _WARPS, of_c), rule,
        threads=32 * _WARPS, declare=declare, value=value,
    )  # fmt: skip


def _operands(counts: tuple[int, ...], types: tuple[str, ...], data: str) -> list[Array]:
    if data == "subnormals":  # A and C are small multiples of the least value of A's type
        count = 32 * _WARPS
        given = [
            _multiples(types[0], types[0], counts[0] * count),
            _elements(types[1], counts[1] * count, "", "B"),
        ]
        return [*given, _multiples(types[2], types[0], counts[2] * count)]
    return [
        _elements(t, 32 * _WARPS * count, data, f"{types} {i}")
        for i, (count, t) in enumerate(zip(counts, types, strict=True))
    ]


def _elements(t: str, registers: int, data: str, seed: str) -> Array:
    """Registers of elements: integers from -4 to 4, values near 1, or values with infinities and NaNs."""
    if data == "bits":
        return stream(seed, registers).astype(np.uint32) >> np.uint32(0 if t != "s32" else 1)
    per = {"tf32": 1, "f32": 1, "s32": 1, "f16": 2, "bf16": 2}.get(t, 4)
    words64, count = stream(seed, registers * per), registers * per
    small = (words64 % np.uint64(9)).astype(np.int64).astype(np.float32) - np.float32(4)
    if data == "special values":
        chosen = words64 >> np.uint64(50)
        small[chosen % 193 == 0] = np.inf
        small[chosen % 211 == 1] = -np.inf
        small[chosen % 389 == 2] = np.nan
    if data == "near one" and per < 4:
        kind = "f32" if per == 1 else t
        bits = random(kind, seed, count)
        exponent, mantissa = {"f32": (127, 23), "f16": (15, 10), "bf16": (127, 7)}[kind]
        near = np.uint64(exponent - 3) + words64 % np.uint64(5) << np.uint64(mantissa)
        keep = np.uint64((1 << mantissa) - 1 | 1 << (31 if per == 1 else 15))
        return (bits & keep | near).astype(np.uint32 if per == 1 else np.uint16).view(np.uint32)
    if per == 4:
        codes = (words64 & np.uint64(0xFF)).astype(np.uint8)
        if data == "near one":  # exponents 4 to 11 of e4m3, 14 to 17 of e5m2
            return np.asarray(
                (codes & np.uint8(0xBF) ^ np.uint8(0x20) if t == "e4m3" else codes & 0x8F | 0x38), np.uint8
            ).view(np.uint32)
        table = np.array([0, *_codes(t)], np.uint8)
        small_codes = table[np.where(np.isfinite(small), np.abs(small), 0).astype(np.int64)]
        small_codes = np.where(small < 0, small_codes | np.uint8(0x80), small_codes)
        special = {"e4m3": 0x7F, "e5m2": 0x7C}[t]
        return np.where(np.isfinite(small), small_codes, np.uint8(special)).astype(np.uint8).view(np.uint32)
    if t == "f16":
        return small.astype(np.float16).view(np.uint32)
    if t == "bf16":
        return (small.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.uint32)
    return small.view(np.uint32)


def _magnitude(t: str) -> int:
    """A register of elements without their sign bits."""
    return {"f16": 0x7FFF7FFF, "bf16": 0x7FFF7FFF, "e4m3": 0x7F7F7F7F, "e5m2": 0x7F7F7F7F}.get(t, 0x7FFFFFFF)


_LEAST = {"tf32": -136, "bf16": -133, "f16": -24, "e4m3": -9, "e5m2": -16}


def _multiples(t: str, of: str, registers: int) -> Array:
    """Registers of type `t` of the least value of another type times -4 to 4."""
    per = {"tf32": 1, "f32": 1, "f16": 2, "bf16": 2}.get(t, 4)
    words = stream(f"{t} {of}", registers * per)
    whole = (words % np.uint64(9)).astype(np.int64) - 4
    if t in ("f32", "f16"):
        value = np.ldexp(whole.astype(np.float64), _LEAST[of])
        return value.astype(np.float32 if t == "f32" else np.float16).view(np.uint32)
    width = 32 // per
    codes = np.abs(whole) << (13 if t == "tf32" else 0) | (whole < 0).astype(np.int64) << width - 1
    return codes.astype(f"u{width // 8}").view(np.uint32)


def _codes(t: str) -> tuple[int, ...]:
    """Codes of 1, 2, 3 and 4."""
    return (0x38, 0x40, 0x44, 0x48) if t == "e4m3" else (0x3C, 0x40, 0x42, 0x44)
