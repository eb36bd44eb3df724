# ruff: noqa: E501 - PTX bodies read better unbroken
"""The 8-bit forms of ldmatrix and stmatrix, lane by lane."""

import numpy as np
import pytest

from gen.ptx import PtxError
from tests.ptx.assemble import assemble

TILE = ".shared .align 16 .b8 tile[512];"
G, L = np.divmod(np.arange(32), 4)


def _to_tile() -> str:
    """Copy the lane's 16 bytes of argument 0 to its row of the tile; %r5 is the row's address."""
    return (
        "mov.u32 %r3, tile; shl.b32 %r4, %r0, 4; add.u32 %r5, %r4, %r3; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd2, %rd80, %rd1;"
        "ld.global.v4.u32 {%r6,%r7,%r8,%r9}, [%rd2]; st.shared.v4.u32 [%r5], {%r6,%r7,%r8,%r9};"
    )


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_m16n16_transposes_bytes(count: int):
    tile = np.random.default_rng(count).integers(0, 256, (32, 16), np.uint8)
    registers = ",".join(f"%r{20 + i}" for i in range(2 * count))
    body = f"""{_to_tile()}
    ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {{{registers}}}, [%r5];
    mul.wide.u32 %rd3, %r0, {8 * count}; add.s64 %rd3, %rd3, %rd81; st.global.v{2 * count}.u32 [%rd3], {{{registers}}};
    """
    out = np.zeros((32, 2 * count), np.uint32)
    assemble(body, "u64 u64", declare=TILE).launch((1,), (32,), [tile, out])
    got = out.view(np.uint8).reshape(32, count, 2, 4)
    for matrix in range(count):
        rows = tile[16 * matrix :][:16]
        for half in range(2):
            for byte in range(4):
                assert (got[:, matrix, half, byte] == rows[4 * L + byte, G + 8 * half]).all()


def test_ldmatrix_m16n16_unpacks_before_it_transposes():
    codes = np.random.default_rng(4).integers(0, 16, (32, 16), np.uint8)
    tile = np.full((32, 16), 0xEE, np.uint8)
    tile[:, :8] = codes[:, ::2] | codes[:, 1::2] << 4
    body = f"""{_to_tile()}
    ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b4x16_p64 {{%r20,%r21,%r22,%r23}}, [%r5];
    add.s64 %rd3, %rd81, %rd1; st.global.v4.u32 [%rd3], {{%r20,%r21,%r22,%r23}};
    """
    out = np.zeros((32, 4), np.uint32)
    assemble(body, "u64 u64", declare=TILE).launch((1,), (32,), [tile, out])
    got = out.view(np.uint8).reshape(32, 2, 2, 4)
    for matrix in range(2):
        for byte in range(4):
            assert (got[:, matrix, 1, byte] == codes[16 * matrix + 4 * L + byte, G + 8]).all()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_m16n8_stores_accumulators_transposed(count: int):
    """As `mma` leaves them: lane 4g+l has (g, 2l), (g, 2l+1), (g+8, 2l), (g+8, 2l+1) in its four bytes."""
    matrices = np.random.default_rng(count).integers(0, 256, (count, 16, 8), np.uint8)
    lanes = np.stack([matrices[:, G + 8 * (i // 2), 2 * L + i % 2] for i in range(4)], axis=-1)
    given = np.zeros((32, 4), np.uint32)
    given[:, :count] = np.ascontiguousarray(lanes.transpose(1, 0, 2)).view(np.uint32)[..., 0]
    registers = ",".join(f"%r{6 + i}" for i in range(count))
    body = f"""
    mov.u32 %r3, tile; shl.b32 %r4, %r0, 4; add.u32 %r5, %r4, %r3; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd2, %rd80, %rd1;
    ld.global.v4.u32 {{%r6,%r7,%r8,%r9}}, [%rd2];
    setp.lt.u32 %p1, %r0, {8 * count};
    stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r5], {{{registers}}};
    bar.warp.sync -1;
    @%p1 ld.shared.v4.u32 {{%r20,%r21,%r22,%r23}}, [%r5];
    add.s64 %rd3, %rd81, %rd1; @%p1 st.global.v4.u32 [%rd3], {{%r20,%r21,%r22,%r23}};
    """
    out = np.zeros((8 * count, 4), np.uint32)
    assemble(body, "u64 u64", declare=TILE).launch((1,), (32,), [given, out])
    assert (out.view(np.uint8).reshape(count, 8, 16) == matrices.transpose(0, 2, 1)).all()


@pytest.mark.parametrize(
    "text",
    [
        "ldmatrix.sync.aligned.m16n16.x2.shared.b8 {%r6,%r7,%r8,%r9}, [%r5];",
        "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r6,%r7,%r8,%r9}, [%r5];",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r6}, [%r5];",
        "ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64 {%r6}, [%r5];",
        "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r5], {%r6};",
        "stmatrix.sync.aligned.m16n16.x1.trans.shared.b8 [%r5], {%r6};",
    ],
)
def test_forms_that_ptx_has_not(text: str):
    with pytest.raises(PtxError, match="PTX line"):
        assemble(_to_tile() + text, declare=TILE)
