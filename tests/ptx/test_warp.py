# ruff: noqa: E501 - PTX bodies read better unbroken
"""Warp-wide instructions, whole, divergent and partial."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault
from tests.ptx.assemble import assemble, evaluate

V = np.random.default_rng(5).integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32)
W = V.reshape(2, 32)
LANE = np.arange(32)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("shfl.sync.bfly.b32 %out, %a0, 5, 31, -1;", LANE ^ 5),
        ("shfl.sync.bfly.b32 %out, %a0, 16, 0x1f, 0xffffffff;", LANE ^ 16),
        ("shfl.sync.up.b32 %out, %a0, 3, 0, -1;", np.where(LANE < 3, LANE, LANE - 3)),
        ("shfl.sync.down.b32 %out, %a0, 7, 31, -1;", np.where(LANE + 7 > 31, LANE, LANE + 7)),
        ("shfl.sync.idx.b32 %out, %a0, 9, 31, -1;", LANE * 0 + 9),
        ("shfl.sync.idx.b32 %out, %a0, 1, 0x1c03, -1;", LANE // 4 * 4 + 1),
        (
            "shfl.sync.bfly.b32 %out, %a0, 12, 0x181f, -1;",
            np.where((LANE ^ 12) <= (LANE | 7), LANE ^ 12, LANE),
        ),
        ("shfl.sync.down.b32 %out, %a0, 2, 0x181f, -1;", np.where(LANE % 8 + 2 > 7, LANE, LANE + 2)),
        ("shfl.sync.down.b32 %out, %a0, 2, 0x1807, -1;", np.where(LANE % 8 + 2 > 7, LANE, LANE + 2)),
    ],
)
def test_shuffles(text: str, source: np.ndarray) -> None:
    assert (evaluate(text, V).reshape(2, 32) == W[:, source]).all()


def test_shuffle_predicate() -> None:
    got = evaluate("shfl.sync.up.b32 %out|%p1, %a0, 4, 0, -1; selp.u32 %out, 1, 0, %p1;", V)
    assert (got.reshape(2, 32) == (LANE >= 4)).all()


def test_votes_and_masks() -> None:
    small = (V & np.uint32(3)).astype(np.uint32)
    ballot = np.array(
        [sum(1 << i for i in range(32) if row[i] == 0) for row in small.reshape(2, 32)], np.uint32
    )
    got = evaluate("setp.eq.u32 %p1, %a0, 0; vote.sync.ballot.b32 %out, %p1, -1;", small)
    assert (got.reshape(2, 32) == ballot[:, None]).all()
    got = evaluate(
        "setp.lt.u32 %p1, %a0, 4; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, !%p1, -1;"
        "setp.eq.u32 %p4, %a0, 0; vote.sync.uni.pred %p5, %p4, -1;"
        "selp.u32 %out, 1, 0, %p2; @%p3 add.u32 %out, %out, 2; @%p5 add.u32 %out, %out, 4;",
        small,
    )
    assert (got == 1).all()
    got = evaluate("setp.lt.u32 %p1, %a0, 2; mov.u32 %out, 0; @%p1 activemask.b32 %out;", small)
    mask = np.array([sum(1 << i for i in range(32) if row[i] < 2) for row in small.reshape(2, 32)], np.uint32)
    assert (got.reshape(2, 32) == np.where(small.reshape(2, 32) < 2, mask[:, None], 0)).all()


def test_match_reduce_elect() -> None:
    keys = (V & np.uint32(7)).astype(np.uint32)
    rows = keys.reshape(2, 32)
    same = np.array([[sum(1 << j for j in range(32) if row[j] == row[i]) for i in range(32)] for row in rows])
    assert (evaluate("match.any.sync.b32 %out, %a0, -1;", keys).reshape(2, 32) == same).all()
    equal = evaluate("match.all.sync.b32 %out|%p1, %a0, -1; @%p1 add.u32 %out, %out, 1;", keys * 0 + 4)
    assert (equal == 0).all()  # all 32 bits, plus one
    sums = W.sum(1, dtype=np.uint32)
    assert (evaluate("redux.sync.add.u32 %out, %a0, -1;", V).reshape(2, 32) == sums[:, None]).all()
    lowest = W.view(np.int32).min(1)
    assert (
        evaluate("redux.sync.min.s32 %out, %a0, -1;", V, out="i4").reshape(2, 32) == lowest[:, None]
    ).all()
    got = evaluate("elect.sync %out|%p1, 0xfffffff8; @%p1 add.u32 %out, %out, 100;", V)
    assert (got.reshape(2, 32) == np.where(LANE == 3, 103, 3)).all()


def test_lanes_meet_at_a_shuffle_however_the_code_is_laid_out() -> None:
    body = """
    and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; @%p1 bra FAR;
MEET: shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1;
    add.s64 %rd1, %rd80, %rd0; st.global.u32 [%rd1], %r1; exit;
FAR: add.u32 %r3, %r0, 50; bra MEET;
    """
    out = np.zeros(64, np.int32)
    assemble("mov.u32 %r3, %r0;" + body, "u64").launch((1,), (64,), [out])
    i = np.arange(64)
    assert (out == np.where(i % 2 == 0, i + 51, i - 1)).all()


def test_warps_of_partial_blocks() -> None:
    out = np.zeros(40, np.int32)
    body = "shfl.sync.down.b32 %r1, %r0, 1, 31, {}; add.s64 %rd1, %rd80, %rd0; st.global.u32 [%rd1], %r1;"
    assemble(body.format("0xff"), "u64").launch((5,), (8,), [out])
    assert (out.reshape(5, 8)[:, :7] == np.arange(1, 8)).all()


def test_lanes_that_never_meet() -> None:
    body = (
        "setp.lt.u32 %p1, %r0, 5; @%p1 bra B; shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; exit;\nB: bar.sync 0;"
    )
    with pytest.raises(Fault, match="never arrive") as caught:
        assemble(body).launch((1,), (32,), [None])
    assert caught.value.kind == "non-converged"
    # The lanes of the mask are enough.
    assemble(body.replace("-1;", "0xffffffe0;")).launch((1,), (32,), [None])


def test_mma_by_part_of_a_warp() -> None:
    mma = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4};"
    with pytest.raises(Fault, match="all 32") as caught:
        assemble(f"setp.lt.u32 %p1, %r0, 31; @!%p1 exit; {mma}").launch((1,), (64,), [None])
    assert caught.value.kind == "non-converged"
