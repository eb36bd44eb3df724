# ruff: noqa: E501 - PTX bodies read better unbroken
"""Clusters of one block: what kernels ask about them, their addresses and their barrier."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, Module, PtxError
from tests.ptx.assemble import assemble

DECLARE = ".shared .align 16 .b8 tile[512]; .shared .align 8 .b64 bar;"
SETUP = "mov.u32 %r2, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r2; add.s64 %rd1, %rd80, %rd0;"
SHOW = "st.global.u32 [%rd1], %r9;"


def launch(body: str, blocks: int = 2, threads: int = 64) -> np.ndarray:
    out = np.zeros((blocks, threads), np.uint32)
    assemble(body, declare=DECLARE).launch((blocks,), (threads,), [out], spin_limit=2000)
    return out


@pytest.mark.parametrize(
    ("register", "expected"),
    [
        *((f"%cluster_ctaid.{axis}", 0) for axis in "xyz"),
        *((f"%cluster_nctaid.{axis}", 1) for axis in "xyz"),
        ("%cluster_ctarank", 0),
        ("%cluster_nctarank", 1),
        ("%nclusterid.x", 3),
        ("%nclusterid.y", 1),
    ],
)
def test_a_cluster_is_one_block(register: str, expected: int) -> None:
    assert (launch(f"{SETUP} mov.u32 %r9, {register}; {SHOW}", blocks=3) == expected).all()


def test_cluster_numbers_are_block_numbers() -> None:
    assert (launch(f"{SETUP} mov.u32 %r9, %clusterid.x; {SHOW}") == [[0], [1]]).all()
    implicit = "mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 5, 7, %p1;"
    assert (launch(f"{SETUP} {implicit} {SHOW}") == 7).all()


def test_addresses_in_the_cluster() -> None:
    body = f"""
    {SETUP} st.shared.u32 [%r4], %r0; bar.sync 0; xor.b32 %r5, %r4, 252;
    mapa.shared::cluster.u32 %r6, %r5, 0; ld.shared::cluster.u32 %r7, [%r6]; getctarank.shared::cluster.u32 %r8, %r6;
    mov.u64 %rd2, tile; cvta.shared::cluster.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, 0; getctarank.u64 %r10, %rd3;
    isspacep.shared::cluster %p1, %rd3; isspacep.global %p2, %rd3; isspacep.shared::cta %p3, %rd3;
    ld.u32 %r11, [%rd3+8];
    add.u32 %r9, %r7, %r8; add.u32 %r9, %r9, %r10; @%p1 add.u32 %r9, %r9, 100; @%p2 add.u32 %r9, %r9, 1000; @%p3 add.u32 %r9, %r9, 10000;
    mad.lo.u32 %r9, %r11, 100000, %r9; {SHOW}"""
    assert (launch(body) == 210100 + 63 - np.arange(64)).all()


def test_there_is_no_other_block_in_the_cluster() -> None:
    for mapa in ("mapa.shared::cluster.u32 %r6, %r4, %r0;", "mapa.u64 %rd3, %rd80, 1;"):
        with pytest.raises(Fault, match="cluster that has only block 0") as caught:
            launch(f"{SETUP} {mapa}")
        assert caught.value.kind == "out of bounds"


def test_remote_arrivals_reach_the_own_barrier() -> None:
    body = f"""
    {SETUP} mov.u32 %r3, bar; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r3], 64;
    fence.mbarrier_init.release.cluster; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    st.shared.u32 [%r4], %r0; mapa.shared::cluster.u32 %r6, %r3, 0;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
W:  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra W;
    xor.b32 %r5, %r4, 252; ld.shared.u32 %r9, [%r5]; {SHOW}"""
    assert (launch(body) == 63 - np.arange(64)).all()


BARRIER = "barrier.cluster.arrive; {} barrier.cluster.wait;"
EXCHANGE = f"st.shared.u32 [%r4], %r0; {{}} xor.b32 %r5, %r4, 252; ld.shared.u32 %r9, [%r5]; {SHOW}"


def test_the_clusters_barrier_orders_memory() -> None:
    twice = f"{BARRIER.format('')} {BARRIER.format('add.u32 %r7, %r0, 1;')}"
    assert (launch(SETUP + EXCHANGE.format(twice)) == 63 - np.arange(64)).all()
    with pytest.raises(Fault) as caught:
        launch(
            SETUP
            + EXCHANGE.format("barrier.cluster.arrive;").replace(
                "st.global", "barrier.cluster.wait; st.global"
            )
        )
    assert caught.value.kind == "data race"


def test_the_clusters_barrier_waits_for_every_thread_that_runs() -> None:
    leave = "setp.ge.u32 %p1, %r0, 48; @%p1 bra DONE;"
    body = f"{SETUP} {leave} barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r9, 1; {SHOW} DONE:"
    assert launch(body).sum() == 2 * 48
    with pytest.raises(Fault) as caught:
        launch(
            f"{SETUP} setp.ge.u32 %p1, %r0, 48; @!%p1 barrier.cluster.arrive; @!%p1 barrier.cluster.wait; bar.sync 0;"
        )
    assert caught.value.kind in ("deadlock", "no progress")


@pytest.mark.parametrize("body", ["barrier.cluster.arrive; barrier.cluster.arrive;", "barrier.cluster.wait;"])
def test_arrivals_and_waits_take_turns(body: str) -> None:
    with pytest.raises(Fault, match="at the cluster's barrier without") as caught:
        launch(body)
    assert "\n" not in str(caught.value)


ENTRY = """
.version 8.8
.target sm_120a
.address_size 64
.visible .entry kernel(.param .u64 out)
{}
{{
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %ntid.x; st.global.u32 [%rd1], %r1;
    ret;
}}
"""


def test_required_and_largest_block() -> None:
    out = np.zeros(1, np.uint32)
    kernel = Module(ENTRY.format(".reqntid 64, 2\n.minnctapersm 1\n.maxnreg 64"))["kernel"]
    kernel.launch((1,), (64, 2), [out])
    assert out[0] == 64
    for block in ((128,), (2, 64), (64,), (64, 2, 2)):
        with pytest.raises(PtxError, match=r"requires \(64, 2, 1\)"):
            kernel.launch((1,), block, [out])
    kernel = Module(ENTRY.format(".maxntid 64, 2, 1"))["kernel"]
    kernel.launch((1,), (32,), [out])
    assert out[0] == 32
    with pytest.raises(PtxError, match="allows 128"):
        kernel.launch((1,), (129,), [out])


def test_clusters_of_several_blocks_are_refused() -> None:
    out = np.zeros(1, np.uint32)
    one = Module(ENTRY.format(".explicitcluster\n.reqnctapercluster 1, 1, 1\n.maxclusterrank 1"))["kernel"]
    one.launch((1,), (32,), [out])
    with pytest.raises(PtxError, match=r"clusters of \(2, 1, 1\) blocks"):
        Module(ENTRY.format(".reqnctapercluster 2"))["kernel"].launch((2,), (32,), [out])
