# ruff: noqa: E501 - PTX bodies read better unbroken
"""mbarriers and the copies that complete on them."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault
from tests.ptx.assemble import assemble

DECLARE = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];"
SETUP = """
    mov.u32 %r3, tile; mov.u32 %r20, full; mov.u32 %r21, empty; setp.eq.u32 %p1, %r0, 0; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], {count}; @%p1 mbarrier.init.shared::cta.b64 [%r20+8], {count};
    @%p1 mbarrier.init.shared::cta.b64 [%r21], 64; @%p1 mbarrier.init.shared::cta.b64 [%r21+8], 64;
    fence.mbarrier_init.release.cluster; {barrier}
"""
READY = SETUP.format(count=1, barrier="bar.sync 0;")
CHECK = "add.s64 %rd1, %rd81, %rd0; st.global.u32 [%rd1], %r9;"


def wait(address: str, parity: str, label: str) -> str:
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [{address}], {parity}; @!%p2 bra {label};\n"
    )


def launch(body: str, blocks: int = 2, threads: int = 64) -> tuple[np.ndarray, np.ndarray]:
    x, out = np.arange(1024, dtype=np.int32), np.zeros(blocks * threads, np.int32)
    assemble(body, "u64 u64", declare=DECLARE).launch((blocks,), (threads,), [x, out], spin_limit=2000)
    return x, out.reshape(blocks, threads)


def fault(body: str) -> str:
    with pytest.raises(Fault) as caught:
        launch(body)
    return caught.value.kind


ISSUE = """
    @!%p1 bra SKIP;
    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r20], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd80], 256, [%r20];
SKIP:
"""


def test_bulk_copy_is_visible_after_its_phase() -> None:
    _, out = launch(f"{READY} {ISSUE} {wait('%r20', '0', 'W')} ld.shared.u32 %r9, [%r4]; {CHECK}")
    assert (out == np.arange(64)).all()


def test_bulk_copy_before_its_phase() -> None:
    assert fault(f"{READY} {ISSUE} ld.shared.u32 %r9, [%r4]; {CHECK}") == "pending copy"
    # One warp has waited; the other must too.
    half = f"setp.lt.u32 %p3, %r0, 32; @!%p3 bra READ;\n{wait('%r20', '0', 'W')} READ:"
    sleep = "mov.u32 %r8, 0;\nSLEEP: add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, %r0; @%p4 bra SLEEP;"
    assert fault(f"{READY} {ISSUE} {half} {sleep} ld.shared.u32 %r9, [%r4]; {CHECK}") == "data race"


def test_initialization_must_be_ordered_and_present() -> None:
    body = f"{SETUP.format(count=64, barrier='')} mbarrier.arrive.shared::cta.b64 _, [%r20];"
    assert fault(body) == "data race"
    assert (
        fault(
            "mov.u32 %r3, tile; mov.u64 %rd1, 1; st.shared.u64 [%r3], %rd1; bar.sync 0; mbarrier.arrive.shared.b64 _, [%r3];"
        )
        == "mbarrier misuse"
    )


def test_transactions_that_never_come() -> None:
    body = f"{READY} {ISSUE.replace('_, [%r20], 256', '_, [%r20], 512')} {wait('%r20', '0', 'W')}"
    assert fault(body) == "mbarrier misuse"


def test_token_and_arrival_counts() -> None:
    setup = SETUP.format(count=64, barrier="bar.sync 0;")
    _, out = launch(
        f"{setup} st.shared.u32 [%r4], %r0; mbarrier.arrive.shared::cta.b64 %rd5, [%r20];\n"
        "W: mbarrier.test_wait.shared::cta.b64 %p2, [%r20], %rd5; @!%p2 bra W;\n"
        f"xor.b32 %r5, %r0, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r9, [%r5]; {CHECK}"
    )
    assert (out == 63 - np.arange(64)).all()
    assert fault(f"{READY} mbarrier.arrive.shared::cta.b64 _, [%r20], 3;") == "mbarrier misuse"


def test_two_stage_pipeline() -> None:
    body = f"""
{READY}
    mov.u32 %r9, 0; mov.u32 %r10, 0;
LOOP:
    and.b32 %r11, %r10, 1; shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1; xor.b32 %r18, %r12, 1;
    shl.b32 %r13, %r11, 3; add.u32 %r14, %r20, %r13; add.u32 %r15, %r21, %r13;
    shl.b32 %r16, %r11, 8; add.u32 %r17, %r3, %r16;
    @!%p1 bra CONSUME;
    {wait("%r15", "%r18", "FREE")}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r14], 256;
    mul.wide.u32 %rd2, %r10, 256; add.s64 %rd2, %rd80, %rd2;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r17], [%rd2], 256, [%r14];
CONSUME:
    {wait("%r14", "%r12", "FILLED")}
    shl.b32 %r19, %r0, 2; add.u32 %r19, %r19, %r17; ld.shared.u32 %r22, [%r19]; add.u32 %r9, %r9, %r22;
    mbarrier.arrive.shared::cta.b64 _, [%r15];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 6; @%p5 bra LOOP;
    {CHECK}
    """
    x, out = launch(body)
    assert (out == x[: 6 * 64].reshape(6, 64).sum(0)).all()
    unguarded = body.replace(wait("%r15", "%r18", "FREE"), "")
    assert fault(unguarded) in ("data race", "pending copy")


def test_threads_copies_arrive_on_a_barrier() -> None:
    setup = SETUP.format(count=64, barrier="bar.sync 0;")
    copy = "add.s64 %rd2, %rd80, %rd0; cp.async.ca.shared.global [%r4], [%rd2], 4; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r20];"
    read = (
        f"xor.b32 %r5, %r0, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r9, [%r5]; {CHECK}"
    )
    _, out = launch(f"{setup} {copy} {wait('%r20', '0', 'W')} {read}")
    assert (out == np.arange(128).reshape(2, 64)[:, ::-1]).all()
    assert fault(f"{setup} {copy} {read}") == "pending copy"


def test_bulk_store() -> None:
    body = f"""
    {READY} add.u32 %r6, %r0, 7; st.shared.u32 [%r4], %r6; fence.proxy.async.shared::cta; bar.sync 0;
    mul.wide.u32 %rd2, %r90, 256; add.s64 %rd2, %rd81, %rd2;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
    """
    _, out = launch(body)
    assert (out == np.arange(64) + 7).all()
    assert fault(body.replace("bar.sync 0;\n    mul", "mul")) == "data race"
