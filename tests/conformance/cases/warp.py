# ruff: noqa: E501 - PTX bodies read better unbroken
"""Exchange between the lanes of a warp."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Array, Case, elementwise
from tests.conformance.inputs import stream

_HALF = 0x0F0F33FF
_SHUFFLE_CONTROLS = (0x1F, 0, 0x1C1F, 0x181F, 0x1800, 0x1E1F, 0x1F1F, 0x0F, 0x1007, 0x0803, 0x101F, 0x0C15)


def cases() -> list[Case]:
    out = []
    for mode in ("up", "down", "bfly", "idx"):
        for control in _SHUFFLE_CONTROLS:
            code = f"shfl.sync.{mode}.b32 %d0|%p0, %a0, %a1, {control}, -1; selp.u32 %d1, 1, 0, %p0;"
            out.append(
                elementwise(
                    f"shfl.sync.{mode}.b32 control {control:#x}", code, "u32 u32", words=2, data=_shuffled
                )
            )
        code = f"shfl.sync.{mode}.b32 %d0|%p0, %a0, %a1, %a2, -1; selp.u32 %d1, 1, 0, %p0;"
        out.append(
            elementwise(f"shfl.sync.{mode}.b32 by lane", code, "u32 u32 u32", words=2, data=_shuffled3)
        )
    for mode in ("all", "any", "uni"):
        code = f"setp.ne.u32 %p0, %a0, 0; vote.sync.{mode}.pred %p1, %p0, -1; vote.sync.{mode}.pred %p2, !%p0, -1;"
        code += "selp.u32 %d0, 1, 0, %p1; selp.u32 %d1, 1, 0, %p2;"
        out.append(elementwise(f"vote.sync.{mode}.pred", code, "pred", words=2, data=_votes))
        out.append(
            elementwise(
                f"vote.sync.{mode}.pred of some lanes",
                _some(f"""
vote.sync.{mode}.pred %p1, %p0, {_HALF}; selp.u32 %d0, 1, 0, %p1;"""),
                "pred",
                words=1,
                data=_votes,
            )
        )
    code = "setp.ne.u32 %p0, %a0, 0; vote.sync.ballot.b32 %d0, %p0, -1; vote.sync.ballot.b32 %d1, !%p0, -1;"
    out.append(elementwise("vote.sync.ballot.b32", code, "pred", words=2, data=_votes))
    out.append(
        elementwise(
            "vote.sync.ballot.b32 of some lanes",
            _some(f"vote.sync.ballot.b32 %d0, %p0, {_HALF};"),
            "pred",
            data=_votes,
        )
    )
    for t in ("b32", "b64"):
        kind = "u" + t[1:]
        code = (
            f"match.any.sync.{t} %d0, %a0, -1; match.all.sync.{t} %d1|%p0, %a0, -1; selp.u32 %d2, 1, 0, %p0;"
        )
        out.append(elementwise(f"match.sync.{t}", code, kind, words=3, data=lambda k=kind: _repeated(k)))
        some = f"match.any.sync.{t} %d0, %a0, {_HALF}; match.all.sync.{t} %d1|%p1, %a0, {_HALF}; selp.u32 %d2, 1, 0, %p1;"
        out.append(
            elementwise(
                f"match.sync.{t} of some lanes",
                _some(some, 3, f"u{t[1:]}"),
                kind,
                words=3,
                data=lambda k=kind: _repeated(k),
            )
        )
    for op, t in (
        *((o, t) for o in ("add", "min", "max") for t in ("u32", "s32")),
        *((o, "b32") for o in ("and", "or", "xor")),
    ):
        out.append(elementwise(f"redux.sync.{op}.{t}", f"redux.sync.{op}.{t} %d0, %a0, -1;", "u32"))
        out.append(
            elementwise(
                f"redux.sync.{op}.{t} of some lanes",
                _some(f"redux.sync.{op}.{t} %d0, %a0, {_HALF};", 1),
                "u32",
            )
        )
    code = "elect.sync %d0|%p0, -1; selp.u32 %d1, 1, 0, %p0;"
    out.append(elementwise("elect.sync", code, "u32", words=2))
    some = f"elect.sync %d0|%p1, {_HALF}; selp.u32 %d1, 1, 0, %p1; selp.u32 %d0, %d0, 0, %p1;"
    out.append(elementwise("elect.sync of some lanes", _some(some, 2), "u32", words=2))
    out.append(elementwise("activemask.b32", _some("activemask.b32 %d0;", 1), "u32"))
    return out


def _some(code: str, words: int = 1, kind: str = "u32") -> str:
    """Code that only the lanes of a mask run; %p0 tells whether their input is nonzero; others give 7."""
    sevens = " ".join(f"mov.u32 %d{i}, 7;" for i in range(words))
    return f"""
{sevens} setp.ne.{kind} %p0, %a0, 0; and.b32 %r1, %r0, 31; mov.u32 %r2, {_HALF}; shr.u32 %r2, %r2, %r1; and.b32 %r2, %r2, 1;
setp.eq.u32 %p9, %r2, 0; @%p9 bra OTHERS;
{code}
OTHERS: """


def _shuffled() -> list[Array]:
    offsets = stream("shuffle", 384).astype(np.uint32) % 40
    offsets[:32] = 1
    offsets[32:64] = 16
    return [stream("words", 384).astype(np.uint32), offsets]


def _shuffled3() -> list[Array]:
    """A segment mask and clamp of each lane's own."""
    controls = stream("controls", 384).astype(np.uint32) & 0x1F1F
    return [*_shuffled(), controls]


def _votes() -> list[Array]:
    """Warps of all ones, all zeros, a single one, and random ones."""
    votes = (stream("votes", 384) & np.uint64(1)).astype(np.uint32)
    votes[:32], votes[32:64], votes[64:96] = 1, 0, 0
    votes[70] = 1
    return [votes]


def _repeated(kind: str) -> list[Array]:
    """Warps of one value and of few."""
    dtype = f"u{int(kind[1:]) // 8}"
    few = (stream("few", 384) % np.uint64(5)).astype(dtype) << np.array(int(kind[1:]) - 4, dtype)
    few[:32] = 9
    return [few]
