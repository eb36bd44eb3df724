# ruff: noqa: E501 - PTX bodies read better unbroken
"""Arithmetic, logic, comparison and conversion instructions reach the right function with the right operands."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import PtxError
from tests.ptx.assemble import assemble, evaluate

RNG = np.random.default_rng(3)
N = 96
A, B, C = (RNG.integers(0, 2**32, N, dtype=np.uint64).astype(np.uint32) for _ in range(3))
SA, SB = A.view(np.int32), B.view(np.int32)
X, Y = (RNG.standard_normal(N).astype(np.float32) for _ in range(2))
L, M = (RNG.integers(0, 2**63, N, dtype=np.uint64) * np.uint64(2) + np.uint64(1) for _ in range(2))
U64 = np.uint64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.u32 %out, %a0, %a1;", A + B),
        ("sub.s32 %out, %a0, 7;", A - np.uint32(7)),
        ("mul.lo.s32 %out, %a0, %a1;", A * B),
        ("mul.hi.u32 %out, %a0, %a1;", (A.astype(U64) * B >> U64(32)).astype(np.uint32)),
        ("mul.hi.s32 %out, %a0, %a1;", (SA.astype(np.int64) * SB >> 32).astype(np.int32).view(np.uint32)),
        ("mad.lo.u32 %out, %a0, %a1, %a2;", A * B + C),
        ("div.u32 %out, %a0, %a1;", A // B),
        ("rem.u32 %out, %a0, %a1;", A % B),
        ("min.s32 %out, %a0, %a1;", np.minimum(SA, SB).view(np.uint32)),
        ("max.u32 %out, %a0, %a1;", np.maximum(A, B)),
        ("neg.s32 %out, %a0;", (-SA).view(np.uint32)),
        ("abs.s32 %out, %a0;", np.abs(SA).view(np.uint32)),
        ("and.b32 %out, %a0, %a1;", A & B),
        ("xor.b32 %out, %a0, 0xFF00FF00;", A ^ np.uint32(0xFF00FF00)),
        ("not.b32 %out, %a0;", ~A),
        ("shl.b32 %out, %a0, 5;", A << np.uint32(5)),
        ("shl.b32 %out, %a0, 40;", A * 0),
        ("shr.s32 %out, %a0, 3;", (SA >> 3).view(np.uint32)),
        ("shr.u32 %out, %a0, %a1;", np.where(B < 32, A >> np.minimum(B, 31), 0).astype(np.uint32)),
        ("lop3.b32 %out, %a0, %a1, %a2, 0x96;", A ^ B ^ C),
        ("prmt.b32 %out, %a0, %a1, 0x5410;", (A & 0xFFFF) | (B << np.uint32(16))),
        ("bfe.u32 %out, %a0, 4, 9;", A >> np.uint32(4) & np.uint32(511)),
        ("bfi.b32 %out, %a0, %a1, 8, 8;", (B & ~np.uint32(0xFF00)) | ((A & np.uint32(0xFF)) << np.uint32(8))),
        ("popc.b32 %out, %a0;", np.array([int(v).bit_count() for v in A], np.uint32)),
        ("clz.b32 %out, %a0;", np.array([32 - int(v).bit_length() for v in A], np.uint32)),
        ("brev.b32 %out, %a0;", np.array([int(f"{v:032b}"[::-1], 2) for v in A], np.uint32)),
        ("shf.l.wrap.b32 %out, %a0, %a1, 8;", (B << np.uint32(8)) | (A >> np.uint32(24))),
        ("bmsk.clamp.b32 %out, 4, 8;", np.full(N, 0xFF0, np.uint32)),
        ("sad.u32 %out, %a0, %a1, %a2;", np.maximum(A, B) - np.minimum(A, B) + C),
        ("cnot.b32 %out, %a0;", np.zeros(N, np.uint32)),
        ("mul.wide.u16 %out, 60000, 3;", np.full(N, 180000, np.uint32)),
        ("mov.b32 %out, 0f3F800000;", np.full(N, 0x3F800000, np.uint32)),
        (".reg .b16 %x, %y; mov.b32 {%x, %y}, %a0; mov.b32 %out, {%y, %x};", A << np.uint32(16) | A >> np.uint32(16)),
        (".reg.b8 %x, %y; mov.b32 {%x, _, _, %y}, %a0; mov.b32 %out, {%y, 7, %x, 0};", A >> np.uint32(24) | np.uint32(7 << 8) | (A & np.uint32(255)) << np.uint32(16)),
        (".reg .b16 %x; mov.b32 {_, %x}, %a0; cvt.u32.u16 %out, %x;", A >> np.uint32(16)),
        (".reg .b16 %x; cvt.u16.u32 %x, %a0; cvt.s32.s16 %out, %x;", A.astype(np.int16).astype(np.int32).view(np.uint32)),
        ("cvt.s32.s8 %out, %a0;", A.astype(np.int8).astype(np.int32).view(np.uint32)),
        ("cvt.u32.u8 %out, %a0;", A & np.uint32(255)),
        ("vote.sync.all.pred %p0, 1, -1; mov.u32 %out, 1;", None),
        (".reg .u32 %t; add.cc.u32 %t, %a0, %a1; addc.u32 %out, 0, 0;", (A + B < A).astype(np.uint32)),
        (".reg .u32 %t; sub.cc.u32 %t, %a0, %a1; subc.u32 %out, 5, 0;", 5 - (A < B).astype(np.uint32)),
    ],
)  # fmt: skip
def test_integer_instructions(text: str, expected: np.ndarray | None) -> None:
    if expected is None:
        with pytest.raises(PtxError, match="predicate"):
            evaluate(text, A)
        return
    assert (evaluate(text, A, B, C) == expected).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.f32 %out, %a0, %a1;", X + Y),
        ("sub.f32 %out, %a0, 0f3F000000;", X - np.float32(0.5)),
        ("mul.rn.f32 %out, %a0, %a1;", X * Y),
        ("fma.rn.f32 %out, %a0, %a1, 0f3F800000;", (X.astype(float) * Y + 1).astype(np.float32)),
        ("div.rn.f32 %out, %a0, %a1;", X / Y),
        ("max.f32 %out, %a0, %a1;", np.maximum(X, Y)),
        ("max.f32 %out, %a0, %a1, 0f00000000;", np.maximum(np.maximum(X, Y), 0)),
        ("neg.f32 %out, %a0;", -X),
        ("abs.f32 %out, %a0;", np.abs(X)),
        ("copysign.f32 %out, %a0, %a1;", np.copysign(Y, X)),
        (".reg .f32 %t; abs.f32 %t, %a0; sqrt.rn.f32 %out, %t;", np.sqrt(np.abs(X))),
        ("rcp.rn.f32 %out, %a0;", np.float32(1) / X),
        ("ex2.approx.ftz.f32 %out, %a0;", np.exp2(X.astype(float)).astype(np.float32)),
        (".reg .f32 %t; abs.f32 %t, %a0; lg2.approx.f32 %out, %t;", np.log2(np.abs(X).astype(float)).astype(np.float32)),
        ("tanh.approx.f32 %out, %a0;", np.tanh(X.astype(float)).astype(np.float32)),
        ("cvt.rzi.f32.f32 %out, %a0;", np.trunc(X)),
        ("mul.sat.f32 %out, %a0, %a1;", np.clip(X * Y, 0, 1)),
        (".reg .b64 %t, %u; mov.b64 %t, {%a0, %a1}; mul.rn.f32x2 %u, %t, %t; mov.b64 {_, %out}, %u;", Y * Y),
    ],
)  # fmt: skip
def test_float_instructions(text: str, expected: np.ndarray) -> None:
    got = evaluate(text, X, Y, out="f4")
    assert got.view(np.uint32).tolist() == expected.astype(np.float32).view(np.uint32).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.s64 %out, %a0, %a1;", L + M),
        ("mul.lo.s64 %out, %a0, %a1;", L * M),
        ("mul.hi.u64 %out, %a0, %a1;", np.array([int(a) * int(b) >> 64 for a, b in zip(L, M, strict=True)], U64)),
        ("shr.u64 %out, %a0, 33;", L >> U64(33)),
        ("and.b64 %out, %a0, -16;", L & U64(2**64 - 16)),
        ("max.u64 %out, %a0, %a1;", np.maximum(L, M)),
        (".reg .u32 %t; cvt.u32.u64 %t, %a0; mul.wide.u32 %out, %t, %t;", (L & U64(0xFFFFFFFF)) ** U64(2)),
        (".reg .u32 %t; cvt.u32.u64 %t, %a0; mad.wide.u32 %out, %t, 3, %a1;", (L & U64(0xFFFFFFFF)) * U64(3) + M),
        (".reg .u32 %t, %u; mov.b64 {%t, %u}, %a0; mov.b64 %out, {%u, %t};", L << U64(32) | L >> U64(32)),
        ("popc.b64 %r5, %a0; cvt.u64.u32 %out, %r5;", np.array([int(v).bit_count() for v in L], U64)),
    ],
)  # fmt: skip
def test_64_bit_instructions(text: str, expected: np.ndarray) -> None:
    assert (evaluate(text, L, M, out="u8") == expected).all()


def test_double_precision() -> None:
    x, y = X.astype(np.float64) / 3, Y.astype(np.float64) / 7
    got = evaluate("mul.f64 %fd1, %a0, %a1; add.f64 %out, %fd1, 0d3FF0000000000000;", x, y, out="f8")
    assert (got == x * y + 1).all()


def test_half_and_narrow_conversions() -> None:
    packed = evaluate("cvt.rn.bf16x2.f32 %out, %a0, %a1;", X, Y)
    import ml_dtypes

    halves = packed.view(ml_dtypes.bfloat16).reshape(-1, 2)
    assert (halves[:, 0] == Y.astype(ml_dtypes.bfloat16)).all()
    assert (halves[:, 1] == X.astype(ml_dtypes.bfloat16)).all()
    product = evaluate("mul.rn.bf16x2 %out, %a0, %a0;", packed).view(ml_dtypes.bfloat16).reshape(-1, 2)
    assert (product == (halves.astype(np.float32) ** 2).astype(ml_dtypes.bfloat16)).all()
    eight = evaluate("cvt.rn.satfinite.e4m3x2.f32 %out, %a0, %a1;", X, Y, out="u2")
    assert (
        eight.view(ml_dtypes.float8_e4m3fn).reshape(-1, 2)[:, 1] == X.astype(ml_dtypes.float8_e4m3fn)
    ).all()
    wide = evaluate(
        ".reg .b16 %t; cvt.rn.satfinite.e4m3x2.f32 %t, %a0, %a1; cvt.rn.f16x2.e4m3x2 %out, %t;", X, Y
    )
    assert (
        wide.view(np.float16).reshape(-1, 2)[:, 0] == Y.astype(ml_dtypes.float8_e4m3fn).astype(np.float16)
    ).all()


@pytest.mark.parametrize(
    "name", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
)
def test_float_comparisons_with_nan(name: str) -> None:
    values = np.array([0, -0.0, 1, -1, np.inf, np.nan], np.float32)
    a, b = (v.reshape(-1).copy() for v in np.meshgrid(values, values))
    got = evaluate(
        f"setp.{name}.f32 %p1|%p2, %a0, %a1; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; or.b32 %out, %r1, %r2;",
        a,
        b,
    )

    def one(x: float, y: float) -> bool:
        unordered = x != x or y != y
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if unordered:
            return name.endswith("u") and name != "nu"
        return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name[:2]]

    assert got.tolist() == [1 if one(x, y) else 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_combined_comparison_and_guarded_instructions() -> None:
    got = evaluate(
        "setp.lt.s32 %p1, %a0, 0; setp.gt.and.u32 %p2|%p3, %a0, %a1, !%p1;"
        "mov.u32 %out, 0; @%p2 mov.u32 %out, 1; @!%p1 add.u32 %out, %out, 2; @%p3 add.u32 %out, %out, 8;",
        A, B,
    )  # fmt: skip
    positive, greater = SA >= 0, A > B
    assert (got == (positive & greater) * 1 + positive * 2 + (positive & ~greater) * 8).all()


def test_set_and_select_by_sign() -> None:
    assert (evaluate("set.lt.u32.s32 %out, %a0, %a1;", A, B) == np.where(SA < SB, 2**32 - 1, 0)).all()
    assert (evaluate("set.lt.f32.s32 %out, %a0, %a1;", A, B, out="f4") == (SA < SB)).all()
    assert (
        evaluate("slct.u32.s32 %out, %a0, %a1, %a2;", A, B, C) == np.where(C.view(np.int32) >= 0, A, B)
    ).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("frobnicate.u32 %r1, %r0;", "frobnicate"),
        ("add.rn.weird.f32 %f1, %f1, %f1;", "weird"),
        ("add.u32 %r1, %r0;", "3 operands"),
        ("add.u32 %rd1, %r0, %r0;", "width"),
        ("add.u32 %r1, %nothing, %r0;", "%nothing"),
        ("bra NOWHERE;", "NOWHERE"),
        ("mma.sync.aligned.m16n8k99.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};", "mma"),
        ("add.u32 %r1, %r0, 3$;", "3\\$"),
    ],
)  # fmt: skip
def test_what_is_not_implemented_is_refused_with_its_line(body: str, message: str) -> None:
    with pytest.raises(PtxError, match=f"line 24: .*{message}") as caught:
        assemble(f"mov.u32 %r1, 0;\n{body}")
    assert caught.value.line == 24
