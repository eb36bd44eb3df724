# ruff: noqa: E501 - PTX bodies read better unbroken
"""Loads, stores and addresses of every space."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Array, Case, unwritten
from tests.conformance.inputs import WIDTHS, stream

_SPACES = ("global", "shared", "local", "generic")
_LOADED = {"u8": "b16", "s8": "b16", "u16": "b32", "s16": "b32", "u32": "b64", "s32": "b64"}


def words(name: str, count: int) -> list[Array]:
    """One input of random 32-bit words."""
    return [stream(name, count).astype(np.uint32)]


def case(name: str, body: str, given: int, *out: int, kind: str = "u32", **more: object) -> Case:
    """A case whose input is `given` random words and whose output has the shape `out`."""
    return Case(name, body, lambda: words(name, given), unwritten(kind, *out), **more)  # type: ignore[arg-type]


def cases() -> list[Case]:
    out = []
    for count in (1, 2, 4):
        for t in ("u8", "u16", "u32", "u64", "f32", "f64"):
            if WIDTHS[t] * count <= 128:
                out += [_vector(space, t, count) for space in _SPACES]
    for t, register in _LOADED.items():
        for wide in ("b32", "b64") if register == "b16" else (register,):
            out.append(_extended(t, wide))
        if register == "b16":
            out.append(_extended(t, "b16"))
    return [*out, *_stores(), _constant(), _parameters(), *_qualified(), _spaces(), *_moves()]


def _registers(t: str, count: int) -> tuple[str, str]:
    """(declaration, operand) of the registers of a vector."""
    kind = t if t in ("f32", "f64") else f"b{max(WIDTHS[t], 16)}"
    names = ", ".join(f"%v{i}" for i in range(count))
    return f".reg .{kind} {names};", names if count == 1 else "{" + names + "}"


def _vector(space: str, t: str, count: int) -> Case:
    """Each thread copies a vector by way of a space, the threads in reverse."""
    size, threads = WIDTHS[t] // 8 * count, 64
    declare, operand = _registers(t, count)
    what = f"{'' if count == 1 else f'v{count}.'}{t}"
    name = f"ld st .{space}.{what}"
    body = f"mad.wide.u32 %q0, %r0, {size}, %in0; sub.u32 %r1, {threads - 1}, %r0; mad.wide.u32 %q1, %r1, {size}, %out;"
    space = "" if space == "generic" else f".{space}"
    if space in (".shared", ".local"):
        where = "%r1" if space == ".shared" else "0"
        declare += f" {space} .align 16 .b8 buffer[{threads * size}];"
        body += f"mov.u64 %q2, buffer; mad.wide.u32 %q3, {where}, {size}, %q2;"
        body += f"ld.global.{what} {operand}, [%q0]; st{space}.{what} [%q3], {operand};"
        if space == ".shared":
            body += f"bar.sync 0; mad.wide.u32 %q3, %r0, {size}, %q2; mad.wide.u32 %q1, %r0, {size}, %out;"
        body += f"ld{space}.{what} {operand}, [%q3]; st.global.{what} [%q1], {operand};"
    else:
        body += f"ld{space}.{what} {operand}, [%q0]; st{space}.{what} [%q1], {operand};"
    return case(name, body, threads * size // 4, threads * size // 4, threads=threads, declare=declare)


def _extended(t: str, register: str) -> Case:
    """A load into a wider register, and of a vector of two."""
    size, out = WIDTHS[t] // 8, int(register[1:])
    kind = f"u{out}"
    body = f"""
mad.wide.u32 %q0, %r0, {2 * size}, %in0; mad.wide.u32 %q1, %r0, {out // 4}, %out;
ld.global.{t} %v0, [%q0]; st.global.{kind} [%q1], %v0;
ld.global.v2.{t} {{%v1, %v0}}, [%q0]; st.global.{kind} [%q1+{out // 8}], %v0;"""
    name = f"ld.{t} to {register}"
    return case(name, body, 64 * size, 128, 2, kind=kind, declare=f".reg .{register} %v<2>;")


def _stores() -> list[Case]:
    """Stores of the low part of a wider register."""
    out = []
    for t, register in (("u8", "b16"), ("s8", "b32"), ("u16", "b32"), ("u8", "b64"), ("u32", "b64")):
        size = WIDTHS[t] // 8
        body = f"""
mad.wide.u32 %q0, %r0, 8, %in0; mad.wide.u32 %q1, %r0, {2 * size}, %out;
ld.global.{register} %v0, [%q0]; ld.global.{register} %v1, [%q0]; st.global.v2.{t} [%q1], {{%v1, %v0}};
st.global.{t} [%q1], %v0;"""
        name = f"st.{t} from {register}"
        out.append(case(name, body, 256, 256, kind=t.replace("s", "u"), declare=f".reg .{register} %v<2>;"))
    return out


def _constant() -> Case:
    module = ".const .align 8 .b8 table[16] = {1, 2, 3, 250, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255};"
    body = """
and.b32 %r1, %r0, 3; mul.lo.u32 %r1, %r1, 4; cvt.u64.u32 %q0, %r1; mov.u64 %q1, table; add.u64 %q1, %q1, %q0;
ld.const.u32 %r2, [%q1]; ld.const.s8 %r3, [%q1+3]; cvta.const.u64 %q2, %q1; ld.u16 %r4, [%q2];
mad.wide.u32 %q3, %r0, 12, %out; st.global.u32 [%q3], %r2; st.global.u32 [%q3+4], %r3; st.global.u32 [%q3+8], %r4;"""
    return case("ld.const", body, 1, 128, 3, module=module)


def _parameters() -> Case:
    """A struct passed to a function and returned from it."""
    module = """
.func (.param .align 16 .b8 result[16]) swapped(.param .align 16 .b8 given[16], .param .b32 more)
{ .reg .b32 %r<4>; .reg .b64 %q<4>; .reg .b16 %h<4>;
ld.param.u32 %r1, [given]; ld.param.u16 %h1, [given+4]; ld.param.u8 %h2, [given+7]; ld.param.u64 %q1, [given+8];
ld.param.u32 %r0, [more]; add.u32 %r1, %r1, %r0;
st.param.b64 [result], %q1; st.param.b32 [result+8], %r1; st.param.b16 [result+12], %h1; st.param.b8 [result+14], %h2; st.param.b8 [result+15], %h2; ret; }"""
    body = """
mad.wide.u32 %q0, %r0, 16, %in0; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%q0];
{ .param .align 16 .b8 given[16]; .param .b32 more; .param .align 16 .b8 result[16];
st.param.b32 [given], %r1; st.param.b32 [given+4], %r2; st.param.v2.b32 [given+8], {%r3, %r4}; st.param.b32 [more], %r0;
call (result), swapped, (given, more);
ld.param.v4.b32 {%r5, %r6, %r7, %r8}, [result]; }
mad.wide.u32 %q1, %r0, 16, %out; st.global.v4.u32 [%q1], {%r5, %r6, %r7, %r8};"""
    return case("struct parameters of a function", body, 512, 128, 4, module=module)


def _qualified() -> list[Case]:
    """Cache operators and memory orders, which must not change values."""
    out = []
    for load, store in (
        *(
            ("ld.global.nc", "st.global.wt"),
            ("ld.global.cg", "st.global.cs"),
            ("ld.volatile.global", "st.volatile.global"),
        ),
        *(
            ("ld.relaxed.gpu.global", "st.relaxed.sys.global"),
            ("ld.acquire.gpu.global", "st.release.gpu.global"),
        ),
        ("ld.global.nc.L1::no_allocate.L2::128B", "st.global.L1::no_allocate"),
    ):
        body = f"""
mad.wide.u32 %q0, %r0, 8, %in0; mad.wide.u32 %q1, %r0, 8, %out; {load}.v2.u32 {{%r1, %r2}}, [%q0];
{store}.v2.u32 [%q1], {{%r2, %r1}};"""
        if "relaxed" in load or "acquire" in load:
            body = body.replace(".v2.u32 {%r1, %r2}", ".u64 %q2").replace(
                ".v2.u32 [%q1], {%r2, %r1}", ".u64 [%q1], %q2"
            )
        out.append(case(f"{load} {store}", body, 256, 256))
    return out


def _spaces() -> Case:
    """isspacep of generic addresses of each space."""
    module = ".const .align 8 .b8 fixed[16] = {1}; .global .align 8 .b8 variable[16] = {1};"
    declare = ".shared .align 8 .b8 here[16]; .local .align 8 .b8 own[16];"
    addresses = (
        "mov.u64 %q2, fixed; cvta.const.u64 %q2, %q2;",
        "mov.u64 %q2, variable; cvta.global.u64 %q2, %q2;",
        "mov.u64 %q2, here; cvta.shared.u64 %q2, %q2;",
        "mov.u64 %q2, own; st.local.u32 [own], %r0; cvta.local.u64 %q2, %q2;",
        "mov.u64 %q2, %out;",
    )
    body = f"mad.wide.u32 %q1, %r0, {12 * len(addresses)}, %out;"
    for i, address in enumerate(addresses):
        body += address
        for j, space in enumerate(("global", "shared", "local")):
            body += f"isspacep.{space} %p1, %q2; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%q1+{12 * i + 4 * j}], %r1;"
    return case("isspacep", body, 1, 32, len(addresses), 3, threads=32, declare=declare, module=module)


def _moves() -> list[Case]:
    """mov that packs and unpacks."""
    body = """
mad.wide.u32 %q0, %r0, 8, %in0; mad.wide.u32 %q1, %r0, 32, %out; ld.global.u64 %q2, [%q0]; mov.b64 {%r1, %r2}, %q2;
mov.b32 {%h0, %h1}, %r1; mov.b64 {%h2, %h3, %h4, %h5}, %q2; mov.b32 {%c0, %c1, %c2, %c3}, %r2; mov.b16 {%c4, %c5}, %h0;
mov.b64 %q3, {%r2, %r1}; mov.b32 %r3, {%h1, %h0}; mov.b64 %q4, {%h5, %h4, %h3, %h2}; mov.b32 %r4, {%c3, %c2, %c1, %c0};
mov.b16 %h6, {%c5, %c4}; mov.b64 {_, %r5}, %q2; cvt.u32.u16 %r6, %h6;
st.global.u64 [%q1], %q3; st.global.u64 [%q1+8], %q4; st.global.v4.u32 [%q1+16], {%r3, %r4, %r5, %r6};"""
    return [case("mov of vectors", body, 256, 128, 8, declare=".reg .b8 %c<6>;")]
