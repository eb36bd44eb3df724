# ruff: noqa: E501 - PTX bodies read better unbroken
"""Tensor copies by tensor maps: 1 to 5 dimensions, swizzles, out-of-bounds fill, strides, stores, reductions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tests.conformance.case import Case, Map
from tests.conformance.inputs import WIDTHS, operands, random

_SHAPES: dict[int, tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, ...]]]] = {
    # shape in units of 16 bytes (outermost first), box alike (innermost first), start coordinates alike
    1: ((25,), (16,), [(0,), (15,), (-2,), (24,), (-16,), (50,)]),
    2: ((20, 10), (8, 8), [(0, 0), (7, 15), (-2, -3), (2, 19), (10, 0), (-25, 2)]),
    3: ((6, 10, 6), (4, 4, 3), [(0, 0, 0), (5, 8, 5), (-2, -2, -1), (1, 3, 4), (2, 10, 0)]),
    4: ((4, 5, 6, 4), (4, 3, 2, 2), [(0, 0, 0, 0), (3, 5, 4, 3), (-1, -1, -1, -1), (1, 1, 2, 1)]),
    5: ((3, 3, 4, 5, 4), (2, 3, 2, 2, 2), [(0, 0, 0, 0, 0), (3, 4, 3, 2, 2), (-1, -1, -1, -1, -1)]),
}
_MAP = "mov.b64 %q8, map0; cvta.param.u64 %q8, %q8; mov.u32 %r2, tile;"
_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("u32", "u64")),
}


def cases() -> list[Case]:
    out = []
    for rank in _SHAPES:
        for kind in ("u8", "u16", "u32", "u64") if rank < 3 else ("u32", "f16"):
            plain, starts = _scaled(rank, kind)
            out.append(_load(f"{rank}d {kind}", plain, starts))
        plain, starts = _scaled(rank, "f32")
        out.append(_load(f"{rank}d f32 NaN", replace(plain, fill="nan"), starts))
        plain, starts = _scaled(rank, "u32")
        out.append(_store(f"{rank}d", replace(plain, of=-1), starts[1], ""))
    for kind in ("f16", "bf16", "f64"):
        plain, starts = _scaled(2, kind)
        out.append(_load(f"2d {kind} NaN", replace(plain, fill="nan"), starts))
    for swizzle, inner in (
        ("32B", 8),
        ("64B", 16),
        ("128B", 32),
        ("128B", 16),
        ("64B", 8),
        ("128B", 4),
        ("32B", 4),
    ):
        plane = Map(0, "u32", (20, 40), (inner, 16), swizzle)
        out.append(_load(f"2d swizzle {swizzle} of {4 * inner} bytes", plane, [(0, 0), (4, 7), (28, 10)]))
        back = Map(-1, "u32", (20, 40), (inner, 16), swizzle)
        out.append(_store(f"2d swizzle {swizzle} of {4 * inner} bytes", back, (4, 7), ""))
    for swizzle in ("32B", "64B", "128B"):
        cube = Map(0, "u8", (4, 6, 64), (32, 3, 3), swizzle)
        out.append(_load(f"3d swizzle {swizzle} of bytes", cube, [(0, 0, 0), (16, 2, 2)]))
    for strides in ((1, 2), (1, 3), (2, 2)):
        steps = Map(0, "u32", (20, 40), (16, 9), element_strides=strides)
        out.append(_load(f"2d element strides {strides}", steps, [(0, 0), (4, 3), (28, 15), (-4, -4)]))
    out.append(_load("1d u32 of 99", Map(0, "u32", (99,), (32,)), [(0,), (80,)]))
    out.append(_store("1d u32 of 99", Map(-1, "u32", (99,), (32,)), (80,), ""))
    for op, kinds in _REDUCTIONS.items():
        for kind in kinds:
            inner = 128 // (WIDTHS[kind] // 8)
            plane = Map(-1, kind, (10, inner + 32), (inner, 8))
            out.append(_store(f"reduction {op} {kind}", plane, (16, 4), op))
    return out


def _scaled(rank: int, kind: str) -> tuple[Map, list[tuple[int, ...]]]:
    """A tensor of a kind of `_SHAPES`, and its coordinates."""
    shape, box, starts = _SHAPES[rank]
    per = 128 // WIDTHS[kind]
    wide = Map(0, kind, (*shape[:-1], shape[-1] * per), (box[0] * per, *box[1:]))
    return wide, [(s[0] * per, *s[1:]) for s in starts]


def _coordinates(start: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, start)) + "}"


def _bytes(m: Map) -> int:
    steps = m.element_strides or (1,) * len(m.box)
    extents = [m.box[0], *(-(-n // s) for n, s in zip(m.box[1:], steps[1:], strict=True))]
    return math.prod(extents) * WIDTHS[m.kind] // 8


def _room(m: Map) -> int:
    """Shared memory of a box: rows of a swizzled one are as long as the swizzle spans."""
    row, span = m.box[0] * WIDTHS[m.kind] // 8, 0 if m.swizzle == "none" else int(m.swizzle[:-1])
    size = _bytes(m) // row * max(row, span)
    return size + -size % 1024


def _load(name: str, m: Map, starts: list[tuple[int, ...]]) -> Case:
    """One box a start, through shared memory, each with a phase of the barrier; what it leaves shows too."""
    size, rank, whole = _bytes(m), len(m.box), _room(m)
    words, parts = whole // 4, []
    for i, start in enumerate(starts):
        parts.append(f"""
mov.u32 %r3, %r0; CLEAR{i}: setp.ge.u32 %p2, %r3, {words}; @%p2 bra CLEARED{i}; mad.lo.u32 %r4, %r3, 4, %r2;
mov.u32 %r5, 0x5a5a5a5a; st.shared.u32 [%r4], %r5; add.u32 %r3, %r3, 128; bra CLEAR{i};
CLEARED{i}: fence.proxy.async; bar.sync 0; @%p0 bra WAIT{i}; mbarrier.arrive.expect_tx.shared.b64 _, [bar], {size};
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%q8, {_coordinates(start)}], [bar];
WAIT{i}: mbarrier.try_wait.parity.shared.b64 %p1, [bar], {i % 2}; @!%p1 bra WAIT{i};
mov.u32 %r3, %r0; NEXT{i}: setp.ge.u32 %p2, %r3, {words}; @%p2 bra ALL{i};
mad.lo.u32 %r4, %r3, 4, %r2; ld.shared.u32 %r5, [%r4]; mad.wide.u32 %q1, %r3, 4, %out; st.global.u32 [%q1+{whole * i}], %r5;
add.u32 %r3, %r3, 128; bra NEXT{i}; ALL{i}: bar.sync 0;""")
    body = f"""
{_MAP} setp.ne.u32 %p0, %r0, 0; @%p0 bra READY; mbarrier.init.shared.b64 [bar], 1; fence.proxy.async;
READY: bar.sync 0; {"".join(parts)}"""
    return Case(
        f"tensor load {name}",
        body,
        lambda: [_filled(m, f"tensor {name}")],
        lambda: np.full((len(starts), words), 0xA5A5A5A5, np.uint32),
        declare=f".shared .align 1024 .b8 tile[{whole}]; .shared .align 8 .b64 bar;",
        maps=(m,),
    )


def _filled(m: Map, seed: str) -> np.ndarray:
    count = math.prod(m.shape)
    return np.ascontiguousarray(random(m.kind, seed, count).astype(f"u{WIDTHS[m.kind] // 8}"))


def _store(name: str, m: Map, start: tuple[int, ...], op: str) -> Case:
    """A box of shared memory stored at, or reduced into, a tensor that holds values already."""
    rank, size = len(m.box), _room(m)
    words, element = size // 4, WIDTHS[m.kind] // 8
    copy = "cp.async.bulk" if not op else "cp.reduce.async.bulk"
    operation = f".{op}" if op else ""
    body = f"""
{_MAP} mov.u32 %r3, %r0;
NEXT: setp.ge.u32 %p2, %r3, {words}; @%p2 bra ALL; mad.wide.u32 %q1, %r3, 4, %in0; ld.global.u32 %r5, [%q1];
mad.lo.u32 %r4, %r3, 4, %r2; st.shared.u32 [%r4], %r5; add.u32 %r3, %r3, 128; bra NEXT; ALL: fence.proxy.async; bar.sync 0;
setp.ne.u32 %p0, %r0, 0; @%p0 bra DONE;
{copy}.tensor.{rank}d.global.shared::cta{operation}.tile.bulk_group [%q8, {_coordinates(start)}], [%r2];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: """
    kinds = f"{m.kind} {m.kind}"
    total = max(math.prod(m.shape), size // element)
    total += -total % 16
    return Case(
        f"tensor store {name}",
        body,
        lambda: [operands(kinds, total)[0]],
        lambda: operands(kinds, total)[1],
        declare=f".shared .align 1024 .b8 tile[{size}];",
        maps=(m,),
        value=m.kind,
    )
