# SPDX-License-Identifier: Apache-2.0
# Generated from specs/deepseek_v4_flash/projections_fp32_tilelang.yaml (sha256 c714af9a66c614c4)
# through templates/tilelang/fp8_block_gemm.py.j2 (sha256 b99dbe19a8102a29)
# by sm120-kernelgen 0.1.0 for tilelang 0.1.15. Edit the spec and run `kgen build`.
"""FP8 GEMM with scaled blocks of k: out[m, n] = Σ a_scale · b_scale · Σ a[m, k] · b[n, k].

Scales are fp32; the sum of each block of k is scaled and added to fp32 accumulators.
Each kernel is tiled for some range of m. Strides are in elements, from row to row; a vector is 16 bytes.
`arrivals` is zero before the first launch, and each launch leaves it so.
"""

from typing import NamedTuple

import tilelang.language as T

PASS_CONFIGS = {
    "tl.disable_tma_lower": True,
    "tl.disable_warp_specialized": True,
    "tl.disable_safe_memory_legalize": True,
}

K_BLOCK = 128  # k of one scale; the scales of b also serve 128 of its rows
VECTORS = K_BLOCK // 16
# The copies of a stage make one group, committed and waited for by name.
NO_WAIT = {"parallel_async_without_async_commit_wait": True}


class Tile(NamedTuple):
    """Rows of a and b that a block multiplies, stages of its pipeline, its threads, and how its warps lie."""

    m: int
    n: int
    stages: int
    threads: int
    warps: T.GemmWarpPolicy


def gemm(name: str, tile: Tile):
    """The kernel `name` for one tile."""
    # Sizes of the flat tensors, which nothing reads.
    a_vectors, a_scales, b_vectors, b_scales = (
        T.dynamic(size, "int64") for size in ("a_vectors", "a_scales", "b_vectors", "b_scales")
    )
    out_size = T.dynamic("out_size", "int64")
    parts_size, tiles = T.dynamic("parts_size", "int64"), T.dynamic("tiles", "int64")

    @T.prim_func
    def kernel(
        out: T.Tensor((out_size,), "bfloat16"),
        a: T.Tensor((a_vectors, 16), "float8_e4m3fn"),
        a_scale: T.Tensor((a_scales,), "float32"),
        b: T.Tensor((b_vectors, 16), "float8_e4m3fn"),
        b_scale: T.Tensor((b_scales,), "float32"),
        partial_out: T.Tensor((parts_size,), "float32"),
        arrivals: T.Tensor((tiles,), "int32"),
        m: T.int32,
        n: T.int32,
        k: T.int32,
        a_stride: T.int64,
        a_scale_stride: T.int64,
        out_stride: T.int64,
        splits: T.int32,
        k_blocks_per_split: T.int32,
    ):
        with T.Kernel(T.ceildiv(n, tile.n), T.ceildiv(m, tile.m), splits, threads=tile.threads) as (
            n_block,
            m_block,
            split,
        ):
            a_tile = T.alloc_shared((tile.stages, tile.m, K_BLOCK), "float8_e4m3fn")
            b_tile = T.alloc_shared((tile.stages, tile.n, K_BLOCK), "float8_e4m3fn")
            a_factor = T.alloc_fragment((tile.m,), "float32")
            block_sum = T.alloc_fragment((tile.m, tile.n), "float32")
            acc = T.alloc_fragment((tile.m, tile.n), "float32")
            is_last = T.alloc_shared((1,), "int32")

            m0, n0 = m_block * tile.m, n_block * tile.n
            k_blocks = k // K_BLOCK
            a_vectors_of_row, b_vectors_of_row = a_stride // 16, T.cast(k // 16, "int64")
            k_first = split * k_blocks_per_split
            k_last = T.min(k_first + k_blocks_per_split, k_blocks)

            T.clear(acc)
            # Past the last row of a or b that row is copied again, which no result uses.
            for stage in T.serial(tile.stages - 1):
                if k_first + stage < k_last:
                    for i, e in T.Parallel(tile.n, K_BLOCK, prefer_async=True, annotations=NO_WAIT):
                        b_tile[stage, i, e] = b[
                            T.min(n0 + i, n - 1) * b_vectors_of_row + (k_first + stage) * VECTORS + e // 16,
                            e % 16,
                        ]
                    for i, e in T.Parallel(tile.m, K_BLOCK, prefer_async=True, annotations=NO_WAIT):
                        a_tile[stage, i, e] = a[
                            T.min(m0 + i, m - 1) * a_vectors_of_row + (k_first + stage) * VECTORS + e // 16,
                            e % 16,
                        ]
                T.ptx_commit_group()
            for k_block in T.serial(k_first, k_last):
                T.ptx_wait_group(tile.stages - 2)
                T.sync_threads()
                ahead = k_block + tile.stages - 1
                if ahead < k_last:
                    free = (ahead - k_first) % tile.stages
                    for i, e in T.Parallel(tile.n, K_BLOCK, prefer_async=True, annotations=NO_WAIT):
                        b_tile[free, i, e] = b[
                            T.min(n0 + i, n - 1) * b_vectors_of_row + ahead * VECTORS + e // 16, e % 16
                        ]
                    for i, e in T.Parallel(tile.m, K_BLOCK, prefer_async=True, annotations=NO_WAIT):
                        a_tile[free, i, e] = a[
                            T.min(m0 + i, m - 1) * a_vectors_of_row + ahead * VECTORS + e // 16, e % 16
                        ]
                T.ptx_commit_group()

                stage = (k_block - k_first) % tile.stages
                T.gemm(
                    a_tile[stage, :, :],
                    b_tile[stage, :, :],
                    block_sum,
                    transpose_B=True,
                    policy=tile.warps,
                    clear_accum=True,
                )
                b_factor = b_scale[n0 // 128 * k_blocks + k_block]
                for i in T.Parallel(tile.m):
                    a_factor[i] = a_scale[T.min(m0 + i, m - 1) * a_scale_stride + k_block] * b_factor
                for i, j in T.Parallel(tile.m, tile.n):
                    acc[i, j] += block_sum[i, j] * a_factor[i]

            if splits == 1:
                for i, j in T.Parallel(tile.m, tile.n):
                    if m0 + i < m and n0 + j < n:
                        out[(m0 + i) * out_stride + n0 + j] = T.cast(acc[i, j], "bfloat16")
            else:
                # The last block of a tile to get here adds all parts, always in the same order.
                part_size = T.cast(m, "int64") * n
                for i, j in T.Parallel(tile.m, tile.n):
                    if m0 + i < m and n0 + j < n:
                        partial_out[split * part_size + (m0 + i) * T.cast(n, "int64") + n0 + j] = acc[i, j]
                T.sync_threads()
                arrived = m_block * T.ceildiv(n, tile.n) + n_block
                if T.get_thread_binding() == 0:
                    earlier = T.atomic_add(arrivals[arrived], 1, memory_order="acq_rel", return_prev=True)
                    is_last[0] = T.if_then_else(earlier == splits - 1, 1, 0)
                T.sync_threads()
                if is_last[0] == 1:
                    T.clear(acc)
                    for other in T.serial(splits):
                        for i, j in T.Parallel(tile.m, tile.n):
                            if m0 + i < m and n0 + j < n:
                                acc[i, j] += partial_out[
                                    other * part_size + (m0 + i) * T.cast(n, "int64") + n0 + j
                                ]
                    for i, j in T.Parallel(tile.m, tile.n):
                        if m0 + i < m and n0 + j < n:
                            out[(m0 + i) * out_stride + n0 + j] = T.cast(acc[i, j], "bfloat16")
                    if T.get_thread_binding() == 0:
                        arrivals[arrived] = 0  # as the next launch needs it

    return kernel.with_attr("global_symbol", name)


KERNELS = (
    gemm(
        "gemm_m16",  # m up to 16
        Tile(m=16, n=64, stages=4, threads=128, warps=T.GemmWarpPolicy.FullCol),
    ),
    gemm(
        "gemm_m32",  # m up to 64
        Tile(m=32, n=64, stages=4, threads=128, warps=T.GemmWarpPolicy.Square),
    ),
    gemm(
        "gemm_m128",  # any m
        Tile(m=128, n=64, stages=4, threads=256, warps=T.GemmWarpPolicy.Square),
    ),
)
