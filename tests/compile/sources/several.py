"""A GEMM with dynamic sizes, views of one parameter, scalars of every type, static shared memory."""

import tilelang.language as T  # noqa: N812

m, k, rows, stride = (T.dynamic(name) for name in ("m", "k", "rows", "stride"))
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


@T.prim_func
def views(
    packed: T.Tensor((rows, 8), "uint8"),
    out: T.StridedTensor((rows, 4), (stride, 1), "float32"),
    never_read: T.Tensor((rows,), "int32"),
):
    with T.Kernel(T.ceildiv(rows, 128), threads=128) as block:
        packed_fp8 = T.view(packed, (rows, 8), "float8_e4m3fn")
        packed_bf16 = T.view(packed, (rows, 4), "bfloat16")
        for i, j in T.Parallel(128, 4):
            row = block * 128 + i
            out[row, j] = T.cast(packed_bf16[row, j], "float32") + T.cast(packed_fp8[row, j], "float32")


@T.prim_func
def scalars(
    out: T.Tensor((11,), "float64"),
    flag: T.bool,
    i8: T.int8,
    i16: T.int16,
    i32: T.int32,
    i64: T.int64,
    u8: T.uint8,
    u16: T.uint16,
    u32: T.uint32,
    u64: T.uint64,
    f16: T.float16,
    f64: T.float64,
):
    with T.Kernel(1, threads=32) as _:
        total = T.alloc_shared((32,), "float64", scope="shared")
        for i in T.Parallel(32):
            total[i] = T.if_then_else(flag, 1.0, f64) + i
        out[0] = T.cast(i8, "float64") + total[i8 % 32]
        out[1] = T.cast(i16, "float64")
        out[2] = T.cast(i32, "float64")
        out[3] = T.cast(i64, "float64")
        out[4] = T.cast(u8, "float64")
        out[5] = T.cast(u16, "float64")
        out[6] = T.cast(u32, "float64")
        out[7] = T.cast(u64, "float64")
        out[8] = T.cast(f16, "float64")


KERNELS = (gemm, "views", scalars)
PASS_CONFIGS = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
