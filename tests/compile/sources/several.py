"""Views of one parameter, scalars of every type, static shared memory."""

import tilelang.language as T  # noqa: N812

rows, stride = T.dynamic("rows"), T.dynamic("stride")


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


KERNELS = ("views", scalars)
PASS_CONFIGS = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
