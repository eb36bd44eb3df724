# ruff: noqa: E501 - PTX bodies read better unbroken
"""Matrix instructions with hand-made fragments."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault
from tests.ptx.assemble import assemble

LANE = np.arange(32)
G, L = LANE >> 2, LANE & 3


def per_lane(words: np.ndarray) -> np.ndarray:
    """[registers, 32] → the memory that each lane loads with one vector load."""
    return np.ascontiguousarray(words.T)


def test_ldmatrix_layout_plain_and_transposed() -> None:
    tile = np.arange(16 * 16, dtype=np.uint16).reshape(16, 16)
    for trans in ("", ".trans"):
        out = np.zeros((32, 4), np.uint32)
        body = f"""
    mov.u32 %r3, tile; shl.b32 %r4, %r0, 4; add.u32 %r5, %r4, %r3; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd2, %rd80, %rd1;
    ld.global.v4.u32 {{%r6,%r7,%r8,%r9}}, [%rd2]; st.shared.v4.u32 [%r5], {{%r6,%r7,%r8,%r9}};
    and.b32 %r10, %r0, 15; shl.b32 %r10, %r10, 5; shr.u32 %r11, %r0, 4; shl.b32 %r11, %r11, 4; add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r3;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r6,%r7,%r8,%r9}}, [%r10];
    add.s64 %rd3, %rd81, %rd1; st.global.v4.u32 [%rd3], {{%r6,%r7,%r8,%r9}};
        """
        kernel = assemble(body, "u64 u64", declare=".shared .align 16 .b8 tile[512];")
        kernel.launch((1,), (32,), [tile, out])
        got = out.view(np.uint16).reshape(32, 4, 2)
        for i in range(4):
            block = tile[8 * (i % 2) :, 8 * (i // 2) :][:8, :8]
            block = block.T if trans else block
            assert (got[:, i, 0] == block[G, 2 * L]).all()
            assert (got[:, i, 1] == block[G, 2 * L + 1]).all()


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_undoes_ldmatrix(trans: str) -> None:
    out = np.zeros((32, 2), np.uint32)
    body = f"""
    mov.u32 %r3, tile; and.b32 %r4, %r0, 15; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r3; add.u32 %r6, %r0, 100;
    setp.ge.u32 %p1, %r0, 16; @%p1 mov.u32 %r4, 3; // rows of lanes 16 and up do not count
    stmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 [%r4], {{%r0, %r6}};
    ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%r7, %r8}}, [%r4];
    mul.wide.u32 %rd1, %r0, 8; add.s64 %rd1, %rd80, %rd1; st.global.v2.u32 [%rd1], {{%r7, %r8}};
    """
    assemble(body, "u64", declare=".shared .align 16 .b8 tile[256];").launch((1,), (32,), [out])
    assert (out == np.stack([LANE, LANE + 100], 1)).all()


@pytest.mark.parametrize(("packing", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_ldmatrix_spreads_narrow_elements_to_bytes(packing: str, bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (16, 16))
    rows = [sum(int(v) << bits * i for i, v in enumerate(row)) for row in codes]
    packed = np.frombuffer(b"".join(r.to_bytes(2 * bits, "little") for r in rows), np.uint32).copy()
    out = np.zeros((32, 2), np.uint32)
    words = 2 * bits // 4
    stores = "".join(
        f"ld.global.u32 %r7, [%rd2+{4 * i}]; st.shared.u32 [%r5+{4 * i}], %r7;" for i in range(words)
    )
    body = f"""
    mov.u32 %r3, tile; and.b32 %r4, %r0, 15; shl.b32 %r5, %r4, 4; add.u32 %r5, %r5, %r3;
    mad.wide.u32 %rd2, %r4, {4 * words}, %rd80; {stores}
    ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.{packing} {{%r8, %r9}}, [%r5];
    mad.wide.u32 %rd3, %r0, 8, %rd81; st.global.v2.u32 [%rd3], {{%r8, %r9}};
    """
    assemble(body, "u64 u64", declare=".shared .align 16 .b8 tile[256];").launch((1,), (32,), [packed, out])
    got = out.view(np.uint8).reshape(8, 4, 2, 4).transpose(2, 0, 1, 3).reshape(16, 16)
    assert (got == codes).all()


def test_movmatrix_transposes() -> None:
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    words, out = matrix.reshape(32, 2).view(np.uint32).copy(), np.zeros(32, np.uint32)
    assemble(
        "add.s64 %rd1, %rd80, %rd0; ld.global.u32 %r1, [%rd1]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;"
        "add.s64 %rd1, %rd81, %rd0; st.global.u32 [%rd1], %r2;",
        "u64 u64",
    ).launch((1,), (32,), [words, out])
    assert (out.view(np.uint16).reshape(8, 8) == matrix.T).all()


def test_ldmatrix_rows_are_checked() -> None:
    body = "mov.u32 %r3, tile; shl.b32 %r4, %r0, 4; add.u32 %r4, %r4, %r3; ldmatrix.sync.aligned.m8n8.x{}.shared.b16 {}, [%r4];"
    declare = ".shared .align 16 .b8 tile[256];"
    with pytest.raises(Fault) as caught:
        assemble(body.format(4, "{%r5,%r6,%r7,%r8}"), declare=declare).launch((1,), (32,), [None])
    assert (caught.value.kind, caught.value.thread) == ("out of bounds", (16, 0, 0))
    with pytest.raises(Fault) as caught:
        assemble(body.format(2, "{%r5,%r6}"), declare=declare).launch((1,), (32,), [None])
    assert (caught.value.kind, caught.value.thread) == ("uninitialized read", (0, 0, 0))


def test_block_scaled_fp4_mma() -> None:
    # Every element is 1.0 (code 2); scales 2**(lane-dependent) must multiply rows and columns.
    scale_a = np.zeros(32, np.uint32)
    scale_b = np.zeros(32, np.uint32)
    scale_a[:] = [127 + (lane >> 2) | (126 << 8) for lane in LANE]
    scale_b[:] = [128 | (127 << 8) for _ in LANE]
    out = np.zeros((32, 4), np.float32)
    body = """
    add.s64 %rd1, %rd80, %rd0; ld.global.u32 %r1, [%rd1]; add.s64 %rd1, %rd81, %rd0; ld.global.u32 %r2, [%rd1];
    mov.u32 %r3, 0x22222222; mov.f32 %f1, 0f00000000;
    mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0
        {%f2,%f3,%f4,%f5}, {%r3,%r3,%r3,%r3}, {%r3,%r3}, {%f1,%f1,%f1,%f1}, {%r1}, {0, 0}, {%r2}, {0, 0};
    mul.wide.u32 %rd2, %r0, 16; add.s64 %rd2, %rd82, %rd2; st.global.v4.f32 [%rd2], {%f2,%f3,%f4,%f5};
    """
    assemble(body, "u64 u64 u64").launch((1,), (32,), [scale_a, scale_b, out])
    # k 0..31: 32 · 2**row · 2; k 32..63: 32 · 2**−1 · 1
    for i in range(4):
        assert (out[:, i] == 32 * 2.0**G * 2 + 16).all()


def scaled(ids: str) -> np.ndarray:
    """mma of ones with A's scale 2^i in byte i (2^−i for odd lanes of a pair) and the given selectors."""
    out = np.zeros((32, 4), np.float32)
    body = f"""
    mov.u32 %r3, 0x38383838; mov.u32 %r4, 0x08080808; mov.f32 %f1, 0f00000000; mov.u32 %r1, 0x8281807F; mov.u32 %r2, 0x7F7F7F7F;
    and.b32 %r6, %r0, 2; setp.ne.u32 %p1, %r6, 0; @%p1 mov.u32 %r1, 0x7C7D7E7F; cvt.u16.u32 %rs3, %r0;
    mov.u16 %rs0, 0; mov.u16 %rs1, 1; mov.u16 %rs2, 2;
    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0
        {{%f2,%f3,%f4,%f5}}, {{%r3,%r3,%r3,%r3}}, {{%r4,%r4}}, {{%f1,%f1,%f1,%f1}}, {{%r1}}, {ids}, {{%r2}}, {{0, 3}};
    mul.wide.u32 %rd2, %r0, 16; add.s64 %rd2, %rd80, %rd2; st.global.v4.f32 [%rd2], {{%f2,%f3,%f4,%f5}};
    """
    assemble(body).launch((1,), (32,), [out])
    return out


@pytest.mark.parametrize("ids", ["{2, 1}", "{%rs2, %rs1}", "{2, %rs1}"])
def test_scale_selectors_are_literals_or_registers(ids: str) -> None:
    assert (scaled(ids) == 32 * 2.0**-2).all()
    assert (scaled("{%rs1, %rs0}") == 32 * 2.0).all()


def test_scale_selectors_are_checked() -> None:
    for ids, message in (("{%rs3, %rs0}", "the same in all threads"), ("{%rs0, %rs2}", "thread id below 2")):
        with pytest.raises(Fault, match=message) as caught:
            scaled(ids)
        assert caught.value.kind == "selector"
