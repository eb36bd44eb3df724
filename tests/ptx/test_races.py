# ruff: noqa: E501 - PTX bodies read better unbroken
"""Races in global memory: what orders warps and blocks, and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gen.ptx import Fault, Report, Undefined
from tests.ptx.assemble import assemble

# Thread 0 of each block is %p1, block 0 is %p2; %rd1 is the thread's own word of argument 0, %rd2 that of the
# thread with the same index in the next block (modulo 4 blocks of 64 threads).
SETUP = """
    setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r90, 0; mov.u32 %r1, 1;
    add.s64 %rd1, %rd80, %rd0; add.u32 %r2, %r92, 64; and.b32 %r2, %r2, 255; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, %rd80, %rd2;
"""
ONE_BATCH, ONE_BLOCK_A_BATCH = 256_000_000, 1


def launch(
    body: str, *, threads: int = 64, blocks: int = 4, budget: int = ONE_BATCH, **options: Any
) -> Report:
    data, flags = np.zeros(blocks * threads, np.uint32), np.zeros(16, np.uint32)
    kernel = assemble(SETUP + body, "u64 u64")
    return kernel.launch((blocks,), (threads,), [data, flags], budget=budget, spin_limit=2000, **options)


def race(body: str, **options: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        launch(body, **options)
    assert caught.value.kind == "data race", caught.value
    return caught.value


def both_budgets(body: str, **options: Any) -> None:
    """The race is found in one batch and across batches of one block."""
    for budget in (ONE_BATCH, ONE_BLOCK_A_BATCH):
        race(body, budget=budget, **options)


def test_blocks_on_their_own_words_do_not_race() -> None:
    for budget in (ONE_BATCH, ONE_BLOCK_A_BATCH):
        report = launch(
            "st.global.u32 [%rd1], %r0; ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1], %r3;", budget=budget
        )
        assert report.warnings == []


def test_reading_what_another_block_wrote() -> None:
    both_budgets("st.global.u32 [%rd1], %r1; bar.sync 0; ld.global.u32 %r3, [%rd2];")


def test_overwriting_what_another_block_read() -> None:
    both_budgets(
        "ld.global.u32 %r3, [%rd80]; setp.ne.u32 %p3, %r90, 3; @%p3 bra END; @%p1 st.global.u32 [%rd80], %r1;\nEND:"
    )


def test_a_block_that_reads_last_may_race_with_its_own_write() -> None:
    body = "ld.global.u32 %r3, [%rd80]; setp.eq.u32 %p3, %r92, 255; @%p3 st.global.u32 [%rd80], %r1;"
    assert "which warp" not in str(race(body)) and "read with nothing" in str(race(body))
    race(body, blocks=1, threads=256)


def test_different_values_in_one_place() -> None:
    both_budgets("@%p1 st.global.u32 [%rd80], %r90;")
    fault = race("st.global.u32 [%rd80], %r0;", blocks=1, threads=32)
    assert "in the same instruction" in str(fault)


def test_equal_values_are_a_warning() -> None:
    for budget in (ONE_BATCH, ONE_BLOCK_A_BATCH):
        (warning,) = launch("@%p1 st.global.u32 [%rd80], %r1;", budget=budget).warnings
        assert "same value" in warning and "st.global" in warning


def test_warps_of_a_block() -> None:
    other = "xor.b32 %r4, %r92, 32; mul.wide.u32 %rd3, %r4, 4; add.s64 %rd3, %rd80, %rd3;"
    body = f"st.global.u32 [%rd1], %r0; {{}} {other} ld.global.u32 %r3, [%rd3];"
    fault = race(body.format(""))
    assert "of the same block wrote with no barrier" in str(fault)
    assert fault.allocation is not None and fault.allocation.argument == 0
    launch(body.format("bar.sync 0;"))


def test_the_message_names_the_other_block() -> None:
    fault = race(
        "@%p2 st.global.u32 [%rd1], %r0; setp.eq.u32 %p3, %r90, 3; @%p3 ld.global.u32 %r3, [%rd80+128];"
    )
    assert (fault.block, fault.thread) == ((3, 0, 0), (0, 0, 0))
    assert "warp 0 reads global memory that warp 1 of block (0, 0, 0) wrote" in str(fault)


MERGE = """
    st.global.u32 [%rd1], %r0; {before}
    @%p1 {atomic} %r5, [%rd81], 1;
    mov.u32 %r7, shared; @%p1 st.shared.u32 [%r7], %r5; bar.sync 0; ld.shared.u32 %r5, [%r7];
    setp.ne.u32 %p3, %r5, 3; @%p3 bra END; {after}
    ld.global.u32 %r6, [%rd2]; setp.ne.u32 %p4, %r6, %r0; @%p4 trap;
    mov.u32 %r8, 0; @%p1 st.global.u32 [%rd81], %r8;
END:
"""


def merge(
    atomic: str = "atom.global.add.u32",
    before: str = "bar.sync 0; @%p1 membar.gl;",
    after: str = "",
    **options: Any,
) -> Report:
    data, flags = np.zeros(256, np.uint32), np.zeros(1, np.uint32)
    body = SETUP + MERGE.format(atomic=atomic, before=before, after=after)
    kernel = assemble(body, "u64 u64", declare=".shared .b32 shared;")
    return kernel.launch((4,), (64,), [Undefined(data), flags], **options)


@pytest.mark.parametrize("budget", [ONE_BATCH, ONE_BLOCK_A_BATCH])
def test_the_last_block_merges(budget: int) -> None:
    release = "atom.acq_rel.gpu.global.add.u32"
    for report in (
        merge(budget=budget),
        merge(before="membar.gl; bar.sync 0;", budget=budget),
        merge(before="fence.acq_rel.gpu; bar.sync 0;", after="fence.acq_rel.gpu;", budget=budget),
        merge(release, before="bar.sync 0;", budget=budget),
    ):
        assert report.warnings == []


@pytest.mark.parametrize("budget", [ONE_BATCH, ONE_BLOCK_A_BATCH])
@pytest.mark.parametrize(
    "broken",
    [
        {"before": "bar.sync 0;"},
        {"before": "bar.sync 0; @%p1 membar.cta;"},
        {"before": "@%p1 membar.gl;"},  # without the barrier it covers one warp
        {"atomic": "atom.global.cta.add.u32"},
        {"atomic": "atom.acq_rel.cta.global.add.u32", "before": "bar.sync 0;"},
        {"atomic": "atom.acquire.gpu.global.add.u32", "before": "bar.sync 0;"},
    ],
)
def test_merges_with_too_little_order(broken: dict[str, str], budget: int) -> None:
    with pytest.raises(Fault) as caught:
        merge(budget=budget, **broken)
    assert caught.value.kind == "data race"


FLAG = """
    setp.gt.u32 %p3, %r90, 1; @%p3 bra END; @!%p2 bra CONSUME;
    st.global.u32 [%rd1], %r0; bar.sync 0; {release} bra END;
CONSUME: {wait}
    sub.s64 %rd3, %rd1, 256; ld.global.u32 %r6, [%rd3]; setp.ne.u32 %p4, %r6, %r0; @%p4 trap; {reset}
END:
"""
SPIN = "\nWAIT: {} %r5, [%rd81]; setp.eq.u32 %p4, %r5, 0; @%p4 bra WAIT;\n"
RELEASE, ACQUIRE = "@%p1 st.release.gpu.global.u32 [%rd81], %r1;", SPIN.format("ld.acquire.gpu.global.u32")
VOLATILE = "@%p1 membar.gl; @%p1 st.volatile.global.u32 [%rd81], %r1;"
POLL = SPIN.format("ld.volatile.global.u32")


def test_flags_between_blocks() -> None:
    launch(FLAG.format(release=RELEASE, wait=ACQUIRE, reset=""))
    launch(FLAG.format(release=VOLATILE, wait=POLL + "membar.gl;", reset=""))
    launch(
        FLAG.format(
            release=VOLATILE,
            wait=ACQUIRE,
            reset="bar.sync 0; mov.u32 %r5, 0; @%p1 st.global.u32 [%rd81], %r5;",
        )
    )
    launch(
        FLAG.format(
            release="@%p1 membar.gl; @%p1 atom.global.exch.b32 %r5, [%rd81], 1;", wait=ACQUIRE, reset=""
        )
    )
    only_one_polls = f"@!%p1 bra MET; {POLL}\nMET: bar.sync 0; membar.gl;"
    launch(FLAG.format(release=VOLATILE, wait=only_one_polls, reset=""))


@pytest.mark.parametrize(
    ("release", "wait"),
    [
        ("@%p1 st.global.u32 [%rd81], %r1;", ACQUIRE),
        ("@%p1 st.relaxed.gpu.global.u32 [%rd81], %r1;", ACQUIRE),
        ("@%p1 st.relaxed.gpu.global.u32 [%rd81], %r1; membar.gl;", ACQUIRE),
        ("@%p1 st.release.cta.global.u32 [%rd81], %r1;", ACQUIRE),
        (VOLATILE, POLL),
        (VOLATILE, POLL + "membar.cta;"),
        (RELEASE, SPIN.format("ld.acquire.cta.global.u32")),
        (RELEASE, SPIN.format("ld.relaxed.gpu.global.u32")),
    ],
)
def test_flags_with_too_little_order(release: str, wait: str) -> None:
    race(FLAG.format(release=release, wait=wait, reset=""))


def test_what_follows_the_release_is_not_covered() -> None:
    late = "st.global.u32 [%rd1], %r0; "
    body = (
        FLAG.format(release=RELEASE, wait=ACQUIRE, reset="")
        .replace(late, "")
        .replace("bar.sync 0; @%p1 st.rel", "@%p1 st.rel")
    )
    race(body.replace("bra END;\nCONSUME", f"{late} bra END;\nCONSUME"))


def test_flags_between_warps_of_a_block() -> None:
    body = """
    setp.ge.u32 %p3, %r0, 32; @%p3 bra CONSUME;
    st.global.u32 [%rd1], %r0; bar.warp.sync -1; {fence} @%p1 st.volatile.global.u32 [%rd3], %r1; bra END;
CONSUME: ld.volatile.global.u32 %r5, [%rd3]; setp.eq.u32 %p4, %r5, 0; @%p4 bra CONSUME;
    ld.global.u32 %r6, [%rd1+-128];
END:
    """
    flag = "mul.wide.u32 %rd3, %r90, 4; add.s64 %rd3, %rd81, %rd3;"
    launch(flag + body.format(fence="membar.cta;"))
    launch(flag + body.format(fence="membar.gl;"))
    race(flag + body.format(fence=""))


GRID_BARRIER = """
    mov.u32 %r20, 0;
LOOP:
    add.u32 %r21, %r20, 100; st.global.u32 [%rd1], %r21;
    bar.sync 0; @!%p1 bra MET; membar.gl; {arrive}
    mad.lo.u32 %r22, %r20, 8, 4;
WAIT: ld.volatile.global.u32 %r5, [%rd81]; setp.lt.u32 %p4, %r5, %r22; @%p4 bra WAIT;
    membar.gl;
MET: bar.sync 0;
    ld.global.u32 %r6, [%rd2]; setp.ne.u32 %p4, %r6, %r21; @%p4 trap;
    bar.sync 0; @!%p1 bra MET2; membar.gl; {arrive}
    mad.lo.u32 %r22, %r20, 8, 8;
WAIT2: ld.volatile.global.u32 %r5, [%rd81]; setp.lt.u32 %p4, %r5, %r22; @%p4 bra WAIT2;
    membar.gl;
MET2: {second}
    add.u32 %r20, %r20, 1; setp.lt.u32 %p5, %r20, {rounds}; @%p5 bra LOOP;
"""


def test_a_barrier_of_the_whole_grid() -> None:
    arrive = "red.global.add.u32 [%rd81], 1;"
    launch(GRID_BARRIER.format(arrive=arrive, second="bar.sync 0;", rounds=3))
    # Without the block's own barrier the other warp writes on while blocks still read.
    race(GRID_BARRIER.format(arrive=arrive, second="", rounds=3))


def test_what_is_known_of_other_blocks_is_kept_over_many_rounds() -> None:
    arrive = "red.global.add.u32 [%rd81], 1;"
    launch(GRID_BARRIER.format(arrive=arrive, second="bar.sync 0;", rounds=40))
    late = "setp.eq.u32 %p6, %r20, 38; @%p6 bra SKIP; bar.sync 0;\nSKIP:"
    race(GRID_BARRIER.format(arrive=arrive, second=late, rounds=40))


def test_atomics_do_not_race_with_each_other_but_with_ordinary_accesses() -> None:
    launch("red.global.add.u32 [%rd80], 1; atom.global.max.u32 %r3, [%rd80], %r0;")
    both_budgets("red.global.add.u32 [%rd80], 1; ld.global.u32 %r3, [%rd80];")
    both_budgets("ld.global.u32 %r3, [%rd80]; red.global.add.u32 [%rd80], 1;")
    both_budgets("red.global.cta.add.u32 [%rd80], 1;")
    launch("red.global.cta.add.u32 [%rd80], 1;", blocks=1)
    launch("st.volatile.global.u32 [%rd80], %r0; ld.relaxed.gpu.global.u32 %r3, [%rd80];")


def test_what_the_launch_may_not_write_is_not_watched() -> None:
    launch("ld.global.u32 %r3, [%rd80]; st.global.u32 [%rd1], %r3;", written=[0], blocks=1, threads=32)
    kernel = assemble("ld.global.u32 %r3, [%rd80]; ld.global.u32 %r4, [%rd81];", "u64 u64")
    kernel.launch((4,), (64,), [np.zeros(4, np.uint32), np.zeros(4, np.uint32)], written=[1])


def test_two_arguments_of_one_array_are_one_memory() -> None:
    data = np.zeros(64, np.uint32)
    kernel = assemble("add.s64 %rd1, %rd80, %rd0; st.global.u32 [%rd1], %r0; xor.b32 %r4, %r0, 32; mul.wide.u32 %rd3, %r4, 4; add.s64 %rd3, %rd81, %rd3; ld.global.u32 %r3, [%rd3];", "u64 u64")  # fmt: skip
    with pytest.raises(Fault) as caught:
        kernel.launch((1,), (64,), [data, data], written=[0])
    assert caught.value.kind == "data race"


def test_neighbouring_halfwords_of_two_blocks() -> None:
    body = "mul.wide.u32 %rd3, %r90, 2; add.s64 %rd3, %rd80, %rd3; cvt.u16.u32 %rs1, %r90; @%p1 st.global.u16 [%rd3], %rs1;"
    assert launch(body).warnings == []


def test_bulk_stores_write_when_they_land() -> None:
    body = """
    mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r90;
    fence.proxy.async.shared::cta; bar.sync 0; @!%p1 bra END;
    mul.wide.u32 %rd3, %r90, 256; add.s64 %rd3, %rd80, %rd3;
    cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r3], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; {}
END:
    """
    for then, clean in (("ld.global.u32 %r3, [%rd3+252];", True), ("ld.global.u32 %r3, [%rd2];", False)):
        data = np.zeros(4 * 64 + 16, np.uint32)
        kernel = assemble(SETUP + body.format(then), "u64 u64", declare=".shared .align 16 .b8 tile[256];")
        start = -data.ctypes.data % 16 // 4
        args = [data[start : start + 256], None]
        if clean:
            kernel.launch((4,), (64,), args, budget=ONE_BLOCK_A_BATCH)
        else:
            with pytest.raises(Fault) as caught:
                kernel.launch((4,), (64,), args, budget=ONE_BLOCK_A_BATCH)
            assert caught.value.kind == "data race"


def test_local_memory_that_nothing_wrote() -> None:
    declare = ".local .align 16 .b8 frame[64];"
    body = "mov.u64 %rd5, frame; setp.lt.u32 %p3, %r0, 5; @%p3 st.local.u32 [%rd5+16], %r0; {} ld.local.{} [%rd5+{}];"
    kernel = assemble(SETUP + body.format("", "u32 %r3,", 16), "u64 u64", declare=declare)
    with pytest.raises(Fault) as caught:
        kernel.launch((1,), (64,), [None, None])
    assert (caught.value.kind, caught.value.thread) == ("uninitialized read", (5, 0, 0))
    assert caught.value.address == ("local", 16)
    generic = "cvta.local.u64 %rd6, %rd5; ld.u32 %r3, [%rd6+16]; mov.u32 %r3, 0;"
    kernel = assemble(SETUP + body.format(generic, "u32 %r3,", 16), "u64 u64", declare=declare)
    with pytest.raises(Fault) as caught:
        kernel.launch((1,), (64,), [None, None])
    assert caught.value.kind == "uninitialized read"
    # A structure is moved with its padding.
    kernel = assemble(SETUP + "mov.u64 %rd5, frame; st.local.u32 [%rd5+16], %r0; ld.local.v4.u32 {%r3, %r4, %r5, %r6}, [%rd5+16];", "u64 u64", declare=declare)  # fmt: skip
    kernel.launch((1,), (64,), [None, None])


def test_the_reader_before_the_last_one_counts() -> None:
    body = "ld.global.u32 %r3, [%rd80]; setp.ne.u32 %p3, %r90, 3; @%p3 bra END; @%p1 st.global.u32 [%rd80], %r1;\nEND:"
    both_budgets(body, threads=32)


HANDED_ON = """
    setp.eq.u32 %p3, %r90, 1; @%p3 bra SECOND; setp.eq.u32 %p3, %r90, 2; @%p3 bra THIRD; @!%p2 bra END;
    st.global.u32 [%rd80], %r1; st.release.gpu.global.u32 [%rd81], %r1; bra END;
SECOND: {second} bra END;
THIRD: ld.acquire.gpu.global.u32 %r5, [%rd81+{flag}]; ld.global.u32 %r6, [%rd80];
END:
"""


def test_releases_are_handed_on_but_not_by_a_store_over_the_flag() -> None:
    on = {"threads": 1, "budget": ONE_BLOCK_A_BATCH}
    acquire, release = "ld.acquire.gpu.global.u32 %r5, [%rd81];", "st.release.gpu.global.u32 [%rd81+4], %r1;"
    launch(HANDED_ON.format(second=acquire + release, flag=4), **on)
    race(HANDED_ON.format(second=release, flag=4), **on)
    launch(HANDED_ON.format(second="", flag=0), **on)
    launch(HANDED_ON.format(second="red.global.add.u32 [%rd81], 1;", flag=0), **on)
    race(HANDED_ON.format(second="st.relaxed.gpu.global.u32 [%rd81], %r1;", flag=0), **on)


def test_what_follows_the_fence_is_not_covered_within_a_block() -> None:
    body = """
    setp.ge.u32 %p3, %r0, 32; @%p3 bra CONSUME;
    {before} membar.cta; {after} bar.warp.sync -1; @%p1 st.volatile.global.u32 [%rd81], %r1; bra END;
CONSUME: ld.volatile.global.u32 %r5, [%rd81]; setp.eq.u32 %p4, %r5, 0; @%p4 bra CONSUME;
    ld.global.u32 %r6, [%rd1+-128];
END:
    """
    write = "st.global.u32 [%rd1], %r0;"
    launch(body.format(before=write, after=""), blocks=1)
    race(body.format(before="", after=write), blocks=1)
