# SPDX-License-Identifier: Apache-2.0
# Generated from specs/deepseek_v32/decode_h128.yaml (sha256 81a17e0be3f89307)
# through templates/tilelang/sparse_mla_decode.py.j2 (sha256 509980b3188cd990)
# by sm120-kernelgen 0.1.0 for tilelang 0.1.15. Edit the spec and run `kgen build`.
"""Sparse-MLA decode for 128 query heads, keys in 656-byte records.

`decode` attends to the listed keys of one cache. `combine` merges its splits.
A cache is a byte tensor seen as vectors of 8 bytes; `*_page_vectors` is its page stride in them.
`scale_log2` is the softmax scale times log2(e). An index of -1 is no key.
"""

import tilelang.language as T

PASS_CONFIGS = {
    "tl.disable_tma_lower": True,
    "tl.disable_warp_specialized": True,
    "tl.disable_safe_memory_legalize": True,
}

HEADS = 128
NOPE, ROPE, LATENT = 512, 64, 512
GROUP = 128  # values that share a scale
GROUPS = NOPE // GROUP
# A record of 656 bytes holds values, fp32 scales and RoPE part; a vector is 8 bytes.
ROW_VECTORS, SCALE_VECTOR, ROPE_VECTOR = 82, 64, 66
TILE_HEADS, TILE_KEYS, THREADS = 32, 32, 256
COMBINE_HEADS, COMBINE_THREADS = 4, 128
FLOOR = -1e30  # running maximum before any valid key
LSE_EMPTY = -1e30

tokens = T.dynamic("tokens")
splits = T.dynamic("splits")
main_width = T.dynamic("main_width")
main_vectors = T.dynamic("main_vectors")


@T.prim_func
def decode(
    q: T.Tensor((tokens, HEADS, 576), "bfloat16"),
    main_cache: T.Tensor((main_vectors, 8), "uint8"),
    main_indices: T.Tensor((tokens, main_width), "int32"),
    partial_out: T.Tensor((tokens, splits, HEADS, LATENT), "float32"),
    partial_max: T.Tensor((tokens, splits, HEADS), "float32"),
    partial_sum: T.Tensor((tokens, splits, HEADS), "float32"),
    main_page_vectors: T.int64,
    tiles_per_split: T.int32,
    scale_log2: T.float32,
):
    with T.Kernel(tokens, 4, splits, threads=THREADS) as (token, head_block, split):
        q_tile = T.alloc_shared((TILE_HEADS, LATENT), "bfloat16")
        latent = T.alloc_shared((TILE_KEYS, LATENT), "bfloat16")
        q_rope = T.alloc_shared((TILE_HEADS, ROPE), "bfloat16")
        rope = T.alloc_shared((TILE_KEYS, ROPE), "bfloat16")
        p_tile = T.alloc_shared((TILE_HEADS, TILE_KEYS), "bfloat16")
        key_vector = T.alloc_shared((TILE_KEYS,), "int64")
        key_bias = T.alloc_shared((TILE_KEYS,), "float32")  # 0 for a valid key, -inf otherwise
        scale = T.alloc_shared((TILE_KEYS, 4), "float32")
        factor = T.alloc_shared((TILE_HEADS,), "float32")
        scores = T.alloc_fragment((TILE_HEADS, TILE_KEYS), "float32")
        acc = T.alloc_fragment((TILE_HEADS, LATENT), "float32")
        row_max = T.alloc_fragment((TILE_HEADS,), "float32")
        row_sum = T.alloc_fragment((TILE_HEADS,), "float32")
        tile_max = T.alloc_fragment((TILE_HEADS,), "float32")
        tile_sum = T.alloc_fragment((TILE_HEADS,), "float32")

        head0 = head_block * TILE_HEADS
        main_nope = T.view(main_cache, (main_vectors, 8), "float8_e4m3fn")
        main_rope = T.view(main_cache, (main_vectors, 4), "bfloat16")
        main_scale = T.view(main_cache, (main_vectors, 2), "float32")
        tiles = T.ceildiv(main_width, TILE_KEYS)
        first_tile = split * tiles_per_split
        last_tile = T.min(first_tile + tiles_per_split, tiles)

        T.copy(q[token, head0, 0], q_tile)
        T.copy(q[token, head0, NOPE], q_rope)
        T.clear(acc)
        T.fill(row_max, FLOOR)
        T.clear(row_sum)
        for tile in T.serial(first_tile, last_tile):
            # Where each key of the tile lies; an index of -1 and a column past the length are no key.
            for k in T.Parallel(TILE_KEYS):
                column = tile * TILE_KEYS + k
                index = T.if_then_else(column < main_width, main_indices[token, column], -1)
                slot = T.max(index, 0) % 64
                page_vector = T.cast(T.max(index, 0) // 64, "int64") * main_page_vectors
                key_vector[k] = page_vector + slot * ROW_VECTORS
                key_bias[k] = T.if_then_else(index >= 0, T.float32(0), -T.infinity("float32"))
            for k, group in T.Parallel(TILE_KEYS, GROUPS):
                scale[k, group] = T.if_then_else(
                    key_bias[k] == 0,
                    main_scale[key_vector[k] + SCALE_VECTOR + group // 2, group % 2],
                    T.float32(0),
                )
            # Dequantize to bf16. What is no key becomes zero: its bytes, NaN perhaps, are not even read.
            for k, v in T.Parallel(TILE_KEYS, NOPE // 8):
                if key_bias[k] == 0:
                    for j in T.vectorized(8):
                        value = T.cast(main_nope[key_vector[k] + v, j], "float32")
                        latent[k, v * 8 + j] = T.cast(value * scale[k, v // (GROUP // 8)], "bfloat16")
                else:
                    for j in T.vectorized(8):
                        latent[k, v * 8 + j] = T.bfloat16(0)
            for k, v in T.Parallel(TILE_KEYS, ROPE // 4):
                for j in T.vectorized(4):
                    rope[k, v * 4 + j] = T.if_then_else(
                        key_bias[k] == 0, main_rope[key_vector[k] + ROPE_VECTOR + v, j], T.bfloat16(0)
                    )

            # Online softmax in base 2.
            T.gemm(q_tile, latent, scores, transpose_B=True, clear_accum=True)
            T.gemm(q_rope, rope, scores, transpose_B=True)
            for h, k in T.Parallel(TILE_HEADS, TILE_KEYS):
                scores[h, k] = scores[h, k] * scale_log2 + key_bias[k]
            T.reduce_max(scores, tile_max, dim=1)
            for h in T.Parallel(TILE_HEADS):
                tile_max[h] = T.max(tile_max[h], row_max[h])
                factor[h] = T.exp2(row_max[h] - tile_max[h])
                row_max[h] = tile_max[h]
            for h, k in T.Parallel(TILE_HEADS, TILE_KEYS):
                scores[h, k] = T.exp2(scores[h, k] - row_max[h])
            T.reduce_sum(scores, tile_sum, dim=1)
            for h in T.Parallel(TILE_HEADS):
                row_sum[h] = row_sum[h] * factor[h] + tile_sum[h]
            T.copy(scores, p_tile)
            for h, d in T.Parallel(TILE_HEADS, LATENT):
                acc[h, d] *= factor[h]
            T.gemm(p_tile, latent, acc)

        for h in T.Parallel(TILE_HEADS):
            partial_max[token, split, head0 + h] = row_max[h]
            partial_sum[token, split, head0 + h] = row_sum[h]
        T.copy(acc, partial_out[token, split, head0, 0])


@T.prim_func
def combine(
    partial_out: T.Tensor((tokens, splits, HEADS, LATENT), "float32"),
    partial_max: T.Tensor((tokens, splits, HEADS), "float32"),
    partial_sum: T.Tensor((tokens, splits, HEADS), "float32"),
    out: T.Tensor((tokens, HEADS, LATENT), "bfloat16"),
    lse: T.Tensor((tokens, HEADS), "float32"),
):
    with T.Kernel(tokens, 32, threads=COMBINE_THREADS) as (token, head_block):
        factor = T.alloc_shared((COMBINE_HEADS,), "float32")
        acc = T.alloc_fragment((COMBINE_HEADS, LATENT), "float32")
        row_max = T.alloc_fragment((COMBINE_HEADS,), "float32")
        row_sum = T.alloc_fragment((COMBINE_HEADS,), "float32")

        head0 = head_block * COMBINE_HEADS
        T.fill(row_max, FLOOR)
        T.clear(row_sum)
        for part in T.serial(splits):
            for h in T.Parallel(COMBINE_HEADS):
                row_max[h] = T.max(row_max[h], partial_max[token, part, head0 + h])
        for part in T.serial(splits):
            for h in T.Parallel(COMBINE_HEADS):
                row_sum[h] += partial_sum[token, part, head0 + h] * T.exp2(
                    partial_max[token, part, head0 + h] - row_max[h]
                )
        for h in T.Parallel(COMBINE_HEADS):
            factor[h] = row_max[h]  # through shared memory to the threads of the whole row
        T.clear(acc)
        for part in T.serial(splits):
            for h, d in T.Parallel(COMBINE_HEADS, LATENT):
                acc[h, d] += partial_out[token, part, head0 + h, d] * T.exp2(
                    partial_max[token, part, head0 + h] - factor[h]
                )
        for h in T.Parallel(COMBINE_HEADS):
            lse_log2 = T.if_then_else(row_sum[h] > 0, row_max[h] + T.log2(row_sum[h]), -T.infinity("float32"))
            lse[token, head0 + h] = T.if_then_else(row_sum[h] > 0, lse_log2, LSE_EMPTY)
            factor[h] = T.if_then_else(row_sum[h] > 0, 1 / row_sum[h], T.float32(0))
        for h, d in T.Parallel(COMBINE_HEADS, LATENT):
            out[token, head0 + h, d] = T.cast(acc[h, d] * factor[h], "bfloat16")


KERNELS = (decode, combine)
