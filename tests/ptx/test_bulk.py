# ruff: noqa: E501 - PTX bodies read better unbroken
"""Bulk copies and reductions of plain bytes: sizes, alignment, groups, and what may be touched in between."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gen.ptx import Fault, PtxError
from gen.ptx.pending import PendingWrite
from tests.ptx.assemble import assemble
from tests.ptx.test_tensormap import APPLY, REDUCTIONS

DECLARE = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar;"
START = """
    mov.u32 %r2, tile; mov.u32 %r3, bar; setp.eq.u32 %p0, %r0, 0; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r2;
    add.s64 %rd1, %rd80, %rd0; add.s64 %rd2, %rd81, %rd0;
"""
READY = (
    f"{START} @%p0 mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster; bar.sync 0;"
)
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra W;"
FILL = f"{START} add.u32 %r5, %r0, 7; st.shared.u32 [%r4], %r5; fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra DONE;"
COMMIT = "cp.async.bulk.commit_group;"
ALL = "cp.async.bulk.wait_group 0;"
ALL_READ = "cp.async.bulk.wait_group.read 0;"


def launch(body: str, *, size: int = 256, threads: int = 64, **kwargs: Any) -> np.ndarray:
    """Runs a body with %rd80 = 0, 1, 2 … and %rd81 = zeros, `size` u32 each; the latter, changed."""
    x, out = np.arange(size, dtype=np.uint32), np.zeros(size, np.uint32)
    assemble(f"{body} DONE:", "u64 u64", declare=DECLARE).launch(
        (1,), (threads,), [x, out], spin_limit=2000, **kwargs
    )
    return out


def fault(body: str, **kwargs: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        launch(body, **kwargs)
    assert "\n" not in str(caught.value)
    return caught.value


def loading(copy: str, expected: int = 256) -> str:
    """Thread 0 issues copies; every thread then stores what its word of the tile holds."""
    return f"""
    {READY} @!%p0 bra W; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {expected}; {copy}
    {WAIT} ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd2], %r5;
    """


@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
def test_loads_of_many_pieces(space: str) -> None:
    load = LOAD.replace("shared::cluster", space)
    pieces = "".join(
        f"{load} [%r2+{at}], [%rd80+{start}], {size}, [%r3];"
        for at, start, size in ((0, 512, 16), (16, 0, 112), (128, 256, 128))
    )
    words = np.arange(256)
    assert (launch(loading(pieces))[:64] == np.r_[words[128:132], words[:28], words[64:96]]).all()


def test_sizes_come_from_registers_and_may_be_zero() -> None:
    copy = f"mov.u32 %r6, 0; {LOAD} [%r2], [%rd80], %r6, [%r3]; mov.u32 %r6, 256; {LOAD} [%r2], [%rd80], %r6, [%r3];"
    assert (launch(loading(copy))[:64] == np.arange(64)).all()


def test_hints_change_nothing() -> None:
    policies = """
    createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0; createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd6, 0.5;
    createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %rd7, [%rd80], 256, 1024;
    createpolicy.cvt.L2.b64 %rd8, 0x14F0000000000000; mov.u16 %rs1, 1;
    """
    copy = f"""{policies} cp.async.bulk.prefetch.L2.global [%rd80], 256; cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd80], 256, %rd5;
    {LOAD}.L2::cache_hint [%r2], [%rd80], 128, [%r3], %rd8;
    {LOAD}.multicast::cluster.L2::cache_hint [%r2+128], [%rd80+128], 128, [%r3], %rs1, %rd6;
    """
    assert (launch(loading(copy))[:64] == np.arange(64)).all()
    store = f"createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0; {STORE}.L2::cache_hint [%rd81], [%r2], 256, %rd5;"
    assert (launch(f"{FILL} {store} {COMMIT} {ALL}")[:64] == np.arange(64) + 7).all()


def test_multicast_to_other_blocks_of_the_cluster() -> None:
    copy = f"mov.u16 %rs1, 3; {LOAD}.multicast::cluster [%r2], [%rd80], 256, [%r3], %rs1;"
    assert fault(loading(copy)).kind == "out of bounds"


@pytest.mark.parametrize(
    ("operands", "kind"),
    [
        ("[%r2], [%rd80+8], 256", "misaligned"),
        ("[%r2+8], [%rd80], 256", "misaligned"),
        ("[%r2], [%rd80], 248", "misaligned"),
        ("[%r2], [%rd80+784], 256", "out of bounds"),
        ("[%r2+896], [%rd80], 256", "out of bounds"),
    ],
)
def test_loads_are_checked(operands: str, kind: str) -> None:
    caught = fault(loading(f"{LOAD} {operands}, [%r3];"))
    assert (caught.kind, caught.thread) == (kind, (0, 0, 0))


@pytest.mark.parametrize(
    ("operands", "kind"),
    [
        ("[%rd81+8], [%r2], 240", "misaligned"),
        ("[%rd81], [%r2+8], 240", "misaligned"),
        ("[%rd81], [%r2], 24", "misaligned"),
        ("[%rd81+1008], [%r2], 32", "out of bounds"),
        ("[%rd81], [%r2], 272", "uninitialized read"),
        ("[%rd80], [%r2], 256", "read-only"),
    ],
)
def test_stores_are_checked(operands: str, kind: str) -> None:
    assert fault(f"{FILL} {STORE} {operands}; {COMMIT} {ALL}", written=[1]).kind == kind


def test_forms_that_are_not_implemented_name_their_line() -> None:
    with pytest.raises(PtxError, match=r"PTX line \d+.*not implemented"):
        launch(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [%r3], 16, [%r3];"
        )


# -- groups --

TWO = f"{FILL} {STORE} [%rd81], [%r2], 128; {COMMIT} {STORE} [%rd81+512], [%r2+128], 128; {COMMIT}"


def test_groups_complete_in_order() -> None:
    out = launch(f"{TWO} {ALL}")
    assert (out[:32] == np.arange(32) + 7).all() and (out[128:160] == np.arange(32, 64) + 7).all()
    assert out.sum() == (np.arange(64) + 7).sum()
    change = "st.shared.u32 [%r2+{}], %r0; cp.async.bulk.wait_group 0;"
    read = "cp.async.bulk.wait_group.read 1;"
    assert launch(f"{TWO} {read} {change.format(0)}")[0] == 7
    assert fault(f"{TWO} {read} {change.format(128)}").kind == "pending copy"
    assert fault(f"{TWO} {change.format(0)}").kind == "pending copy"


def test_targets_are_readable_after_the_full_wait_only() -> None:
    look = "ld.global.u32 %r6, [%rd81+{}]; cp.async.bulk.wait_group 0; st.global.u32 [%rd81+256], %r6;"
    assert launch(f"{TWO} cp.async.bulk.wait_group 1; {look.format(4)}")[64] == 8
    assert fault(f"{TWO} cp.async.bulk.wait_group 1; {look.format(512)}").kind == "pending copy"
    assert fault(f"{TWO} {ALL_READ} {look.format(4)}").kind == "pending copy"
    assert launch(f"{TWO} {ALL_READ} {look.format(128)}")[64] == 0  # not a target
    assert (
        fault(f"{TWO} st.global.u32 [%rd81+508], %r0; st.global.u32 [%rd81+512], %r0;").kind == "pending copy"
    )


def test_a_wait_counts_committed_groups_only() -> None:
    body = f"{FILL} {STORE} [%rd81], [%r2], 256; {ALL} {COMMIT} st.shared.u32 [%r2], %r0; {ALL}"
    assert fault(body).kind == "pending copy"


def test_groups_belong_to_a_thread() -> None:
    body = f"{START} st.shared.u32 [%r4], %r0; fence.proxy.async; bar.sync 0; @%p0 {STORE} [%rd81], [%r2], 256; {COMMIT}"
    other = "setp.eq.u32 %p2, %r0, 32; @%p2 cp.async.bulk.wait_group 0; bar.sync 0; @%p2 st.shared.u32 [%r2], %r0; @%p0 cp.async.bulk.wait_group 0;"
    assert fault(f"{body} {other}").kind == "pending copy"
    own = "setp.eq.u32 %p2, %r0, 32; cp.async.bulk.wait_group.read 0; bar.sync 0; @%p2 st.shared.u32 [%r2], %r0;"
    assert (launch(f"{body} {own}")[:64] == np.arange(64)).all()
    assert fault(f"{body} {own.replace('bar.sync 0;', '')}").kind == "data race"
    # A barrier ahead of the wait does not tell the other warp that the copy has read.
    early = "setp.eq.u32 %p2, %r0, 32; bar.sync 0; @!%p0 bra LATER; cp.async.bulk.wait_group.read 0; LATER: @%p2 st.shared.u32 [%r2], %r0;"
    assert fault(f"{body} {early}").kind == "data race"


def test_a_thread_that_ends_must_have_waited_for_the_reads() -> None:
    assert (launch(f"{TWO} {ALL_READ}")[:32] == np.arange(32) + 7).all()
    caught = fault(TWO)
    assert (caught.kind, caught.thread) == ("pending copy", (0, 0, 0))
    assert fault(f"{TWO} cp.async.bulk.wait_group.read 1;").kind == "pending copy"


def test_two_stores_to_one_place() -> None:
    again = f"{FILL} {STORE} [%rd81], [%r2], 128; {COMMIT} {{}} {STORE} [%rd81+112], [%r2+128], 128; {COMMIT} {ALL}"
    assert fault(again.format("")).kind == "pending copy"
    assert launch(again.format(ALL))[28] == 39


def test_what_a_pending_write_covers() -> None:
    target = PendingWrite(np.array([32, 0]), 8, reduces=False)
    starts = np.array([0, 4, 8, 24, 28, 32, 36, 40])
    assert target.overlap(starts, 4).tolist() == [True, True, False, False, False, True, True, False]
    assert target.overlap(starts, 8).tolist() == [True, True, False, False, True, True, True, False]
    assert target.overlap(np.array([8]), 24).tolist() == [False]
    assert not PendingWrite(np.zeros(0, np.int64), 8, reduces=False).overlap(starts, 8).any()


# -- reductions --


@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
def test_reductions(operation: str, kind: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bf16" else kind)
    letter = "b" if operation in ("and", "or", "xor") else dtype.kind.replace("i", "s")
    ptx = "bf16" if kind == "bf16" else f"{letter}{8 * dtype.itemsize}"
    noftz = ".noftz" if operation == "add" and dtype.itemsize == 2 else ""
    rng = np.random.default_rng(5)
    low = 0 if dtype.kind == "u" else -9
    old, data = (rng.integers(low, 9, 256 // dtype.itemsize).astype(dtype) for _ in range(2))
    old[:4] = 0
    expected = APPLY[operation](APPLY[operation](old, data).astype(dtype), data).astype(dtype)
    copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{noftz}.{ptx} [%rd81], [%r2], 256; {COMMIT}"
    body = f"{START} ld.global.u32 %r5, [%rd1]; st.shared.u32 [%r4], %r5; fence.proxy.async; bar.sync 0; @!%p0 bra DONE; {copy} {copy} {ALL} DONE:"
    assemble(body, "u64 u64", declare=DECLARE).launch((1,), (64,), [data, old])
    assert (old == expected).all()


def test_a_minimum_of_single_precision_does_not_exist() -> None:
    with pytest.raises(PtxError, match="min"):
        launch("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd81], [%r2], 256;")


def test_reductions_of_many_blocks_meet_in_one_place() -> None:
    copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd81], [%r2], 256; {COMMIT} {ALL}"
    out = np.zeros(64, np.uint32)
    kernel = assemble(f"{FILL} {copy} DONE:", "u64 u64", declare=DECLARE)
    kernel.launch((5,), (64,), [None, out])
    assert (out == 5 * (np.arange(64) + 7)).all()
    look = copy.replace(ALL, "ld.global.u32 %r6, [%rd81];")
    with pytest.raises(Fault) as caught:
        assemble(f"{FILL} {look} DONE:", "u64 u64", declare=DECLARE).launch((2,), (64,), [None, out])
    assert caught.value.kind == "pending copy"


def test_a_whole_warp_that_stores_one_thing_stores_it_once() -> None:
    store = "{} [%rd81], [%r2], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    body = f"{FILL.replace('@!%p0 bra DONE;', 'setp.ge.u32 %p2, %r0, 32; @%p2 bra DONE;')} {store} DONE:"
    for copy, times in ((STORE, 1), ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", 32)):
        out = np.zeros(64, np.uint32)
        kernel = assemble(body.format(copy), "u64 u64", declare=DECLARE)
        report = kernel.launch((1,), (64,), [None, out])
        assert (out == times * np.arange(7, 71)).all()
        assert any("several threads of a warp" in w for w in report.warnings) == (times == 1)
