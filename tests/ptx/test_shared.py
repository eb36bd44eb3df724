# ruff: noqa: E501 - PTX bodies read better unbroken
"""Shared memory: bounds, initialization, races, asynchronous copies and bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, Report
from tests.ptx.assemble import assemble, line_of

# %r4 is the address of the thread's own word, %r3 of the tile.
OWN = "mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3;"
TILE = ".shared .align 16 .b8 tile[1024];"
# The word of the thread 32 further on (another warp's), modulo 128.
OTHER = "add.u32 %r5, %r0, 32; and.b32 %r5, %r5, 127; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3;"


def launch(
    body: str, blocks: int = 2, threads: int = 128, declare: str = TILE, module: str = "", shared: int = 0
) -> Report:
    kernel = assemble(OWN + body, "u64", declare=declare, module=module)
    return kernel.launch((blocks,), (threads,), [np.arange(1024, dtype=np.int32)], shared)


def fault(body: str, **options: str | int) -> Fault:
    with pytest.raises(Fault) as caught:
        launch(body, **options)  # type: ignore[arg-type]
    return caught.value


def test_bounds_and_alignment() -> None:
    caught = fault("st.shared.u32 [%r4+900], %r0;")
    assert (caught.kind, caught.thread) == ("out of bounds", (31, 0, 0))
    assert "0 past its end" not in str(caught) and "4 past its end" in str(caught)
    assert fault("sub.u32 %r4, %r4, 4; st.shared.u32 [%r4], %r0;").thread == (0, 0, 0)
    assert fault("st.shared.u32 [%r4+2], %r0;").kind == "misaligned"
    assert fault("st.shared.v2.u32 [%r4], {%r0, %r0};").thread == (1, 0, 0)


def test_dynamic_shared_memory_follows_the_static_variables() -> None:
    module = ".extern .shared .align 128 .b8 dynamic[];"
    body = "mov.u32 %r6, dynamic; and.b32 %r7, %r6, 127; setp.ne.u32 %p1, %r7, 0; @%p1 trap; st.shared.u32 [%r6+{}], %r7;"
    launch(body.format(508), module=module, threads=1, shared=512)
    caught = fault(body.format(512), module=module, threads=1, shared=512)
    assert caught.kind == "out of bounds" and "4 past its end" in str(caught)


def test_uninitialized_reads() -> None:
    caught = fault(
        "setp.lt.u32 %p1, %r0, 70; @%p1 st.shared.u32 [%r4], %r0; bar.sync 0; ld.shared.u32 %r1, [%r4];"
    )
    assert (caught.kind, caught.thread, caught.block) == ("uninitialized read", (70, 0, 0), (0, 0, 0))
    launch(
        "setp.lt.u32 %p1, %r0, 70; @%p1 st.shared.u32 [%r4], %r0; bar.sync 0; @%p1 ld.shared.u32 %r1, [%r4];"
    )


def test_read_after_write_race_names_both_warps() -> None:
    body = f"st.shared.u32 [%r4], %r0; {{}} {OTHER} ld.shared.u32 %r1, [%r5];"
    kernel = assemble(OWN + body.format(""), "u64", declare=TILE)
    with pytest.raises(Fault, match=r"warp 0 reads .* which warp 1 wrote") as caught:
        kernel.launch((2,), (128,), [np.zeros(4, np.int32)])
    assert caught.value.kind == "data race"
    assert caught.value.line == line_of(kernel, "ld.shared")
    launch(body.format("bar.sync 0;"))


def test_write_after_read_race() -> None:
    body = f"st.shared.u32 [%r4], %r0; bar.sync 0; {OTHER} ld.shared.u32 %r1, [%r5]; {{}} st.shared.u32 [%r4], %r1;"
    caught = fault(body.format(""))
    assert caught.kind == "data race" and "writes" in str(caught) and "read" in str(caught)
    launch(body.format("bar.sync 0;"))


def test_write_after_write_race_and_equal_values() -> None:
    two = "mov.u32 %r6, {}; setp.lt.u32 %p1, %r0, 64; @%p1 bra A; add.u32 %r6, %r6, {}; st.shared.u32 [%r3], %r6; bra B;\nA: st.shared.u32 [%r3], %r6;\nB:\n"
    assert fault(two.format(5, 1)).kind == "data race"
    warnings = launch(two.format(5, 0)).warnings
    assert any("same value" in text and "st.shared" in text for text in warnings)


def test_lanes_of_one_warp_must_not_store_different_values_at_once() -> None:
    body = "shr.u32 %r6, %r0, 1; {} setp.lt.u32 %p1, %r0, 32; @%p1 st.shared.u32 [%r3], %r6;"
    caught = fault(body.format(""))
    assert caught.kind == "data race" and "same instruction" in str(caught)
    launch(body.format("mov.u32 %r6, 4;"))


def test_accesses_of_one_warp_are_ordered() -> None:
    launch(
        "xor.b32 %r5, %r4, 4; st.shared.u32 [%r4], %r0; ld.shared.u32 %r1, [%r5]; st.shared.u32 [%r5], %r1;"
    )


def test_neighbouring_halfwords_do_not_race() -> None:
    body = "shl.b32 %r5, %r0, 1; add.u32 %r5, %r5, %r3; cvt.u16.u32 %rs1, %r0; st.shared.u16 [%r5], %rs1; ld.shared.u16 %rs2, [%r5];"
    launch(body)
    odd = "and.b32 %r6, %r0, 31; shl.b32 %r6, %r6, 3; shr.u32 %r7, %r0, 5; shl.b32 %r7, %r7, 1; add.u32 %r5, %r6, %r7; add.u32 %r5, %r5, %r3;"
    launch(f"{odd} cvt.u16.u32 %rs1, %r0; st.shared.u16 [%r5], %rs1; ld.shared.u16 %rs2, [%r5];")


def test_atomics_do_not_race_with_each_other_but_with_plain_accesses() -> None:
    init = "setp.eq.u32 %p1, %r0, 0; mov.u32 %r6, 0; @%p1 st.shared.u32 [%r3], %r6; bar.sync 0;"
    add = "atom.shared.add.u32 %r7, [%r3], 1;"
    launch(f"{init} {add} bar.sync 0; ld.shared.u32 %r8, [%r3]; setp.ne.u32 %p2, %r8, 128; @%p2 trap;")
    assert fault(f"{init} {add} ld.shared.u32 %r8, [%r3];").kind == "data race"
    assert fault(f"{init} ld.shared.u32 %r8, [%r3]; {add}").kind == "data race"


def test_flag_in_shared_memory_orders_what_came_before_it() -> None:
    body = """
    setp.eq.u32 %p1, %r0, 0; mov.u32 %r6, 0; @%p1 st.shared.u32 [%r3], %r6; bar.sync 0;
    setp.ge.u32 %p2, %r0, 32; @%p2 bra CONSUME;
    st.shared.u32 [%r4+128], %r0;
    fence.acq_rel.cta; bar.warp.sync -1;
    mov.u32 %r6, 1; @%p1 st.release.cta.shared.u32 [%r3], %r6;
    bra END;
CONSUME: setp.ge.u32 %p3, %r0, 64; @%p3 bra END;
WAIT: ld.acquire.cta.shared.u32 %r7, [%r3]; setp.eq.u32 %p3, %r7, 0; @%p3 bra WAIT;
    ld.shared.u32 %r8, [%r4]; sub.u32 %r9, %r0, 32; setp.ne.u32 %p4, %r8, %r9; @%p4 trap;
END:
    """
    launch(body)
    assert fault(body.replace("release.cta.shared", "shared")).kind == "data race"
    # What the writer does after the flag is not ordered by it.
    after = body.replace("bra END;\nCONSUME", "st.shared.u32 [%r4+128], %r0; bra END;\nCONSUME")
    assert fault(after).kind == "data race"


COPY = """
    shl.b32 %r6, %r0, 4; add.u32 %r6, %r6, %r3; and.b32 %r7, %r0, 63; mul.wide.u32 %rd2, %r7, 16; add.s64 %rd2, %rd80, %rd2;
    setp.lt.u32 %p1, %r0, 64;
"""


def test_copies_land_at_their_wait() -> None:
    issue = COPY + "@%p1 cp.async.cg.shared.global [%r6], [%rd2], 16; cp.async.commit_group;"
    read = "shl.b32 %r8, %r0, 2; add.u32 %r8, %r8, %r3; ld.shared.u32 %r9, [%r8]; setp.ne.u32 %p2, %r9, %r0; @%p2 trap;"
    launch(f"{issue} cp.async.wait_group 0; bar.sync 0; {read}")
    launch(f"{issue} cp.async.wait_all; bar.sync 0; {read}")
    assert fault(f"{issue} bar.sync 0; {read}").kind == "pending copy"
    assert fault(f"{issue} cp.async.wait_group 1; bar.sync 0; {read}").kind == "pending copy"
    assert fault(f"{issue} cp.async.wait_group 0; {read}").kind == "data race"
    assert fault(f"{issue} @%p1 st.shared.u32 [%r6], %r0;").kind == "pending copy"


def test_groups_finish_in_order() -> None:
    two = COPY + (
        "@%p1 cp.async.ca.shared.global [%r6], [%rd2], 4; cp.async.commit_group;"
        "@%p1 cp.async.ca.shared.global [%r6+8], [%rd2+8], 8; cp.async.commit_group; cp.async.wait_group 1;"
    )
    launch(f"{two} @%p1 ld.shared.u32 %r9, [%r6]; setp.ne.u32 %p2, %r9, %r9; @%p2 trap;")
    assert fault(f"{two} @%p1 ld.shared.u32 %r9, [%r6+8];").kind == "pending copy"
    launch(f"{two} cp.async.wait_group 0; @%p1 ld.shared.u32 %r9, [%r6+12];")


def test_copies_fill_with_zeros_and_do_not_touch_what_they_skip() -> None:
    body = COPY + (
        "mov.u32 %r10, {}; cp.async.cg.shared.global [%r3], [%rd80+{}], 16, %r10; cp.async.wait_all;"
        "ld.shared.v4.u32 {{%r11, %r12, %r13, %r14}}, [%r3]; setp.ne.u32 %p3, %r11, {}; @%p3 trap; setp.ne.u32 %p3, %r14, 0; @%p3 trap;"
    )  # fmt: skip
    launch(body.format(8, 64, 16), threads=1)
    launch(body.format(0, 4096, 0), threads=1)
    launch(body.format(6, 64, 16), threads=1)
    assert fault(body.format(4, 4096, 0), threads=1).kind == "out of bounds"
    assert fault(body.format(17, 64, 0), threads=1).kind == "out of bounds"


def test_bank_conflicts_of_the_first_block() -> None:
    body = "mul.lo.u32 %r5, %r0, {}; add.u32 %r5, %r5, %r3; st.shared.{} [%r5], {};"
    one = launch(body.format(4, "u32", "%r0"), threads=32)
    assert one.sampled_bank_conflicts == {}
    (extra,) = launch(body.format(32, "u32", "%r0"), threads=32).sampled_bank_conflicts.values()
    assert extra == 7  # 32 words in 4 banks take 8 wavefronts
    assert launch(body.format(16, "v4.u32", "{%r0, %r0, %r0, %r0}"), threads=32).sampled_bank_conflicts == {}
    (extra,) = launch(
        body.format(32, "v4.u32", "{%r0, %r0, %r0, %r0}"), threads=32
    ).sampled_bank_conflicts.values()
    assert extra == 4  # each quarter of 8 lanes takes 2


def test_traffic_is_counted() -> None:
    report = launch("ld.global.u32 %r1, [%rd80]; st.shared.v2.u32 [%r3], {%r1, %r1};", threads=1, blocks=3)
    assert (report.bytes_read, report.bytes_written) == ({"global": 12}, {"shared": 24})
    assert (report.blocks, report.threads) == (3, 1)
