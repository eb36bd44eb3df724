# SPDX-License-Identifier: Apache-2.0
# Generated from specs/deepseek_v4_flash/decode_window_h64.yaml (sha256 fe8685d2a749502c)
# through templates/tilelang/sparse_mla_decode.py.j2 (sha256 509980b3188cd990)
# by sm120-kernelgen 0.1.0 for tilelang 0.1.15. Edit the spec and run `kgen build`.
"""Sparse-MLA decode for 64 query heads, keys in 584-byte planar pages.

`decode` attends to the listed keys of one cache, and the last block of a token merges its splits.
A cache is a byte tensor seen as vectors of 8 bytes; `*_page_vectors` is its page stride in them.
`scale_log2` is the softmax scale times log2(e). An index of -1 is no key.
`arrivals` is zero before the first launch, and each launch leaves it so.
"""

import tilelang.language as T

PASS_CONFIGS = {
    "tl.disable_tma_lower": True,
    "tl.disable_warp_specialized": True,
    "tl.disable_safe_memory_legalize": True,
}

HEADS = 64
NOPE, ROPE, LATENT = 448, 64, 512
GROUP = 64  # values that share a scale
# A page holds 576-byte rows, then 8 scale bytes a row; a vector is 8 bytes.
ROW_VECTORS, ROPE_VECTOR = 72, 56
TILE_HEADS, TILE_KEYS, THREADS = 32, 32, 256
FLOOR = -1e30  # running maximum before any valid key
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
LSE_EMPTY = T.infinity("float32")

tokens = T.dynamic("tokens")
splits = T.dynamic("splits")
main_width = T.dynamic("main_width")
main_vectors = T.dynamic("main_vectors")


@T.prim_func
def decode(
    q: T.Tensor((tokens, HEADS, 512), "bfloat16"),
    main_cache: T.Tensor((main_vectors, 8), "uint8"),
    main_indices: T.Tensor((tokens, main_width), "int32"),
    main_lengths: T.Tensor((tokens,), "int32"),
    partial_out: T.Tensor((tokens, splits, HEADS, LATENT), "float32"),
    partial_max: T.Tensor((tokens, splits, HEADS), "float32"),
    partial_sum: T.Tensor((tokens, splits, HEADS), "float32"),
    arrivals: T.Tensor((tokens, 2), "int32"),
    sink: T.Tensor((HEADS,), "float32"),
    out: T.Tensor((tokens, HEADS, LATENT), "bfloat16"),
    lse: T.Tensor((tokens, HEADS), "float32"),
    main_page_vectors: T.int64,
    tiles_per_split: T.int32,
    scale_log2: T.float32,
):
    with T.Kernel(tokens, 2, splits, threads=THREADS) as (token, head_block, split):
        q_tile = T.alloc_shared((TILE_HEADS, LATENT), "bfloat16")
        latent = T.alloc_shared((TILE_KEYS, LATENT), "bfloat16")
        p_tile = T.alloc_shared((TILE_HEADS, TILE_KEYS), "bfloat16")
        key_vector = T.alloc_shared((TILE_KEYS,), "int64")
        scale_vector = T.alloc_shared((TILE_KEYS,), "int64")
        key_bias = T.alloc_shared((TILE_KEYS,), "float32")  # 0 for a valid key, -inf otherwise
        scale = T.alloc_shared((TILE_KEYS, 8), "float32")
        factor = T.alloc_shared((TILE_HEADS,), "float32")
        is_last = T.alloc_shared((1,), "int32")
        scores = T.alloc_fragment((TILE_HEADS, TILE_KEYS), "float32")
        acc = T.alloc_fragment((TILE_HEADS, LATENT), "float32")
        row_max = T.alloc_fragment((TILE_HEADS,), "float32")
        row_sum = T.alloc_fragment((TILE_HEADS,), "float32")
        tile_max = T.alloc_fragment((TILE_HEADS,), "float32")
        tile_sum = T.alloc_fragment((TILE_HEADS,), "float32")

        head0 = head_block * TILE_HEADS
        main_nope = T.view(main_cache, (main_vectors, 8), "float8_e4m3fn")
        main_rope = T.view(main_cache, (main_vectors, 4), "bfloat16")
        main_length = T.min(main_lengths[token], main_width)
        tiles = T.ceildiv(main_length, TILE_KEYS)
        first_tile = split * tiles_per_split
        last_tile = T.min(first_tile + tiles_per_split, tiles)

        T.copy(q[token, head0, 0], q_tile)
        T.clear(acc)
        T.fill(row_max, FLOOR)
        T.clear(row_sum)
        for tile in T.serial(first_tile, last_tile):
            # Where each key of the tile lies; an index of -1 and a column past the length are no key.
            for k in T.Parallel(TILE_KEYS):
                column = tile * TILE_KEYS + k
                index = T.if_then_else(column < main_length, main_indices[token, column], -1)
                slot = T.max(index, 0) % 256
                page_vector = T.cast(T.max(index, 0) // 256, "int64") * main_page_vectors
                key_vector[k] = page_vector + slot * ROW_VECTORS
                scale_vector[k] = page_vector + 256 * ROW_VECTORS + slot
                key_bias[k] = T.if_then_else(index >= 0, T.float32(0), -T.infinity("float32"))
            for k, group in T.Parallel(TILE_KEYS, 8):
                exponent = T.if_then_else(key_bias[k] == 0, main_cache[scale_vector[k], group], T.uint8(0))
                # 2^(exponent - 127); exponent 0 is the subnormal 2^-127.
                scale[k, group] = T.reinterpret(
                    T.max(T.cast(exponent, "uint32") << 23, T.uint32(0x00400000)), "float32"
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
                    latent[k, NOPE + v * 4 + j] = T.if_then_else(
                        key_bias[k] == 0, main_rope[key_vector[k] + ROPE_VECTOR + v, j], T.bfloat16(0)
                    )

            # Online softmax in base 2.
            T.gemm(q_tile, latent, scores, transpose_B=True, clear_accum=True)
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

        # The block that arrives last of this token and head tile merges the partial results of all.
        T.sync_threads()
        if T.get_thread_binding() == 0:
            earlier = T.atomic_add(arrivals[token, head_block], 1, memory_order="acq_rel", return_prev=True)
            is_last[0] = T.if_then_else(earlier == splits - 1, 1, 0)
        T.sync_threads()
        if is_last[0] == 1:
            T.fill(row_max, FLOOR)
            T.clear(row_sum)
            for part in T.serial(splits):
                for h in T.Parallel(TILE_HEADS):
                    row_max[h] = T.max(row_max[h], partial_max[token, part, head0 + h])
            for part in T.serial(splits):
                for h in T.Parallel(TILE_HEADS):
                    row_sum[h] += partial_sum[token, part, head0 + h] * T.exp2(
                        partial_max[token, part, head0 + h] - row_max[h]
                    )
            for h in T.Parallel(TILE_HEADS):
                factor[h] = row_max[h]  # through shared memory to the threads of the whole row
            T.clear(acc)
            for part in T.serial(splits):
                for h, d in T.Parallel(TILE_HEADS, LATENT):
                    acc[h, d] += partial_out[token, part, head0 + h, d] * T.exp2(
                        partial_max[token, part, head0 + h] - factor[h]
                    )
            for h in T.Parallel(TILE_HEADS):
                sink_log2 = sink[head0 + h] * LOG2E
                lse_log2 = T.if_then_else(
                    row_sum[h] > 0, row_max[h] + T.log2(row_sum[h]), -T.infinity("float32")
                )
                lse[token, head0 + h] = T.if_then_else(row_sum[h] > 0, lse_log2 * LN2, LSE_EMPTY)
                factor[h] = T.if_then_else(
                    row_sum[h] > 0, 1 / (row_sum[h] + T.exp2(sink_log2 - row_max[h])), T.float32(0)
                )
            for h, d in T.Parallel(TILE_HEADS, LATENT):
                out[token, head0 + h, d] = T.cast(acc[h, d] * factor[h], "bfloat16")
            if T.get_thread_binding() == 0:
                arrivals[token, head_block] = 0


KERNELS = (decode,)
