# ruff: noqa: E501 - PTX bodies read better unbroken
"""mbarriers and the copies that complete on them."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault
from tests.ptx.assemble import assemble, line_of

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


# -- one thread, one barrier --


def alone(body: str) -> list[int]:
    """Runs one thread with a barrier at %r20 and a tile at %r3; %r40 … %r47 come back."""
    out = np.zeros(8, np.uint32)
    clear = "".join(f"mov.u32 %r{40 + i}, 0;" for i in range(8))
    show = "".join(f"st.global.u32 [%rd80+{4 * i}], %r{40 + i};" for i in range(8))
    body = f"mov.u32 %r20, full; mov.u32 %r3, tile; {clear} {body} {show}"
    assemble(body, declare=DECLARE).launch((1,), (1,), [out], spin_limit=200)
    return [int(n) for n in out]


def misuse(body: str) -> str:
    with pytest.raises(Fault) as caught:
        alone(body)
    assert caught.value.kind == "mbarrier misuse" and "\n" not in str(caught.value)
    return str(caught.value)


def init(count: int) -> str:
    return f"mbarrier.init.shared::cta.b64 [%r20], {count};"


ARRIVE = "mbarrier.arrive.shared::cta.b64"


def over(parity: int, register: int) -> str:
    """%r<register> = 1 if the phase of a parity is over."""
    return (
        f"mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r20], {parity}; selp.u32 %r{register}, 1, 0, %p2;"
    )


def test_phases_complete_by_arrivals() -> None:
    # Before anything, the phase "before the first" of parity 1 counts as over.
    body = f"{init(2)} {over(0, 40)} {over(1, 41)} {ARRIVE} _, [%r20]; {over(0, 42)} {ARRIVE} _, [%r20]; {over(0, 43)} {over(1, 44)}"
    assert alone(body)[:5] == [0, 1, 0, 1, 0]
    again = f"{ARRIVE} _, [%r20], 2; {over(1, 45)} {over(0, 46)}"
    assert alone(body + again)[5:7] == [1, 0]


@pytest.mark.parametrize(
    "arrive",
    [
        f"{ARRIVE} _, [%r20], 3;",
        f"mov.u32 %r5, 3; {ARRIVE} _, [%r20], %r5;",
        f"{ARRIVE} %rd5, [%r20]; {ARRIVE} %rd5, [%r20], 2;",
        f"mbarrier.arrive.noComplete.shared::cta.b64 %rd5, [%r20], 2; {ARRIVE} _, [%r20];",
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r20], 3;",
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r20], 3;",
        "cvta.shared.u64 %rd6, %rd5; mbarrier.arrive.b64 %rd7, [%rd6], 3;",
        f"{ARRIVE} _, [%r20], 2; mbarrier.arrive_drop.shared::cta.b64 _, [%r20];",
    ],
)
def test_forms_of_arrival(arrive: str) -> None:
    assert alone(f"cvt.u64.u32 %rd5, %r20; {init(3)} {over(0, 40)} {arrive} {over(0, 41)}")[:2] == [0, 1]


@pytest.mark.parametrize("test", ["test_wait", "try_wait"])
def test_waits_by_state(test: str) -> None:
    hint = ", %r9" if test == "try_wait" else ""
    wait = f"mov.u32 %r9, 1000; mbarrier.{test}.shared::cta.b64 %p2, [%r20], %rd5{hint}; selp.u32 %r{{}}, 1, 0, %p2;"
    body = f"{init(2)} {ARRIVE} %rd5, [%r20]; {wait.format(40)} {ARRIVE} %rd6, [%r20]; {wait.format(41)}"
    assert alone(body)[:2] == [0, 1]
    # A state two phases old is nobody's.
    assert "only that of the current phase" in misuse(f"{body} {ARRIVE} _, [%r20], 2; {wait.format(42)}")
    acquire = wait.replace(test, f"{test}.acquire.cluster")
    assert alone(f"{init(1)} {ARRIVE} %rd5, [%r20]; {acquire.format(40)}")[0] == 1


def test_pending_counts() -> None:
    body = init(5)
    for i, count in enumerate((1, 3, 1, 2, 3)):
        body += f"{ARRIVE} %rd5, [%r20], {count}; mbarrier.pending_count.b64 %r{40 + i}, %rd5;"
    assert alone(body)[:5] == [5, 4, 1, 5, 3]


def test_dropping_out_lowers_the_count_of_the_phases_to_come() -> None:
    drop = "mbarrier.arrive_drop.shared::cta.b64 %rd5, [%r20], 2;"
    body = (
        f"{init(3)} {drop} {over(0, 40)} {ARRIVE} _, [%r20]; {over(0, 41)} {ARRIVE} _, [%r20]; {over(1, 42)}"
    )
    assert alone(body)[:3] == [0, 1, 1]


def test_transactions_hold_a_phase_open() -> None:
    expect = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], {};"
    complete = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r20], {};"
    body = f"{init(1)} {expect.format(96)} {ARRIVE} _, [%r20]; {over(0, 40)} {complete.format(64)} {over(0, 41)} {complete.format(32)} {over(0, 42)}"
    assert alone(body)[:3] == [0, 0, 1]
    # Bytes may complete before they are expected: the count is signed.
    early = f"{init(1)} {complete.format(64)} {over(0, 40)} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64; {over(0, 41)}"
    assert alone(early)[:2] == [0, 1]
    drop = f"{init(2)} mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%r20], 64; {ARRIVE} _, [%r20]; {over(0, 40)} {complete.format(64)} {over(0, 41)} {ARRIVE} _, [%r20]; {over(1, 42)}"
    assert alone(drop)[:3] == [0, 1, 1]


LIMIT = (1 << 20) - 1


def test_ranges_of_the_counts() -> None:
    assert alone(f"{init(LIMIT)} {ARRIVE} _, [%r20], {LIMIT}; {over(0, 40)}")[0] == 1
    for count in (0, LIMIT + 1):
        assert "an arrival count of" in misuse(init(count))
    expect = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], {};"
    assert alone(f"{init(1)} {expect.format(LIMIT)}")
    assert "overflows" in misuse(f"{init(1)} {expect.format(LIMIT)} {expect.format(1)}")
    complete = expect.replace("expect_tx", "complete_tx")
    assert "overflows" in misuse(f"{init(1)} {complete.format(LIMIT)} {complete.format(1)}")


@pytest.mark.parametrize(
    "body",
    [
        f"{ARRIVE} _, [%r20];",
        f"{over(0, 40)}",
        "mbarrier.inval.shared::cta.b64 [%r20];",
        f"{init(1)} {init(1)}",
        f"{init(1)} mbarrier.inval.shared::cta.b64 [%r20]; {ARRIVE} _, [%r20];",
        f"{init(2)} {ARRIVE} _, [%r20], 3;",
        f"{init(2)} {ARRIVE} _, [%r20], 0;",
        f"{init(2)} mbarrier.arrive.noComplete.shared::cta.b64 %rd5, [%r20], 2;",
    ],
)
def test_misuse(body: str) -> None:
    misuse(body)


def test_an_invalidated_barrier_is_plain_memory_or_another_barrier() -> None:
    inval = "mbarrier.inval.shared::cta.b64 [%r20];"
    body = f"{init(2)} {inval} mov.u32 %r5, 9; st.shared.u32 [%r20], %r5; ld.shared.u32 %r40, [%r20]; {init(1)} {ARRIVE} _, [%r20]; {over(0, 41)}"
    assert alone(body)[:2] == [9, 1]


@pytest.mark.parametrize(
    ("address", "kind"),
    [("%r20+4", "misaligned"), ("%r20+4096", "out of bounds"), ("%rd80", "unsupported address")],
)
def test_addresses_of_barriers(address: str, kind: str) -> None:
    space = "" if address.startswith("%rd") else ".shared::cta"
    with pytest.raises(Fault) as caught:
        alone(f"mbarrier.init{space}.b64 [{address}], 1;")
    assert caught.value.kind == kind


def test_a_phase_that_never_comes_tells_where_every_warp_is() -> None:
    other = "setp.lt.u32 %p3, %r0, 32; @%p3 bra FIRST;\n"
    body = f"{READY} {other} {wait('%r20+8', '0', 'SECOND')} bra DONE;\n {wait('%r20', '0', 'FIRST')} DONE:"
    with pytest.raises(Fault) as caught:
        launch(body, blocks=1)
    kernel = assemble(body, "u64 u64", declare=DECLARE)
    for warp, barrier in enumerate(("%r20]", "%r20+8]")):
        line = line_of(kernel, f"try_wait.parity.shared::cta.b64 %p2, [{barrier}")
        assert f"warp {warp} (32 threads) at line {line}" in str(caught.value)
    assert (caught.value.kind, "\n" in str(caught.value)) == ("mbarrier misuse", False)
