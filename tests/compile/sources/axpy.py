"""y = alpha * x + y."""

import tilelang.language as T  # noqa: N812

n = T.dynamic("n")


@T.prim_func
def axpy(y: T.Tensor((n,), "float32"), x: T.Tensor((n,), "float32"), alpha: T.float32):
    with T.Kernel(T.ceildiv(n, 128), threads=128) as block:
        for i in T.Parallel(128):
            y[block * 128 + i] = alpha * x[block * 128 + i] + y[block * 128 + i]


KERNELS = ("axpy",)
PASS_CONFIGS = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
