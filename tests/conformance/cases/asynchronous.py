# ruff: noqa: E501 - PTX bodies read better unbroken
"""cp.async, mbarrier and bulk copies."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Case
from tests.conformance.cases.atomic import SIGNALING
from tests.conformance.cases.memory import case
from tests.conformance.inputs import operands
from tests.conformance.rules import EXACT

_FILL = "mov.u32 %r20, 0x5a5a5a5a; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 16, %r2; st.shared.v4.u32 [%r3], {%r20, %r20, %r20, %r20};"
_OUT = "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3]; mad.wide.u32 %q1, %r0, 16, %out; st.global.v4.u32 [%q1], {%r5, %r6, %r7, %r8};"
_TILE = ".shared .align 128 .b8 tile[2048]; .shared .align 8 .b64 bar;"
_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
}


def cases() -> list[Case]:
    out = []
    for size in (4, 8, 16):
        for how in ("ca", "cg") if size == 16 else ("ca",):
            out.append(_copy(size, how, "", "all"))
            out.append(_copy(size, how, ", %r9", "source size"))
            out.append(_copy(size, how, ", %p1", "ignored source"))
    out += [_groups(), _arrival(), _states(), _transactions(), _drop(), _bulk()]
    out += [_bulk_reduction(op, t) for op, types in _REDUCTIONS.items() for t in types]
    return out


def _copy(size: int, how: str, rest: str, what: str) -> Case:
    """Thread i copies `size` bytes, of which it reads i modulo size + 1, or none where i is odd."""
    body = f"""
{_FILL} rem.u32 %r9, %r0, {size + 1}; and.b32 %r10, %r0, 1; setp.eq.u32 %p1, %r10, 1; mad.wide.u32 %q0, %r0, 16, %in0;
cp.async.{how}.shared.global [%r3], [%q0], {size}{rest}; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; {_OUT}"""
    return case(f"cp.async.{how} {size} {what}", body, 512, 128, 4, declare=_TILE)


def _groups() -> Case:
    body = f"""
{_FILL} mad.wide.u32 %q0, %r0, 16, %in0;
cp.async.ca.shared.global [%r3], [%q0], 4; cp.async.commit_group; cp.async.ca.shared.global [%r3+8], [%q0+8], 8;
cp.async.commit_group; cp.async.ca.shared.global [%r3+4], [%q0+4], 4; cp.async.wait_group 1; ld.shared.u32 %r11, [%r3];
cp.async.wait_all; bar.sync 0; {_OUT}"""
    return case("cp.async groups", body, 512, 128, 4, declare=_TILE)


def _arrival() -> Case:
    """Copies that arrive on an mbarrier when they land, counted and not."""
    wait = "{L}: mbarrier.try_wait.parity.shared.b64 %p1, [bar], {parity}; @!%p1 bra {L};"
    body = f"""
{_FILL} setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [bar], 128; bar.sync 0; mad.wide.u32 %q0, %r0, 16, %in0;
cp.async.ca.shared.global [%r3], [%q0], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
{wait.format(L="FIRST", parity=0)}
cp.async.ca.shared.global [%r3+8], [%q0], 8; cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];
{wait.format(L="SECOND", parity=1)} bar.sync 0; {_OUT}"""
    return case("cp.async.mbarrier.arrive", body, 512, 128, 4, declare=_TILE)


def _put(slot: int, value: str) -> str:
    return f"st.global.u32 [%out+{4 * slot}], {value};"


def _states() -> Case:
    """Pending counts of one thread's states, and what waits by state and by parity say."""
    steps, slot = ["mbarrier.init.shared.b64 [bar], 5;"], 0
    arrivals = ("", ", 2", "", "", ", 3", ", 1", "", "", ", 4")
    for count in arrivals:
        steps.append(
            f"mbarrier.arrive.shared.b64 %q1, [bar]{count}; mbarrier.pending_count.b64 %r1, %q1;"
            + _put(slot, "%r1")
        )
        for i, wait in enumerate(("test_wait", "try_wait")):
            steps.append(
                f"mbarrier.{wait}.shared.b64 %p1, [bar], %q1; selp.u32 %r2, 1, 0, %p1;"
                + _put(slot + 1 + i, "%r2")
            )
        for parity in (0, 1):
            steps.append(
                f"mbarrier.test_wait.parity.shared.b64 %p1, [bar], {parity}; selp.u32 %r2, 1, 0, %p1;"
            )
            steps.append(_put(slot + 3 + parity, "%r2"))
        slot += 5
    body = " ".join(steps)
    return case("mbarrier states and parities", body, 1, len(arrivals), 5, threads=1, declare=_TILE)


def _drop() -> Case:
    """arrive_drop lowers the count of the phases that follow."""
    steps = ["mbarrier.init.shared.b64 [bar], 4;"]
    for slot, action in enumerate(
        ("arrive_drop", "arrive", "arrive", "arrive", "arrive", "arrive_drop", "arrive", "arrive")
    ):
        steps.append(
            f"mbarrier.{action}.shared.b64 %q1, [bar]; mbarrier.pending_count.b64 %r1, %q1;"
            + _put(2 * slot, "%r1")
        )
        steps.append(
            "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; selp.u32 %r2, 1, 0, %p1;"
            + _put(2 * slot + 1, "%r2")
        )
    return case("mbarrier.arrive_drop", " ".join(steps), 1, 8, 2, threads=1, declare=_TILE)


def _transactions() -> Case:
    """Expected and completed bytes hold a phase open."""
    steps = ["mbarrier.init.shared.b64 [bar], 2;"]
    actions = (
        "mbarrier.arrive.expect_tx.shared.b64 %q1, [bar], 64;",
        "mbarrier.arrive.shared.b64 %q2, [bar];",
        "mbarrier.complete_tx.shared::cta.b64 [bar], 60;",
        "mbarrier.complete_tx.shared::cta.b64 [bar], 4;",
        "mbarrier.expect_tx.shared::cta.b64 [bar], 16;",
        "mbarrier.arrive.shared.b64 %q3, [bar], 2;",
        "mbarrier.complete_tx.shared::cta.b64 [bar], 16;",
    )
    actions = tuple(
        a.replace("mbarrier.complete_tx", "mbarrier.complete_tx.relaxed.cta").replace(
            "mbarrier.expect_tx", "mbarrier.expect_tx.relaxed.cta"
        )
        for a in actions
    )
    for slot, action in enumerate(actions):
        steps.append(action)
        for parity in (0, 1):
            steps.append(
                f"mbarrier.test_wait.parity.shared.b64 %p1, [bar], {parity}; selp.u32 %r2, 1, 0, %p1;"
            )
            steps.append(_put(2 * slot + parity, "%r2"))
    return case("mbarrier transactions", " ".join(steps), 1, len(actions), 2, threads=1, declare=_TILE)


def _bulk() -> Case:
    """Global to shared memory by mbarrier, and back by bulk groups."""
    body = f"""
{_FILL} fence.proxy.async; bar.sync 0; setp.ne.u32 %p0, %r0, 0; @%p0 bra WAIT; mbarrier.init.shared.b64 [bar], 1; fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1040;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%in0], 1024, [bar];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+1040], [%in0+1024], 16, [bar];
WAIT: bar.sync 0; LOOP: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra LOOP;
{_OUT} fence.proxy.async; bar.sync 0; @%p0 bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%out+2048], [%r2+16], 1040; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE: """
    return case("cp.async.bulk", body, 512, 1024, declare=_TILE)


def _bulk_reduction(op: str, t: str) -> Case:
    """A reduction of 1 KiB of shared memory into the output."""
    noftz = ".noftz" if t in ("f16", "bf16") and op == "add" else ""
    body = f"""
mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 16, %r2; mad.wide.u32 %q0, %r0, 16, %in0; mad.wide.u32 %q1, %r0, 16, %in1;
mad.wide.u32 %q2, %r0, 16, %out;
ld.global.v4.u32 {{%r5, %r6, %r7, %r8}}, [%q0]; st.shared.v4.u32 [%r3], {{%r5, %r6, %r7, %r8}};
ld.global.v4.u32 {{%r5, %r6, %r7, %r8}}, [%q1]; st.global.v4.u32 [%q2], {{%r5, %r6, %r7, %r8}};
fence.proxy.async; bar.sync 0; setp.ne.u32 %p0, %r0, 0; @%p0 bra DONE;
cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{noftz}.{t} [%out], [%r2], 1024;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: """
    size = {"16": 2, "32": 4, "64": 8}[t[-2:]]
    name = f"cp.reduce.async.bulk.{op}.{t}"
    return Case(
        name,
        body,
        lambda: operands(f"{t} {t}", 1024 // size),
        lambda: np.full(1024 // size, 0xA5, f"u{size}"),
        threads=64,
        declare=_TILE,
        value=t,
        rule=SIGNALING if t == "f64" else EXACT,
    )
