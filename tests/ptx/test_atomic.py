# ruff: noqa: E501 - PTX bodies read better unbroken
"""Atomics: every operation, in thread order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.assemble import assemble

RNG = np.random.default_rng(11)


def run(
    op: str, kind: str, start: np.ndarray, values: np.ndarray, cells: int, blocks: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Thread i applies the operation with values[i] to cell i % cells; returns the cells and the old values."""
    memory, old = start.copy(), np.zeros_like(values)
    width = values.itemsize
    reg = "%r1" if width == 4 else "%rd5"
    out = "%r2" if width == 4 else "%rd6"
    compare = f"{out}_" if op == "cas" else ""
    body = f"""
    rem.u32 %r3, %r92, {cells}; mad.wide.u32 %rd1, %r3, {width}, %rd80;
    mad.wide.u32 %rd2, %r92, {width}, %rd81; mad.wide.u32 %rd3, %r92, {width}, %rd82;
    ld.global.b{width * 8} {reg}, [%rd2];
    atom.global.{op}.{kind} {out}, [%rd1], {"3, " if compare else ""}{reg};
    st.global.b{width * 8} [%rd3], {out};
    """
    assemble(body, "u64 u64 u64").launch((blocks,), (len(values) // blocks,), [memory, values, old])
    return memory, old


def expected(
    update: object, start: np.ndarray, values: np.ndarray, cells: int
) -> tuple[np.ndarray, np.ndarray]:
    memory, old = start.copy(), np.zeros_like(values)
    with np.errstate(over="ignore"):
        for i, v in enumerate(values):
            old[i] = memory[i % cells]
            memory[i % cells] = update(memory[i % cells], v)  # type: ignore[operator]
    return memory, old


@pytest.mark.parametrize("cells", [1, 3, 64])
@pytest.mark.parametrize(
    ("op", "kind", "dtype", "update"),
    [
        ("add", "u32", np.uint32, lambda a, b: a + b),
        ("add", "f32", np.float32, lambda a, b: a + b),
        ("add", "u64", np.uint64, lambda a, b: a + b),
        ("min", "s32", np.int32, min),
        ("max", "u32", np.uint32, max),
        ("and", "b32", np.uint32, lambda a, b: a & b),
        ("or", "b32", np.uint32, lambda a, b: a | b),
        ("xor", "b64", np.uint64, lambda a, b: a ^ b),
        ("exch", "b32", np.uint32, lambda a, b: b),
        ("cas", "b32", np.uint32, lambda a, b: b if a == 3 else a),
        ("inc", "u32", np.uint32, lambda a, b: 0 if a >= b else a + 1),
        ("dec", "u32", np.uint32, lambda a, b: b if a == 0 or a > b else a - 1),
    ],
)  # fmt: skip
def test_operations_in_thread_order(op: str, kind: str, dtype: type, update: object, cells: int) -> None:
    n = 192
    values = RNG.integers(0, 6 if op in ("inc", "dec", "cas") else 2**31, n).astype(dtype)
    if dtype is np.float32:
        values = RNG.standard_normal(n).astype(np.float32)
    start = RNG.integers(0, 5, cells).astype(dtype)
    for got, want in zip(
        run(op, kind, start, values, cells, 2), expected(update, start, values, cells), strict=True
    ):
        assert (got == want).all()


def test_packed_and_vector_additions() -> None:
    out = np.zeros(64, np.float16)
    assemble(
        "add.s64 %rd1, %rd80, %rd0; mov.u32 %r1, 0x40003C00; red.global.add.noftz.f16x2 [%rd1], %r1; red.global.add.noftz.f16x2 [%rd1], %r1;",
    ).launch((1,), (32,), [out])
    assert (out.reshape(-1, 2) == [2, 4]).all()
    four = np.zeros(4, np.float32)
    assemble(
        "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; red.relaxed.gpu.global.add.v4.f32 [%rd80], {%f1, %f2, %f1, %f2};"
    ).launch((2,), (64,), [four])
    assert four.tolist() == [128, 256, 128, 256]


def test_tickets_are_handed_out_in_order() -> None:
    counter, order = np.zeros(1, np.uint32), np.zeros(128, np.uint32)
    assemble(
        "atom.add.u32 %r1, [%rd80], 1; add.s64 %rd1, %rd81, %rd0; st.global.u32 [%rd1], %r1;", "u64 u64"
    ).launch((2,), (64,), [counter, order])
    assert (order == np.arange(128)).all()


def test_lock_by_compare_and_swap() -> None:
    lock, count = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    assemble(
        "TAKE: atom.global.cas.b32 %r1, [%rd80], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TAKE;"
        "ld.volatile.global.u32 %r2, [%rd81]; add.u32 %r2, %r2, 3; st.volatile.global.u32 [%rd81], %r2;"
        "membar.gl; atom.global.exch.b32 %r3, [%rd80], 0;",
        "u64 u64",
    ).launch((4,), (16,), [lock, count])
    assert (lock[0], count[0]) == (0, 3 * 64)
