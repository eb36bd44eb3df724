# SPDX-License-Identifier: Apache-2.0
# Generated from specs/deepseek_v4_flash/indexer_wq_b.yaml (sha256 b886ee9429d6f20c)
# through templates/cutlass/fp8_block_gemm.py.j2 (sha256 a9230b40fc6b5ae5)
# by sm120-kernelgen 0.1.0 for nvidia-cutlass-dsl 4.8.1. Edit the spec and run `kgen build`.
"""FP8 GEMM with scaled blocks of k: out[m, n] = Σ a_scale · b_scale · Σ a[m, k] · b[n, k].
Scales are powers of two, a byte each, applied by the tensor cores.
b's rows lie along the 16 rows of an MMA and a's along its 8 columns, so that few rows of a waste little.
Each kernel is tiled for some range of m. Strides are in elements, from one row to the next.
"""

from typing import NamedTuple

import cutlass
from cutlass import BFloat16, Boolean, Float8E4M3FN, Float32, Int32, Int64, Uint8, Uint32, cute
from cutlass.cute.nvgpu import cpasync, warp

K_BLOCK = 128  # k of one scale; the scales of b also serve 128 of its rows

# Element type of each pointer, and the alignment in bytes that its accesses need.
POINTERS = {
    "out": (BFloat16, 2),
    "a": (Float8E4M3FN, 16),
    "a_scale": (Uint8, 1),
    "b": (Float8E4M3FN, 16),
    "b_scale": (Uint8, 1),
    "partial_out": (Float32, 4),
    "arrivals": (Int32, 4),
}


class Tile(NamedTuple):
    """Rows of a and b that a block multiplies, stages of its pipeline, and warps along each side."""

    m: int
    n: int
    stages: int
    warps_m: int
    warps_n: int

    @property
    def threads(self):
        return self.warps_m * self.warps_n * 32


def element(pointer, offset):
    return cute.make_tensor(pointer + offset, cute.make_layout(1))


@cute.jit
def copy_rows(source: cute.Pointer, stride: Int64, last: Int32, to: cute.Tensor, threads: cutlass.Constexpr):
    """Start to copy K_BLOCK bytes of each row of a tile; past `last` that row again, which no result uses."""
    thread, _, _ = cute.arch.thread_idx()
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), Float8E4M3FN, num_bits_per_copy=128)
    vectors = K_BLOCK // 16
    for row in cutlass.range_constexpr(0, cute.size(to, mode=[0]), threads // vectors):
        row, vector = row + thread // vectors, thread % vectors
        start = source + (cutlass.min(row, last) * stride + vector * 16)
        part = cute.local_tile(to, (1, 16), (row, vector))
        cute.copy(
            atom,
            cute.make_tensor(start.align(16), cute.make_layout(16)),
            cute.make_tensor(part.iterator, cute.make_layout(16)),
        )


@cute.jit
def mma_scaled(acc: cute.Tensor, b: cute.Tensor, a: cute.Tensor, b_scale: Uint32, a_scale: Uint32):
    """acc += b · 2^(b_scale - 127) · a · 2^(a_scale - 127) for 16 rows of b, 8 of a and 32 of k.

    A lane holds the scale of row lane / 4 of a in byte 0; one scale serves all 16 rows of b.
    """
    b_words, a_words = cute.recast_tensor(b, Uint32), cute.recast_tensor(a, Uint32)
    sums = cute.arch.inline_ptx(
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0"
        " {{$w0}, {$w1}, {$w2}, {$w3}}, {{$r0}, {$r1}, {$r2}, {$r3}}, {{$r4}, {$r5}},"
        " {{$r6}, {$r7}, {$r8}, {$r9}}, {$r10}, {0, 0}, {$r11}, {0, 0};",
        write_only_types=[Float32] * 4,
        read_only_args=[
            *(b_words[i] for i in range(4)),
            *(a_words[i] for i in range(2)),
            *(acc[i] for i in range(4)),
            b_scale,
            a_scale,
        ],
    )
    for i in cutlass.range_constexpr(4):
        acc[i] = sums[i]


@cute.kernel
def gemm(
    out: cute.Pointer,
    a: cute.Pointer,
    a_scale: cute.Pointer,
    b: cute.Pointer,
    b_scale: cute.Pointer,
    partial_out: cute.Pointer,
    arrivals: cute.Pointer,
    m: Int32,
    n: Int32,
    k: Int32,
    a_stride: Int64,
    a_scale_stride: Int64,
    out_stride: Int64,
    splits: Int32,
    k_blocks_per_split: Int32,
    tile: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    n_block, m_block, split = cute.arch.block_idx()
    n0, m0 = n_block * tile.n, m_block * tile.m
    k_blocks = k // K_BLOCK
    k_first = split * k_blocks_per_split
    k_last = cutlass.min(k_first + k_blocks_per_split, k_blocks)
    b_rows, a_rows = b + n0 * Int64(k), a + m0 * a_stride
    b_scales = b_scale + n0 // 128 * k_blocks

    memory = cutlass.utils.SmemAllocator()
    swizzle = cute.make_swizzle(3, 4, 3)  # the 16-byte vectors of 8 rows lie in different banks
    b_tile = memory.allocate_tensor(
        Float8E4M3FN,
        cute.make_layout((tile.n, K_BLOCK, tile.stages), stride=(K_BLOCK, 1, tile.n * K_BLOCK)),
        1024,
        swizzle,
    )
    a_tile = memory.allocate_tensor(
        Float8E4M3FN,
        cute.make_layout((tile.m, K_BLOCK, tile.stages), stride=(K_BLOCK, 1, tile.m * K_BLOCK)),
        1024,
        swizzle,
    )
    is_last = memory.allocate_tensor(Int32, cute.make_layout(1), 4)

    mma = cute.make_tiled_mma(
        warp.MmaFP8Op(Float8E4M3FN, Float32, (16, 8, 32)),
        cute.make_layout((tile.warps_n, tile.warps_m, 1)),
        permutation_mnk=(tile.warps_n * 16, tile.warps_m * 16, 32),
    )
    of_thread = mma.get_slice(thread)
    ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(num_matrices=4), Float8E4M3FN)
    load_b, load_a = cute.make_tiled_copy_A(ldmatrix, mma), cute.make_tiled_copy_B(ldmatrix, mma)
    b_shared = load_b.get_slice(thread).partition_S(b_tile)
    a_shared = load_a.get_slice(thread).partition_S(a_tile)
    b_fragment = mma.make_fragment_A(of_thread.partition_A(b_tile[None, None, 0]))
    a_fragment = mma.make_fragment_B(of_thread.partition_B(a_tile[None, None, 0]))
    acc = cute.make_rmem_tensor(of_thread.partition_shape_C((tile.n, tile.m)), Float32)
    acc.fill(0.0)
    # (row of b, row of a) of each accumulator.
    rows = of_thread.partition_C(cute.make_identity_tensor((tile.n, tile.m)))

    for stage in cutlass.range_constexpr(tile.stages - 1):
        if k_first + stage < k_last:
            copy_rows(
                b_rows + (k_first + stage) * K_BLOCK,
                Int64(k),
                n - 1 - n0,
                b_tile[None, None, stage],
                tile.threads,
            )
            copy_rows(
                a_rows + (k_first + stage) * K_BLOCK,
                a_stride,
                m - 1 - m0,
                a_tile[None, None, stage],
                tile.threads,
            )
        cute.arch.cp_async_commit_group()
    for k_block in cutlass.range(k_first, k_last):
        cute.arch.cp_async_wait_group(tile.stages - 2)
        cute.arch.sync_threads()
        ahead = k_block + tile.stages - 1
        if ahead < k_last:
            free = (ahead - k_first) % tile.stages
            copy_rows(b_rows + ahead * K_BLOCK, Int64(k), n - 1 - n0, b_tile[None, None, free], tile.threads)
            copy_rows(a_rows + ahead * K_BLOCK, a_stride, m - 1 - m0, a_tile[None, None, free], tile.threads)
        cute.arch.cp_async_commit_group()

        stage = (k_block - k_first) % tile.stages
        b_factor = Uint32(element(b_scales, k_block)[0])
        a_factor = cute.make_rmem_tensor(cute.size(acc, mode=[2]), Uint32)
        for j in cutlass.range_constexpr(cute.size(a_factor)):
            row = rows[(0, 0), 0, j][1] - thread % 4 * 2 + thread % 32 // 4
            row = m0 + cutlass.min(row, m - 1 - m0)
            a_factor[j] = Uint32(element(a_scale, row * a_scale_stride + k_block)[0])
        for step in cutlass.range_constexpr(K_BLOCK // 32):
            cute.copy(load_b, b_shared[None, None, step, stage], load_b.retile(b_fragment)[None, None, step])
            cute.copy(load_a, a_shared[None, None, step, stage], load_a.retile(a_fragment)[None, None, step])
            for i in cutlass.range_constexpr(cute.size(acc, mode=[1])):
                for j in cutlass.range_constexpr(cute.size(acc, mode=[2])):
                    mma_scaled(
                        acc[None, i, j],
                        b_fragment[None, i, step],
                        a_fragment[None, j, step],
                        b_factor,
                        a_factor[j],
                    )

    writes_out = Boolean(True)
    if splits > 1:
        # The last block of a tile to get here adds all parts, always in the same order.
        split_stride = Int64(m) * n
        for i in cutlass.range_constexpr(cute.size(acc)):
            row_n, row_m = n0 + rows[i][0], m0 + rows[i][1]
            if row_n < n and row_m < m:
                element(partial_out, split * split_stride + row_m * Int64(n) + row_n)[0] = acc[i]
        cute.arch.fence_acq_rel_gpu()
        cute.arch.sync_threads()
        n_blocks, _, _ = cute.arch.grid_dim()
        arrived = arrivals + (m_block * n_blocks + n_block)
        if thread == 0:
            is_last[0] = Int32(cute.arch.atomic_add(arrived.llvm_ptr, Int32(1)) == splits - 1)
        cute.arch.sync_threads()
        writes_out = is_last[0] == 1
        if writes_out:
            cute.arch.fence_acq_rel_gpu()
            if thread == 0:
                element(arrived, 0)[0] = Int32(0)  # as the next launch needs it
            acc.fill(0.0)
            # Past the ends the last element is read instead: without branches, many loads are under way.
            for other in cutlass.range(splits):
                for i in cutlass.range_constexpr(cute.size(acc)):
                    row_n = cutlass.min(n0 + rows[i][0], n - 1)
                    row_m = cutlass.min(m0 + rows[i][1], m - 1)
                    acc[i] += element(partial_out, other * split_stride + row_m * Int64(n) + row_n)[0]

    if writes_out:
        for i in cutlass.range_constexpr(cute.size(acc)):
            row_n, row_m = n0 + rows[i][0], m0 + rows[i][1]
            if row_n < n and row_m < m:
                element(out, row_m * out_stride + row_n)[0] = BFloat16(acc[i])


@cute.jit
def gemm_m16(
    out: cute.Pointer,
    a: cute.Pointer,
    a_scale: cute.Pointer,
    b: cute.Pointer,
    b_scale: cute.Pointer,
    partial_out: cute.Pointer,
    arrivals: cute.Pointer,
    m: Int32,
    n: Int32,
    k: Int32,
    a_stride: Int64,
    a_scale_stride: Int64,
    out_stride: Int64,
    splits: Int32,
    k_blocks_per_split: Int32,
):
    """Launch on tiles of 16 rows of a, meant for m up to 16."""
    tile = Tile(m=16, n=64, stages=4, warps_m=1, warps_n=4)
    grid = (cute.ceil_div(n, tile.n), cute.ceil_div(m, tile.m), splits)
    gemm(
        out,
        a,
        a_scale,
        b,
        b_scale,
        partial_out,
        arrivals,
        m,
        n,
        k,
        a_stride,
        a_scale_stride,
        out_stride,
        splits,
        k_blocks_per_split,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def gemm_m32(
    out: cute.Pointer,
    a: cute.Pointer,
    a_scale: cute.Pointer,
    b: cute.Pointer,
    b_scale: cute.Pointer,
    partial_out: cute.Pointer,
    arrivals: cute.Pointer,
    m: Int32,
    n: Int32,
    k: Int32,
    a_stride: Int64,
    a_scale_stride: Int64,
    out_stride: Int64,
    splits: Int32,
    k_blocks_per_split: Int32,
):
    """Launch on tiles of 32 rows of a, meant for m up to 64."""
    tile = Tile(m=32, n=64, stages=4, warps_m=2, warps_n=2)
    grid = (cute.ceil_div(n, tile.n), cute.ceil_div(m, tile.m), splits)
    gemm(
        out,
        a,
        a_scale,
        b,
        b_scale,
        partial_out,
        arrivals,
        m,
        n,
        k,
        a_stride,
        a_scale_stride,
        out_stride,
        splits,
        k_blocks_per_split,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def gemm_m128(
    out: cute.Pointer,
    a: cute.Pointer,
    a_scale: cute.Pointer,
    b: cute.Pointer,
    b_scale: cute.Pointer,
    partial_out: cute.Pointer,
    arrivals: cute.Pointer,
    m: Int32,
    n: Int32,
    k: Int32,
    a_stride: Int64,
    a_scale_stride: Int64,
    out_stride: Int64,
    splits: Int32,
    k_blocks_per_split: Int32,
):
    """Launch on tiles of 128 rows of a."""
    tile = Tile(m=128, n=128, stages=3, warps_m=2, warps_n=4)
    grid = (cute.ceil_div(n, tile.n), cute.ceil_div(m, tile.m), splits)
    gemm(
        out,
        a,
        a_scale,
        b,
        b_scale,
        partial_out,
        arrivals,
        m,
        n,
        k,
        a_stride,
        a_scale_stride,
        out_stride,
        splits,
        k_blocks_per_split,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


KERNELS = (
    gemm_m16,
    gemm_m32,
    gemm_m128,
)
