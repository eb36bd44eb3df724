"""c = scale * a @ b.T with two dynamic sizes."""

import tilelang.language as T  # noqa: N812

m, k = T.dynamic("m"), T.dynamic("k")
N = 256


@T.prim_func
def gemm(
    a: T.Tensor((m, k), "bfloat16"),
    b: T.Tensor((N, k), "bfloat16"),
    c: T.Tensor((m, N), "float32"),
    scale: T.float32,
):
    with T.Kernel(T.ceildiv(m, 32), N // 64, threads=128) as (row, column):
        a_tile = T.alloc_shared((32, 32), "bfloat16")
        b_tile = T.alloc_shared((64, 32), "bfloat16")
        total = T.alloc_fragment((32, 64), "float32")
        T.clear(total)
        for step in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
            T.copy(a[row * 32, step * 32], a_tile)
            T.copy(b[column * 64, step * 32], b_tile)
            T.gemm(a_tile, b_tile, total, transpose_B=True)
        for i, j in T.Parallel(32, 64):
            total[i, j] *= scale
        T.copy(total, c[row * 32, column * 64])


KERNELS = (gemm,)
PASS_CONFIGS = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
