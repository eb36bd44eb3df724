# ruff: noqa: E501 - PTX bodies read better unbroken
"""Instructions about how code runs, not what it computes: they must be read, and change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import PtxError
from tests.ptx.assemble import assemble, evaluate

V = np.arange(64, dtype=np.uint32)


def unchanged(body: str) -> None:
    """Runs a body between a load of x[i] and a store of it to out[i]; x must stay as it is too."""
    x, out = V.copy(), np.zeros_like(V)
    body = f"add.s64 %rd1, %rd80, %rd0; ld.global.u32 %r1, [%rd1]; {body} add.s64 %rd2, %rd81, %rd0; st.global.u32 [%rd2], %r1;"
    assemble(body, "u64 u64").launch((1,), (64,), [x, out])
    assert (out == V).all() and (x == V).all()


@pytest.mark.parametrize(
    "hint",
    [
        "setmaxnreg.inc.sync.aligned.u32 240;",
        "setmaxnreg.dec.sync.aligned.u32 24;",
        "griddepcontrol.wait; griddepcontrol.launch_dependents;",
        "nanosleep.u32 100;",
        "mov.u32 %r5, 20; nanosleep.u32 %r5;",
        "applypriority.global.L2::evict_normal [%rd80], 128;",
        "prefetch.global.L1 [%rd1];",
        "prefetch.global.L2::evict_last [%rd1]; prefetch.L2 [%rd1]; prefetchu.L1 [%rd1];",
        "membar.gl; membar.cta; membar.sys;",
        "fence.sc.gpu; fence.acq_rel.cluster; fence.acquire.sync_restrict::shared::cluster.cluster; fence.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.alias; fence.proxy.async; fence.proxy.async.global; fence.proxy.tensormap::generic.release.gpu;",
        "fence.mbarrier_init.release.cluster;",
        "pmevent 3;",
        '.pragma "nounroll";',
    ],
)  # fmt: skip
def test_hints_change_nothing(hint: str) -> None:
    unchanged(hint)


@pytest.mark.parametrize("count", ["20", "28", "264", "%r1"])
def test_register_counts_the_hardware_refuses(count: str) -> None:
    with pytest.raises(PtxError, match="multiple of 8 from 24 to 256") as caught:
        unchanged(f"setmaxnreg.inc.sync.aligned.u32 {count};")
    assert caught.value.line


@pytest.mark.parametrize(
    "load",
    [
        "ld.global.nc.L1::no_allocate.u32 %r1, [%rd1];",
        "ld.global.L1::evict_first.L2::128B.u32 %r1, [%rd1];",
        "ld.global.nc.L1::evict_last.L2::256B.b32 %r1, [%rd1];",
        "createpolicy.fractional.L2::evict_last.b64 %rd5, 0.25; ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd5;",
        "createpolicy.fractional.L2::evict_first.b64 %rd5; ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.u32 %r1, [%rd1], %rd5;",
        "createpolicy.fractional.L2::evict_first.b64 %rd5; st.global.L2::cache_hint.u32 [%rd1], %r1, %rd5;",
        "st.global.L1::no_allocate.u32 [%rd1], %r1; st.global.wt.u32 [%rd1], %r1; st.global.cs.u32 [%rd1], %r1;",
        "ld.global.cg.u32 %r1, [%rd1]; ld.global.cv.u32 %r1, [%rd1]; ld.global.lu.u32 %r1, [%rd1];",
        "mov.u32 %r5, 0; createpolicy.fractional.L2::evict_first.b64 %rd5; red.global.add.L2::cache_hint.u32 [%rd1], %r5, %rd5;",
    ],
)
def test_cache_operators_and_hints(load: str) -> None:
    unchanged(load)


def test_discarding_before_a_write() -> None:
    storage = np.zeros(96, np.uint32)
    x = storage[(-storage.ctypes.data % 128) // 4 :][:64]
    body = "setp.eq.u32 %p1, %r0, 0; @%p1 discard.global.L2 [%rd80], 128; add.s64 %rd1, %rd80, %rd0; st.global.u32 [%rd1], %r0;"
    assemble(body).launch((1,), (64,), [x])
    assert (x == V).all()


def test_the_elected_lane_is_the_lowest_of_the_mask() -> None:
    for mask in (0xFFFFFFFF, 0xFFFFFFE0, 0x80000000):
        leader = (mask & -mask).bit_length() - 1
        inside = f"mov.u32 %out, 99; shl.b32 %a0, 1, %a0; and.b32 %a0, %a0, {mask}; setp.ne.u32 %p2, %a0, 0; @!%p2 bra OUT;"
        lanes = np.arange(32, dtype=np.uint32)
        got = evaluate(f"{inside} elect.sync %out|%p1, {mask}; @%p1 add.u32 %out, %out, 1000; OUT:", lanes)
        members = (mask >> lanes.astype(np.int64) & 1).astype(bool)
        assert (got[members] == np.where(lanes[members] == leader, 1000 + leader, leader)).all()
        assert (got[~members] == 99).all()


def test_one_elected_lane_a_warp_does_the_work() -> None:
    count = np.zeros(1, np.uint32)
    assemble("elect.sync _|%p1, 0xffffffff; @%p1 red.global.add.u32 [%rd80], 1;").launch((2,), (96,), [count])
    assert count[0] == 6


def test_a_sleep_gives_the_turn_to_others() -> None:
    body = """
    setp.ge.u32 %p1, %r0, 32; @%p1 bra SET;
WAIT: nanosleep.u32 32; ld.volatile.global.u32 %r6, [%rd80]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WAIT;
    bra DONE;
SET: mov.u32 %r5, 1; st.volatile.global.u32 [%rd80], %r5;
DONE:"""
    flag = np.zeros(1, np.uint32)
    assemble(body).launch((1,), (64,), [flag], spin_limit=500, step_limit=500)
    assert flag[0] == 1
