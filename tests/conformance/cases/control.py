# ruff: noqa: E501 - PTX bodies read better unbroken
"""Divergence, loops, calls and barriers."""

from __future__ import annotations

from tests.conformance.case import Case
from tests.conformance.cases.memory import case

_PUT = "mad.wide.u32 %q1, %r0, 4, %out; st.global.u32 [%q1], %r1;"
_COLLATZ = """
.func (.param .b32 steps) collatz(.param .b32 start)
{ .reg .pred %p<2>; .reg .b32 %r<4>; mov.u32 %r0, 0; ld.param.u32 %r2, [start];
AGAIN: setp.le.u32 %p0, %r2, 1; @%p0 bra END; and.b32 %r1, %r2, 1; setp.eq.u32 %p1, %r1, 0; add.u32 %r0, %r0, 1;
@%p1 bra EVEN; mad.lo.u32 %r2, %r2, 3, 1; bra AGAIN; EVEN: shr.u32 %r2, %r2, 1; bra AGAIN;
END: st.param.b32 [steps], %r0; ret; }"""


def cases() -> list[Case]:
    out = [
        case("collatz loop in a function", f"add.u32 %r2, %r0, 1; {{ .param .b32 start; .param .b32 steps; st.param.b32 [start], %r2; call (steps), collatz, (start); ld.param.u32 %r1, [steps]; }} {_PUT}", 1, 128, module=_COLLATZ),
        case("nested divergence", f"""
mov.u32 %r1, 0; and.b32 %r2, %r0, 3; setp.lt.u32 %p1, %r2, 2; @%p1 bra LOW;
add.u32 %r1, %r1, 1; setp.eq.u32 %p2, %r2, 3; @%p2 bra BOTH; add.u32 %r1, %r1, 20; bra.uni BOTH;
LOW: add.u32 %r1, %r1, 300; setp.eq.u32 %p2, %r2, 1; @!%p2 bra BOTH; add.u32 %r1, %r1, 4000;
BOTH: activemask.b32 %r3; add.u32 %r1, %r1, %r0; {_PUT}""", 1, 128),
        case("brx.idx", f"""
and.b32 %r2, %r0, 3; TABLE: .branchtargets ZERO, ONE, TWO, THREE; brx.idx %r2, TABLE;
ZERO: mov.u32 %r1, 10; bra DONE; ONE: mov.u32 %r1, 11; bra DONE; TWO: mov.u32 %r1, 12; bra DONE; THREE: mov.u32 %r1, 13;
DONE: {_PUT}""", 1, 128),
        case("exit of some threads", f"""
and.b32 %r2, %r0, 7; setp.eq.u32 %p1, %r2, 5; mov.u32 %r1, %r0; {_PUT} @%p1 exit; bar.sync 0; add.u32 %r1, %r1, 1000; {_PUT}""", 1, 128),
        case("predicated stores", """
and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; mov.u32 %r1, %r0; mad.wide.u32 %q1, %r0, 4, %out; @%p1 st.global.u32 [%q1], %r1;""", 1, 128),
        case("named barriers", f"""
.shared .align 4 .b8 tile[512]; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 4, %r2; setp.ge.u32 %p1, %r0, 64; @%p1 bra CONSUME;
mul.lo.u32 %r4, %r0, 7; st.shared.u32 [%r3], %r4; bar.arrive 1, 128; bar.sync 2, 128; ld.shared.u32 %r1, [%r3+256]; bra DONE;
CONSUME: bar.sync 1, 128; ld.shared.u32 %r1, [%r3+-256]; add.u32 %r4, %r1, 5; st.shared.u32 [%r3], %r4; bar.sync 2, 128;
DONE: {_PUT}""", 1, 128),
        case("bar.sync of half of the block", f"""
.shared .align 4 .b8 tile[512]; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 4, %r2; shr.u32 %r4, %r0, 6; add.u32 %r4, %r4, 3;
xor.b32 %r5, %r0, 63; mad.lo.u32 %r5, %r5, 4, %r2; st.shared.u32 [%r3], %r0; barrier.sync %r4, 64; ld.shared.u32 %r1, [%r5]; {_PUT}""", 1, 128),
    ]  # fmt: skip
    for op in ("popc", "and", "or"):
        kind, target, end = (
            ("u32", "%r1", "") if op == "popc" else ("pred", "%p2", "selp.u32 %r1, 1, 0, %p2;")
        )
        for limit in (0, 1, 77, 128):
            body = f"setp.lt.u32 %p1, %r0, {limit}; bar.red.{op}.{kind} {target}, 0, %p1; {end} {_PUT}"
            out.append(case(f"bar.red.{op} of {limit}", body, 1, 128))
            body = f"setp.lt.u32 %p1, %r0, {limit}; bar.red.{op}.{kind} {target}, 0, !%p1; {end} {_PUT}"
            out.append(case(f"bar.red.{op} of all but {limit}", body, 1, 128))
    names = (
        "%ntid.x",
        "%ctaid.x",
        "%nctaid.x",
        "%laneid",
        "%lanemask_eq",
        "%lanemask_lt",
        "%lanemask_le",
        "%lanemask_gt",
    )
    names = (*names, "%lanemask_ge", "%tid.y", "%ntid.z")
    puts = " ".join(f"mov.u32 %r1, {n}; st.global.u32 [%q1+{4 * i}], %r1;" for i, n in enumerate(names))
    body = f"mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 64, %r0; mad.wide.u32 %q1, %r2, {4 * len(names)}, %out; {puts}"
    out.append(case("special registers", body, 1, 192, len(names), threads=64, blocks=3))
    return out
