# ruff: noqa: E501 - PTX bodies read better unbroken
"""atom and red: the word found and the word left of one thread a word, and totals of many threads."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Array, Case
from tests.conformance.inputs import WIDTHS, operands
from tests.conformance.rules import EXACT, AnyNaN

_OPERATIONS = {
    **{t: ("add", "min", "max", "exch") for t in ("u32", "s32", "u64", "s64")},
    **{"b32": ("and", "or", "xor", "exch", "cas"), "b64": ("and", "or", "xor", "exch", "cas")},
    **{"f32": ("add",), "f64": ("add",)},
    **{t: ("add.noftz",) for t in ("f16", "f16x2", "bf16", "bf16x2")},
    "b16": ("cas",),
}
_COUNT = 384
SIGNALING = AnyNaN("memory adds f64 NaNs by a rule of its own and leaves signaling ones as they are")


def cases() -> list[Case]:
    out = []
    for space in ("global", "shared"):
        for t, operations in _OPERATIONS.items():
            for op in operations:
                if (op == "exch" and t[0] in "us") or (t == "s64" and op == "add"):
                    continue
                out.append(_single(space, op, t))
        out += [_single(space, op, "u32") for op in ("inc", "dec")]
        out += [
            _many(space, op, t) for op, t in (("add", "u32"), ("add", "u64"), ("min", "s32"), ("max", "u64"))
        ]
        out += [
            _many(space, op, t) for op, t in (("inc", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b64"))
        ]
    out += [_vectors(t) for t in ("v2.f32", "v4.f32", "v4.f16x2", "v2.bf16x2", "v4.f16", "v8.bf16")]
    return out


def _single(space: str, op: str, t: str) -> Case:
    """Word i of the output is what the word was, word i + count what the atomic left, then what red left."""
    kind = {"b16": "u16"}.get(t, t)
    width, dtype = WIDTHS[kind], f"u{WIDTHS[kind] // 8}"
    size = width // 8
    register = t if t in ("f32", "f64") else f"b{width}"
    name = f"atom red .{space}.{op}.{t}"
    values = "%v1, %v2" if op == "cas" else "%v1"
    move = "b" + str(width)
    mem = "st.global" if space == "global" else "st.shared"
    get = mem.replace("st", "ld")
    body = f"""
mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 128, %r0; mad.wide.u32 %q0, %r2, {size}, %in0;
mad.wide.u32 %q1, %r2, {size}, %in1; mad.wide.u32 %q2, %r2, {size}, %in2; mad.wide.u32 %q3, %r2, {size}, %out;
ld.global.{move} %v0, [%q0]; ld.global.{move} %v1, [%q1]; ld.global.{move} %v2, [%q2];
"""
    body += (
        f"add.u64 %q4, %q3, {_COUNT * size};"
        if space == "global"
        else f"mov.u64 %q5, buffer; mad.wide.u32 %q4, %r0, {size}, %q5;"
    )
    body += (
        f"{mem}.{move} [%q4], %v0; atom.{space}.{op}.{t} %v3, [%q4], {values}; st.global.{move} [%q3], %v3;"
    )
    body += f"{get}.{move} %v3, [%q4]; st.global.{move} [%q3+{_COUNT * size}], %v3; {mem}.{move} [%q4], %v0;"
    if op not in ("cas", "exch"):
        body += f"red.{space}.{op}.{t} [%q4], %v1;"
    body += f"{get}.{move} %v3, [%q4]; st.global.{move} [%q3+{2 * _COUNT * size}], %v3;"

    def arrays() -> list[Array]:
        given = [*operands(f"{kind} {kind}", _COUNT), operands(kind, _COUNT)[0]]
        if op == "cas":
            given[1][::2] = given[0][::2]
        return given

    declare = f".reg .{register} %v<4>; .shared .align 8 .b8 buffer[1024];"
    return Case(
        name,
        body,
        arrays,
        lambda: np.full((3, _COUNT), 0xA5, dtype),
        threads=128,
        blocks=3,
        declare=declare,
        value=kind,
        rule=SIGNALING if (space, t) == ("global", "f64") else EXACT,
    )


def _many(space: str, op: str, t: str) -> Case:
    """Many threads on few words, by an operation whose outcome has no order."""
    size, dtype = WIDTHS[t] // 8, f"u{WIDTHS[t] // 8}"
    name = f"red.{space}.{op}.{t} of many threads"
    body = f"mad.wide.u32 %q0, %r0, {size}, %in0; ld.global.b{8 * size} %v0, [%q0]; and.b32 %r1, %r0, 7;"
    body += f"mad.wide.u32 %q1, %r1, {size}, %out;"
    if op == "inc":
        body += "mov.b32 %v0, 11;"
    if space == "shared":
        body += f"""
mov.u64 %q2, buffer; mad.wide.u32 %q3, %r1, {size}, %q2; setp.lt.u32 %p0, %r0, 8; mov.b{8 * size} %v1, 0;
@%p0 ld.global.b{8 * size} %v1, [%q1]; @%p0 st.shared.b{8 * size} [%q3], %v1; bar.sync 0;
red.shared.{op}.{t} [%q3], %v0; bar.sync 0; @%p0 ld.shared.b{8 * size} %v1, [%q3]; @%p0 st.global.b{8 * size} [%q1], %v1;"""
    else:
        body += f"red.global.{op}.{t} [%q1], %v0;"
    declare = f".reg .b{8 * size} %v<2>; .shared .align 8 .b8 buffer[64];"
    return Case(
        name,
        body,
        lambda: operands(t, 256),
        lambda: operands(f"{t} {t}", 8)[1].astype(dtype),
        threads=256,
        declare=declare,
    )


def _vectors(what: str) -> Case:
    """Vector reductions of global memory, atom and red."""
    count, t = int(what[1]), what.split(".")[1]
    size = WIDTHS[t] // 8
    register = "f32" if t == "f32" else f"b{8 * size}"
    noftz = "" if t == "f32" else ".noftz"
    regs = ["{" + ", ".join(f"%{n}{i}" for i in range(count)) + "}" for n in "vwx"]
    loads = " ".join(
        f"ld.global.b{8 * size} %{n}{i}, [%q{q}+{i * size}];"
        for q, n in enumerate("vw")
        for i in range(count)
    )
    puts = " ".join(f"st.global.b{8 * size} [%q2+{i * size}], %v{i};" for i in range(count))
    keeps = " ".join(f"st.global.b{8 * size} [%q3+{i * size}], %x{i};" for i in range(count))
    whole = 64 * count * size
    body = f"""
mad.wide.u32 %q0, %r0, {count * size}, %in0; mad.wide.u32 %q1, %r0, {count * size}, %in1;
mad.wide.u32 %q2, %r0, {count * size}, %out; add.u64 %q3, %q2, {whole}; {loads} {puts}
red.global.add{noftz}.{what.replace(".", ".", 1)} [%q2], {regs[1]}; atom.global.add{noftz}.{what} {regs[2]}, [%q2], {regs[1]}; {keeps}"""
    body = body.replace(f"add{noftz}.v{count}.{t}", f"v{count}.{t}.add{noftz}")
    name = f"atom red .global.add.{what}"
    declare = " ".join(f".reg .{register} {', '.join(f'%{n}{i}' for i in range(count))};" for n in "vwx")
    return Case(
        name,
        body,
        lambda: operands(f"{t} {t}", 64 * count),
        lambda: np.full((2, 64 * count), 0xA5, f"u{size}"),
        threads=64,
        declare=declare,
        value=t,
    )
