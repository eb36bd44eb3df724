# ruff: noqa: E501 - PTX bodies read better unbroken
"""Proxy fences between what threads write and what bulk copies see."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, TensorMap
from tests.ptx.assemble import assemble, line_of

DECLARE = ".shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar; .shared .align 8 .b64 filled;"
START = """
    mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r8, filled; setp.eq.u32 %p0, %r0, 0; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r2;
    add.s64 %rd1, %rd80, %rd0; add.s64 %rd2, %rd81, %rd0; add.u32 %r5, %r0, 7;
    @%p0 mbarrier.init.shared::cta.b64 [%r3], 1; @%p0 mbarrier.init.shared::cta.b64 [%r8], 64;
    fence.mbarrier_init.release.cluster; bar.sync 0;
"""
WRITE = "st.shared.u32 [%r4], %r5;"
FENCE = "fence.proxy.async.shared::cta;"
STORE = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd81], [%r2], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
LOAD = """
    @!%p0 bra W{0}; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd80], 256, [%r3];
W{0}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], {0}; @!%p1 bra W{0};
"""
SHOW = "ld.shared.u32 %r6, [%r4]; st.global.u32 [%rd2], %r6;"


def launch(body: str) -> np.ndarray:
    x, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    kernel = assemble(START + body, "u64 u64", declare=DECLARE)
    kernel.launch((1,), (64,), [x, out], spin_limit=2000)
    return out


def fault(body: str) -> Fault:
    with pytest.raises(Fault) as caught:
        launch(body)
    return caught.value


def missing(body: str) -> bool:
    return fault(body).kind == "missing proxy fence"


@pytest.mark.parametrize("fence", ["fence.proxy.async;", FENCE, "fence.proxy.async.shared::cluster;"])
def test_a_store_after_the_fence_of_the_writers(fence: str) -> None:
    assert (launch(f"{WRITE} {fence} bar.sync 0; {STORE}") == np.arange(64) + 7).all()


def test_the_fence_may_be_the_issuers() -> None:
    assert (launch(f"{WRITE} bar.sync 0; {FENCE} {STORE}") == np.arange(64) + 7).all()


def test_a_store_without_a_fence_is_reported_with_what_to_do() -> None:
    kernel = assemble(f"{START} {WRITE} bar.sync 0; {STORE}", "u64 u64", declare=DECLARE)
    with pytest.raises(Fault, match="let the writers execute fence") as caught:
        kernel.launch((1,), (64,), [None, np.zeros(64, np.uint32)])
    assert (caught.value.kind, caught.value.thread) == ("missing proxy fence", (0, 0, 0))
    assert caught.value.line == line_of(kernel, "cp.async.bulk.global")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "before",
    [
        f"{FENCE} {WRITE} bar.sync 0;",  # ahead of the write
        f"{WRITE} {FENCE} {WRITE} bar.sync 0;",
        f"{WRITE} fence.proxy.async.global; bar.sync 0;",  # of another memory
        f"{WRITE} fence.sc.cta; membar.cta; fence.acq_rel.gpu; bar.sync 0;",  # of another kind
        f"{WRITE} fence.proxy.alias; bar.sync 0;",
        f"setp.lt.u32 %p2, %r0, 32; {WRITE} @%p2 {FENCE} bar.sync 0;",  # of one warp of two
        f"@%p0 {WRITE} @!%p0 {FENCE} @!%p0 {WRITE} bar.sync 0;",  # of the warp, not after the write of this thread
    ],
)
def test_a_fence_elsewhere_does_not_count(before: str) -> None:
    assert missing(f"{before} {STORE}")


def test_a_fence_holds_for_what_the_fencing_warp_knows_of() -> None:
    # Warp 1 writes, warp 0 fences after a barrier, and another barrier leads to the copy.
    write = f"setp.ge.u32 %p2, %r0, 32; {WRITE.replace('st', '@%p2 st')} @!%p2 st.shared.u32 [%r4], %r0;"
    assert launch(f"{write} bar.sync 0; @!%p2 {FENCE} bar.sync 0; {STORE}").any()
    assert missing(f"{write} @!%p2 {FENCE} bar.sync 0; {STORE}")


@pytest.mark.parametrize("fenced", [True, False])
def test_ordering_through_an_mbarrier(fenced: bool) -> None:
    body = f"""
    {WRITE} {FENCE if fenced else ""} mbarrier.arrive.shared::cta.b64 _, [%r8]; @!%p0 bra DONE;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra WAIT;
    {STORE} DONE:"""
    assert (launch(body) == np.arange(64) + 7).all() if fenced else missing(body)


def test_a_load_over_what_threads_wrote() -> None:
    assert (launch(f"{WRITE} {FENCE} bar.sync 0; {LOAD.format(0)} {SHOW}") == np.arange(64)).all()
    assert missing(f"{WRITE} bar.sync 0; {LOAD.format(0)} {SHOW}")
    # Reads of threads need a barrier only.
    again = f"{LOAD.format(0)} ld.shared.u32 %r6, [%r4]; {{}} {LOAD.format(1)} {SHOW}"
    assert (launch(again.format("bar.sync 0;")) == np.arange(64)).all()
    assert fault(again.format("")).kind in ("data race", "pending copy")


def test_from_copy_to_copy_there_is_no_fence() -> None:
    assert (launch(f"{LOAD.format(0)} {STORE}") == np.arange(64)).all()
    change = "ld.shared.u32 %r6, [%r4]; add.u32 %r6, %r6, 1; st.shared.u32 [%r4], %r6;"
    assert (launch(f"{LOAD.format(0)} {change} {FENCE} bar.sync 0; {STORE}") == np.arange(1, 65)).all()
    assert missing(f"{LOAD.format(0)} {change} bar.sync 0; {STORE}")


def test_only_the_bytes_copied_matter() -> None:
    beside = f"{LOAD.format(0)} st.shared.u32 [%r4+256], %r5; bar.sync 0; {STORE}"
    assert (launch(beside) == np.arange(64)).all()
    assert missing(beside.replace("+256", "+192"))


def test_atomics_write_through_the_generic_proxy() -> None:
    assert missing(f"{WRITE} {FENCE} bar.sync 0; red.shared.add.u32 [%r4], 1; bar.sync 0; {STORE}")
    assert launch(f"{WRITE} red.shared.add.u32 [%r4], 1; {FENCE} bar.sync 0; {STORE}")[0] == 8


def test_threads_copies_write_through_the_generic_proxy() -> None:
    copy = "cp.async.ca.shared.global [%r4], [%rd1], 4; cp.async.wait_all;"
    assert (launch(f"{copy} {FENCE} bar.sync 0; {STORE}") == np.arange(64)).all()
    assert missing(f"{copy} bar.sync 0; {STORE}")


def test_tensor_stores_need_the_fence_too() -> None:
    store = "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd81, {0}], [%r2]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    for fence in (FENCE, ""):
        array = np.zeros(64, np.uint32)
        kernel = assemble(f"{START} {WRITE} {fence} bar.sync 0; {store}", "u64 u64", declare=DECLARE)
        arguments = [None, TensorMap(array, box=(64,))]
        if fence:
            kernel.launch((1,), (64,), arguments)
            assert (array == np.arange(64) + 7).all()
        else:
            with pytest.raises(Fault) as caught:
                kernel.launch((1,), (64,), arguments)
            assert caught.value.kind == "missing proxy fence"
