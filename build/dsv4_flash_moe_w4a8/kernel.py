# SPDX-License-Identifier: Apache-2.0
# Generated from specs/deepseek_v4_flash/moe_w4a8.yaml (sha256 e804b6ac2cf1e6f7)
# through templates/cutlass/mxfp4_moe.py.j2 (sha256 5d7735d0e713e5de)
# by sm120-kernelgen 0.1.0 for nvidia-cutlass-dsl 4.8.1. Edit the spec and run `kgen build`.
"""Mixture of experts with MXFP4 weights: out[t] = Σ weight · w2[expert] · SwiGLU(w13[expert] · x[t]).

The sum is over the 6 experts of a token t; its pair with the j-th of them is number t · 6 + j.
`align` groups pairs by expert into blocks, `gate_up` and `down` multiply a block of pairs by its expert's
weights, and `combine` adds the rows of each token. Weights are e2m1, two to a byte with the even k in the low
half, and share a power of two, a byte, among 32 of k.
Activations are quantized to e4m3 with a power of two for 128 of k, before either product; the tensor cores
apply all scales.
Weight rows lie along the 16 rows of an MMA and pairs along its 8 columns, so that few pairs waste little.
"""

from typing import NamedTuple

import cutlass
from cutlass import BFloat16, Float8E4M3FN, Float32, Int32, Int64, Uint8, Uint32, cute
from cutlass.cute.nvgpu import cpasync

TOPK = 6
K_BLOCK = 128  # k of one stage: 64 bytes and 4 scales of a weight row
ALIGN_THREADS = 256  # one an expert
COMBINE_THREADS = 128  # 4 columns each
GROUP = 128  # k of a scale of activations
QUANTIZE_THREADS = 128  # 8 columns each
LIMIT = 10.0

# Element type of each pointer, and the alignment in bytes that its accesses need.
POINTERS = {
    "out": (BFloat16, 8),
    "hidden_states": (BFloat16, 16),
    "x_q": (Float8E4M3FN, 16),
    "x_scale": (Uint8, 4),
    "h_q": (Float8E4M3FN, 16),
    "h_scale": (Uint8, 4),
    "w13": (Uint8, 16),
    "w13_scale": (Uint8, 4),
    "w2": (Uint8, 16),
    "w2_scale": (Uint8, 4),
    "topk_ids": (Int32, 4),
    "topk_weights": (Float32, 4),
    "sorted_token_ids": (Int32, 4),
    "expert_ids": (Int32, 4),
    "num_tokens_post_padded": (Int32, 4),
    "h": (BFloat16, 16),
    "rows": (BFloat16, 8),
}


class Tile(NamedTuple):
    """Pairs and weight rows of a block, and stages of its pipeline; each warp has 16 rows of either half."""

    pairs: int
    rows: int
    stages: int

    @property
    def threads(self):
        return self.rows


def element(pointer, offset):
    return cute.make_tensor(pointer + offset, cute.make_layout(1))


def load(pointer, count):
    """`count` elements of one aligned vector."""
    vector = cute.make_rmem_tensor(count, pointer.value_type)
    aligned = pointer.align(count * pointer.value_type.width // 8)
    cute.autovec_copy(cute.make_tensor(aligned, cute.make_layout(count)), vector)
    return vector


def reinterpreted(value, dtype):
    """The bits of a value as another type."""
    register = cute.make_rmem_tensor(1, type(value))
    register[0] = value
    return cute.recast_tensor(register, dtype)[0]


def words_of(tile, at, count):
    """`count` 32-bit words of a tile in shared memory."""
    return load(cute.recast_ptr(tile.iterator + tile.layout(at), dtype=Uint32), count)


def copy_async(source, to, size):
    """Start to copy `size` bytes from global to shared memory."""
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), source.value_type, num_bits_per_copy=size * 8)
    layout = cute.make_layout(size * 8 // source.value_type.width)
    cute.copy(atom, cute.make_tensor(source.align(size), layout), cute.make_tensor(to.align(size), layout))


def w13_row(half, n, intermediate):
    """The row of gate n (half 0) or up n (half 1)."""
    return half * intermediate + n


def weight_vector(row, vector):
    """Where 32 of k of a weight lie in its row of 4 vectors: 8 rows read at once find different banks."""
    return vector ^ row // 2 % 4


def activation_vector(row, vector):
    """Where 16 of k of a pair lie in its row of 8 vectors: 4 rows read at once find different banks."""
    return vector ^ row % 4 * 2


def byte_weights(word):
    """8 of e2m1, each in bits 5:2 of a byte, as `kind::mxf8f6f4` has them."""
    even, odd = word << 2 & 0x3C3C3C3C, word >> 2 & 0x3C3C3C3C
    return cute.arch.prmt(even, odd, 0x5140), cute.arch.prmt(even, odd, 0x7362)


@cute.jit
def mma(acc: cute.Tensor, a: tuple, b: tuple, a_scale: Uint32, b_scale: Uint32, group: cutlass.Constexpr):
    """acc += a · b, scaled, for 16 weight rows, 8 pairs and 32 of k.

    Lanes 4g and 4g + 1 hold four scales of weight rows g and g + 8, lane 4g those of pair g; `group` picks.
    """
    sums = cute.arch.inline_ptx(
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e4m3.f32.ue8m0"
        " {{$w0}, {$w1}, {$w2}, {$w3}}, {{$r0}, {$r1}, {$r2}, {$r3}}, {{$r4}, {$r5}},"
        " {{$r6}, {$r7}, {$r8}, {$r9}}, {$r10}, "
        f"{{{group}, 0}}, "
        "{$r11}, "
        f"{{{group}, 0}};",
        write_only_types=[Float32] * 4,
        read_only_args=[*a, *b, *(acc[i] for i in range(4)), a_scale, b_scale],
    )
    for i in cutlass.range_constexpr(4):
        acc[i] = sums[i]


@cute.jit
def copy_stage(
    weights: cute.Pointer,
    weight_rows: cute.Tensor,
    scales: cute.Pointer,
    activations: cute.Pointer,
    activation_rows: cute.Tensor,
    activation_scales: cute.Pointer,
    activation_scale_row: Int64,
    weight_tile: cute.Tensor,
    scale_tile: cute.Tensor,
    activation_tile: cute.Tensor,
    activation_scale_tile: cute.Tensor,
    k_block: Int32,
    stage: Int32,
    tile: cutlass.Constexpr,
):
    """Start to copy K_BLOCK of k of a tile."""
    thread, _, _ = cute.arch.thread_idx()
    for i in cutlass.range_constexpr(cute.size(weight_rows)):
        row, vector = (i * tile.threads + thread) // 4, thread % 4
        source = weights + (weight_rows[i] + k_block * 64 + vector * 16)
        at = weight_tile.layout((row, weight_vector(row, vector) * 16, stage))
        copy_async(source, weight_tile.iterator + at, 16)
    copy_async(scales + k_block * 4, scale_tile.iterator + scale_tile.layout((thread, 0, stage)), 4)
    for i in cutlass.range_constexpr(cute.size(activation_rows)):
        row, vector = (i * tile.threads + thread) // 8, thread % 8
        source = activations + (activation_rows[i] + k_block * K_BLOCK + vector * 16)
        at = activation_tile.layout((row, activation_vector(row, vector) * 16, stage))
        copy_async(source, activation_tile.iterator + at, 16)
    if thread < tile.pairs:
        scale_at = activation_scale_tile.layout((thread, 0, stage))
        scale_source = activation_scales + (activation_scale_row + k_block * 4)
        copy_async(scale_source, activation_scale_tile.iterator + scale_at, 4)


@cute.jit
def multiply(
    weights: cute.Pointer,
    weight_rows: cute.Tensor,
    scales: cute.Pointer,
    activations: cute.Pointer,
    activation_rows: cute.Tensor,
    activation_scales: cute.Pointer,
    activation_scale_row: Int64,
    k: Int32,
    tile: cutlass.Constexpr,
):
    """Products [4, pairs / 8, 2] of a block: fragments of 16 rows by 8 pairs from either half of its rows.

    `weight_rows` and `activation_rows` are the offsets of the rows that this thread copies, and `scales` is
    where those of weight row `thread` begin; `activation_scale_row` is the offset of those of pair `thread`.
    """
    thread, _, _ = cute.arch.thread_idx()
    lane_row, part, warp = thread % 32 // 4, thread % 4, thread // 32
    memory = cutlass.utils.SmemAllocator()
    weight_tile = memory.allocate_tensor(
        Uint8, cute.make_layout((tile.rows, 64, tile.stages), stride=(64, 1, tile.rows * 64)), 16
    )
    activation_tile = memory.allocate_tensor(
        Float8E4M3FN,
        cute.make_layout((tile.pairs, K_BLOCK, tile.stages), stride=(K_BLOCK, 1, tile.pairs * K_BLOCK)),
        16,
    )
    scale_tile = memory.allocate_tensor(
        Uint8, cute.make_layout((tile.rows, 4, tile.stages), stride=(4, 1, tile.rows * 4)), 16
    )
    activation_scale_tile = memory.allocate_tensor(
        Uint8, cute.make_layout((tile.pairs, 4, tile.stages), stride=(4, 1, tile.pairs * 4)), 16
    )
    acc = cute.make_rmem_tensor((4, tile.pairs // 8, 2), Float32)
    acc.fill(0.0)
    k_blocks = k // K_BLOCK
    for stage in cutlass.range_constexpr(tile.stages - 1):
        if stage < k_blocks:
            copy_stage(
                weights,
                weight_rows,
                scales,
                activations,
                activation_rows,
                activation_scales,
                activation_scale_row,
                weight_tile,
                scale_tile,
                activation_tile,
                activation_scale_tile,
                Int32(stage),
                Int32(stage),
                tile,
            )
        cute.arch.cp_async_commit_group()
    for k_block in cutlass.range(k_blocks):
        cute.arch.cp_async_wait_group(tile.stages - 2)
        cute.arch.sync_threads()
        ahead = k_block + tile.stages - 1
        if ahead < k_blocks:
            copy_stage(
                weights,
                weight_rows,
                scales,
                activations,
                activation_rows,
                activation_scales,
                activation_scale_row,
                weight_tile,
                scale_tile,
                activation_tile,
                activation_scale_tile,
                ahead,
                ahead % tile.stages,
                tile,
            )
        cute.arch.cp_async_commit_group()

        stage = k_block % tile.stages
        weight_scales, pair_scales = [], []
        for half in cutlass.range_constexpr(2):
            row = half * (tile.rows // 2) + warp * 16 + part % 2 * 8 + lane_row
            weight_scales.append(words_of(scale_tile, (row, 0, stage), 1)[0])
        for j in cutlass.range_constexpr(tile.pairs // 8):
            pair_scales.append(words_of(activation_scale_tile, (j * 8 + lane_row, 0, stage), 1)[0])
        for group in cutlass.range_constexpr(4):
            expanded = []
            for half in cutlass.range_constexpr(2):
                for side in cutlass.range_constexpr(2):
                    row = half * (tile.rows // 2) + warp * 16 + side * 8 + lane_row
                    column = weight_vector(row, group) * 16 + part * 4
                    expanded.append(byte_weights(words_of(weight_tile, (row, column, stage), 1)[0]))
            for j in cutlass.range_constexpr(tile.pairs // 8):
                row = j * 8 + lane_row
                column = activation_vector(row, group * 2 + part // 2) * 16 + part % 2 * 8
                b = words_of(activation_tile, (row, column, stage), 2)
                for half in cutlass.range_constexpr(2):
                    low, high = expanded[half * 2], expanded[half * 2 + 1]
                    a = (low[0], high[0], low[1], high[1])
                    mma(acc[None, j, half], a, (b[0], b[1]), weight_scales[half], pair_scales[j], group)
    return acc


@cute.kernel
def align_kernel(
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    topk_ids: cute.Pointer,
    tokens: Int32,
    experts: Int32,
    block_tokens: Int32,
):
    """Pairs by expert, each expert's from a multiple of `block_tokens` on and padded with tokens · TOPK.

    `expert_ids` gets the expert of each block. Pairs without an expert of this card are left out.
    """
    thread, _, _ = cute.arch.thread_idx()
    lane, warp = thread % 32, thread // 32
    memory = cutlass.utils.SmemAllocator()
    slots = memory.allocate_tensor(Int32, cute.make_layout(ALIGN_THREADS), 4)
    warp_slots = memory.allocate_tensor(Int32, cute.make_layout(ALIGN_THREADS // 32), 4)
    pairs = tokens * TOPK
    slots[thread] = 0
    cute.arch.sync_threads()
    for pair in cutlass.range(thread, pairs, ALIGN_THREADS):
        expert = element(topk_ids, pair)[0]
        if expert >= 0 and expert < experts:
            cute.arch.atomic_add((slots.iterator + expert).llvm_ptr, Int32(1))
    cute.arch.sync_threads()

    count = slots[thread]
    padded = cute.ceil_div(count, block_tokens) * block_tokens
    end = padded
    for step in cutlass.range_constexpr(5):
        below = cute.arch.shuffle_sync_up(end, 1 << step)
        if lane >= 1 << step:
            end += below
    if lane == 31:
        warp_slots[warp] = end
    cute.arch.sync_threads()
    for other in cutlass.range_constexpr(ALIGN_THREADS // 32):
        if other < warp:
            end += warp_slots[other]
    slots[thread] = end - padded
    for slot in cutlass.range(end - padded + count, end):
        element(sorted_token_ids, slot)[0] = pairs
    if thread == ALIGN_THREADS - 1:
        element(num_tokens_post_padded, 0)[0] = end
    cute.arch.sync_threads()

    for pair in cutlass.range(thread, pairs, ALIGN_THREADS):
        expert = element(topk_ids, pair)[0]
        if expert >= 0 and expert < experts:
            slot = Int32(cute.arch.atomic_add((slots.iterator + expert).llvm_ptr, Int32(1)))
            element(sorted_token_ids, slot)[0] = pair
            if slot % block_tokens == 0:
                element(expert_ids, slot // block_tokens)[0] = expert


@cute.jit
def quantize_row(
    source: cute.Pointer, values: cute.Pointer, scales: cute.Pointer, column: Int32, columns: Int32
):
    """Quantize 8 columns of a row with the scale 2^ceil(log2(max(amax, 1e-4) / 448)) of their group.

    There is a byte for every 32 of k, the same throughout a group.
    """
    vector = cute.make_rmem_tensor(8, BFloat16)
    vector.fill(0.0)
    if column < columns:
        row = cute.make_tensor((source + column).align(16), cute.make_layout(8))
        cute.autovec_copy(row, vector)
    amax = Float32(1e-4)
    for i in cutlass.range_constexpr(8):
        magnitude = cute.arch.fmax(Float32(vector[i]), -Float32(vector[i]), nan=True)
        amax = cute.arch.fmax(amax, magnitude, nan=True)
    for step in cutlass.range_constexpr(4):
        amax = cute.arch.fmax(amax, cute.arch.shuffle_sync_bfly(amax, 1 << step), nan=True)
    # 448 is 1.75 · 2^8: a mantissa beyond 0.75 carries into the exponent.
    byte = (reinterpreted(amax, Uint32) + 0x1FFFFF >> 23) - 8
    if column < columns:
        quantized = cute.make_rmem_tensor(8, Float8E4M3FN)
        inverse = reinterpreted(Uint32(254) - byte << 23, Float32)
        scaled = cute.make_rmem_tensor(8, Float32)
        for i in cutlass.range_constexpr(8):
            scaled[i] = Float32(vector[i]) * inverse
        quantized.store(scaled.load().to(Float8E4M3FN))
        to = (values + column).align(8)
        cute.autovec_copy(quantized, cute.make_tensor(to, cute.make_layout(8)))
        if column % 32 == 0:
            element(scales, column // 32)[0] = Uint8(byte)


@cute.kernel
def quantize_x_kernel(
    x_q: cute.Pointer,
    x_scale: cute.Pointer,
    hidden_states: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
):
    """e4m3 of hidden_states, and its scales."""
    thread, _, _ = cute.arch.thread_idx()
    token, block, _ = cute.arch.block_idx()
    row = Int64(token) * hidden
    column = (block * QUANTIZE_THREADS + thread) * 8
    quantize_row(hidden_states + row, x_q + row, x_scale + row // 32, column, hidden)


@cute.kernel
def quantize_h_kernel(
    h_q: cute.Pointer,
    h_scale: cute.Pointer,
    h: cute.Pointer,
    topk_ids: cute.Pointer,
    tokens: Int32,
    intermediate: Int32,
    experts: Int32,
):
    """e4m3 of h, and its scales, for the pairs that have an expert."""
    thread, _, _ = cute.arch.thread_idx()
    pair, block, _ = cute.arch.block_idx()
    expert = element(topk_ids, pair)[0]
    if expert >= 0 and expert < experts:
        row = Int64(pair) * intermediate
        column = (block * QUANTIZE_THREADS + thread) * 8
        quantize_row(h + row, h_q + row, h_scale + row // 32, column, intermediate)


@cute.kernel
def gate_up_kernel(
    h: cute.Pointer,
    x_q: cute.Pointer,
    x_scale: cute.Pointer,
    w13: cute.Pointer,
    w13_scale: cute.Pointer,
    topk_weights: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
    tile: cutlass.Constexpr,
):
    """h[pair, n] = SwiGLU of row n of gate and of up, times the pair's weight."""
    thread, _, _ = cute.arch.thread_idx()
    n_block, block, _ = cute.arch.block_idx()
    n0 = n_block * (tile.rows // 2)
    if block * tile.pairs < element(num_tokens_post_padded, 0)[0]:
        expert = Int64(element(expert_ids, block)[0])
        pairs = tokens * TOPK
        sorted_pairs = sorted_token_ids + block * tile.pairs
        weight_rows = cute.make_rmem_tensor(4, Int64)
        for i in cutlass.range_constexpr(4):
            row = (i * tile.threads + thread) // 4
            half, n = row // (tile.rows // 2), n0 + row % (tile.rows // 2)
            weight_rows[i] = (expert * 2 * intermediate + w13_row(half, n, intermediate)) * (hidden // 2)
        half, n = thread // (tile.rows // 2), n0 + thread % (tile.rows // 2)
        scale_row = (expert * 2 * intermediate + w13_row(half, n, intermediate)) * (hidden // 32)
        activation_rows = cute.make_rmem_tensor(tile.pairs * 8 // tile.threads, Int64)
        for i in cutlass.range_constexpr(cute.size(activation_rows)):
            pair = element(sorted_pairs, (i * tile.threads + thread) // 8)[0]
            if pair == pairs:
                pair = element(sorted_pairs, 0)[0]  # padding; no result uses it
            activation_rows[i] = Int64(pair // TOPK) * hidden
        pair = element(sorted_pairs, cutlass.min(thread, tile.pairs - 1))[0]
        if pair == pairs:
            pair = element(sorted_pairs, 0)[0]
        activation_scale_row = Int64(pair // TOPK) * (hidden // 32)
        acc = multiply(
            w13,
            weight_rows,
            w13_scale + scale_row,
            x_q,
            activation_rows,
            x_scale,
            activation_scale_row,
            hidden,
            tile,
        )
        for j in cutlass.range_constexpr(tile.pairs // 8):
            for i in cutlass.range_constexpr(4):
                n = n0 + thread // 32 * 16 + thread % 32 // 4 + i // 2 * 8
                pair = element(sorted_pairs, j * 8 + thread % 4 * 2 + i % 2)[0]
                if pair < pairs:
                    gate, up = acc[i, j, 0], acc[i, j, 1]
                    gate = cute.arch.fmin(gate, LIMIT, nan=True)
                    up = cute.arch.fmax(cute.arch.fmin(up, LIMIT, nan=True), -LIMIT, nan=True)
                    activated = gate / (1.0 + cute.math.exp(-gate)) * up
                    activated *= element(topk_weights, pair)[0]
                    element(h, Int64(pair) * intermediate + n)[0] = BFloat16(activated)


@cute.kernel
def down_kernel(
    rows: cute.Pointer,
    h_q: cute.Pointer,
    h_scale: cute.Pointer,
    w2: cute.Pointer,
    w2_scale: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
    tile: cutlass.Constexpr,
):
    """rows[pair, n] = w2[expert, n] · h[pair]."""
    thread, _, _ = cute.arch.thread_idx()
    n_block, block, _ = cute.arch.block_idx()
    n0 = n_block * tile.rows
    if block * tile.pairs < element(num_tokens_post_padded, 0)[0]:
        expert = Int64(element(expert_ids, block)[0])
        pairs = tokens * TOPK
        sorted_pairs = sorted_token_ids + block * tile.pairs
        weight_rows = cute.make_rmem_tensor(4, Int64)
        for i in cutlass.range_constexpr(4):
            row = (i * tile.threads + thread) // 4
            weight_rows[i] = (expert * hidden + n0 + row) * (intermediate // 2)
        scale_row = (expert * hidden + n0 + thread) * (intermediate // 32)
        activation_rows = cute.make_rmem_tensor(tile.pairs * 8 // tile.threads, Int64)
        for i in cutlass.range_constexpr(cute.size(activation_rows)):
            pair = element(sorted_pairs, (i * tile.threads + thread) // 8)[0]
            if pair == pairs:
                pair = element(sorted_pairs, 0)[0]  # padding; no result uses it
            activation_rows[i] = Int64(pair) * intermediate
        pair = element(sorted_pairs, cutlass.min(thread, tile.pairs - 1))[0]
        if pair == pairs:
            pair = element(sorted_pairs, 0)[0]
        activation_scale_row = Int64(pair) * (intermediate // 32)
        acc = multiply(
            w2,
            weight_rows,
            w2_scale + scale_row,
            h_q,
            activation_rows,
            h_scale,
            activation_scale_row,
            intermediate,
            tile,
        )
        for j in cutlass.range_constexpr(tile.pairs // 8):
            for i in cutlass.range_constexpr(4):
                pair = element(sorted_pairs, j * 8 + thread % 4 * 2 + i % 2)[0]
                if pair < pairs:
                    for half in cutlass.range_constexpr(2):
                        n = n0 + half * (tile.rows // 2) + thread // 32 * 16 + thread % 32 // 4 + i // 2 * 8
                        value = acc[i, j, half]
                        element(rows, Int64(pair) * hidden + n)[0] = BFloat16(value)


@cute.kernel
def combine_kernel(
    out: cute.Pointer,
    rows: cute.Pointer,
    topk_ids: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    experts: Int32,
):
    """out[token] = 1.5 · Σ rows[pair], in the order of the token's experts."""
    thread, _, _ = cute.arch.thread_idx()
    token, block, _ = cute.arch.block_idx()
    column = (block * COMBINE_THREADS + thread) * 4
    if column < hidden:
        sums = cute.make_rmem_tensor(4, Float32)
        sums.fill(0.0)
        for j in cutlass.range_constexpr(TOPK):
            pair = token * TOPK + j
            expert = element(topk_ids, pair)[0]
            if expert >= 0 and expert < experts:
                row = load(rows + (Int64(pair) * hidden + column), 4)
                for i in cutlass.range_constexpr(4):
                    sums[i] += Float32(row[i])
        total = cute.make_rmem_tensor(4, BFloat16)
        for i in cutlass.range_constexpr(4):
            total[i] = BFloat16(sums[i] * 1.5)
        to = (out + (Int64(token) * hidden + column)).align(8)
        cute.autovec_copy(total, cute.make_tensor(to, cute.make_layout(4)))


@cute.jit
def align(
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    topk_ids: cute.Pointer,
    tokens: Int32,
    experts: Int32,
    block_tokens: Int32,
):
    align_kernel(
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        topk_ids,
        tokens,
        experts,
        block_tokens,
    ).launch(grid=(1, 1, 1), block=(ALIGN_THREADS, 1, 1))


@cute.jit
def quantize_x(
    x_q: cute.Pointer,
    x_scale: cute.Pointer,
    hidden_states: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
):
    grid = (tokens, cute.ceil_div(hidden, QUANTIZE_THREADS * 8), 1)
    quantize_x_kernel(
        x_q,
        x_scale,
        hidden_states,
        tokens,
        hidden,
    ).launch(grid=grid, block=(QUANTIZE_THREADS, 1, 1))


@cute.jit
def quantize_h(
    h_q: cute.Pointer,
    h_scale: cute.Pointer,
    h: cute.Pointer,
    topk_ids: cute.Pointer,
    tokens: Int32,
    intermediate: Int32,
    experts: Int32,
):
    grid = (tokens * TOPK, cute.ceil_div(intermediate, QUANTIZE_THREADS * 8), 1)
    quantize_h_kernel(
        h_q,
        h_scale,
        h,
        topk_ids,
        tokens,
        intermediate,
        experts,
    ).launch(grid=grid, block=(QUANTIZE_THREADS, 1, 1))


@cute.jit
def gate_up_m8(
    h: cute.Pointer,
    x_q: cute.Pointer,
    x_scale: cute.Pointer,
    w13: cute.Pointer,
    w13_scale: cute.Pointer,
    topk_weights: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
):
    """Launch on blocks of 8 pairs, meant for up to 64 tokens."""
    tile = Tile(pairs=8, rows=64, stages=8)
    grid = (intermediate * 2 // tile.rows, max_blocks, 1)
    gate_up_kernel(
        h,
        x_q,
        x_scale,
        w13,
        w13_scale,
        topk_weights,
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        tokens,
        hidden,
        intermediate,
        max_blocks,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def down_m8(
    rows: cute.Pointer,
    h_q: cute.Pointer,
    h_scale: cute.Pointer,
    w2: cute.Pointer,
    w2_scale: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
):
    """Launch on blocks of 8 pairs, meant for up to 64 tokens."""
    tile = Tile(pairs=8, rows=64, stages=8)
    grid = (hidden // tile.rows, max_blocks, 1)
    down_kernel(
        rows,
        h_q,
        h_scale,
        w2,
        w2_scale,
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        tokens,
        hidden,
        intermediate,
        max_blocks,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def gate_up_m16(
    h: cute.Pointer,
    x_q: cute.Pointer,
    x_scale: cute.Pointer,
    w13: cute.Pointer,
    w13_scale: cute.Pointer,
    topk_weights: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
):
    """Launch on blocks of 16 pairs, meant for up to 512 tokens."""
    tile = Tile(pairs=16, rows=64, stages=8)
    grid = (intermediate * 2 // tile.rows, max_blocks, 1)
    gate_up_kernel(
        h,
        x_q,
        x_scale,
        w13,
        w13_scale,
        topk_weights,
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        tokens,
        hidden,
        intermediate,
        max_blocks,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def down_m16(
    rows: cute.Pointer,
    h_q: cute.Pointer,
    h_scale: cute.Pointer,
    w2: cute.Pointer,
    w2_scale: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
):
    """Launch on blocks of 16 pairs, meant for up to 512 tokens."""
    tile = Tile(pairs=16, rows=64, stages=8)
    grid = (hidden // tile.rows, max_blocks, 1)
    down_kernel(
        rows,
        h_q,
        h_scale,
        w2,
        w2_scale,
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        tokens,
        hidden,
        intermediate,
        max_blocks,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def gate_up_m64(
    h: cute.Pointer,
    x_q: cute.Pointer,
    x_scale: cute.Pointer,
    w13: cute.Pointer,
    w13_scale: cute.Pointer,
    topk_weights: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
):
    """Launch on blocks of 64 pairs."""
    tile = Tile(pairs=64, rows=128, stages=4)
    grid = (intermediate * 2 // tile.rows, max_blocks, 1)
    gate_up_kernel(
        h,
        x_q,
        x_scale,
        w13,
        w13_scale,
        topk_weights,
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        tokens,
        hidden,
        intermediate,
        max_blocks,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def down_m64(
    rows: cute.Pointer,
    h_q: cute.Pointer,
    h_scale: cute.Pointer,
    w2: cute.Pointer,
    w2_scale: cute.Pointer,
    sorted_token_ids: cute.Pointer,
    expert_ids: cute.Pointer,
    num_tokens_post_padded: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    intermediate: Int32,
    max_blocks: Int32,
):
    """Launch on blocks of 64 pairs."""
    tile = Tile(pairs=64, rows=128, stages=4)
    grid = (hidden // tile.rows, max_blocks, 1)
    down_kernel(
        rows,
        h_q,
        h_scale,
        w2,
        w2_scale,
        sorted_token_ids,
        expert_ids,
        num_tokens_post_padded,
        tokens,
        hidden,
        intermediate,
        max_blocks,
        tile,
    ).launch(grid=grid, block=(tile.threads, 1, 1))


@cute.jit
def combine(
    out: cute.Pointer,
    rows: cute.Pointer,
    topk_ids: cute.Pointer,
    tokens: Int32,
    hidden: Int32,
    experts: Int32,
):
    grid = (tokens, cute.ceil_div(hidden, COMBINE_THREADS * 4), 1)
    combine_kernel(
        out,
        rows,
        topk_ids,
        tokens,
        hidden,
        experts,
    ).launch(grid=grid, block=(COMBINE_THREADS, 1, 1))


KERNELS = (
    align,
    quantize_x,
    quantize_h,
    gate_up_m8,
    down_m8,
    gate_up_m16,
    down_m16,
    gate_up_m64,
    down_m64,
    combine,
)
