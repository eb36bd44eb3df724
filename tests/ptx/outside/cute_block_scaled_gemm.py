"""C[m, n] = (A · SFA)[m, k] (B · SFB)[n, k]ᵀ in CuTe DSL: e4m3 by e2m1, a ue8m0 scale for 32 of k, fp32 out.

TMA pads B's packed codes to a byte an element. Scales come in atoms of 128 rows by 4, as cuBLAS has them.
"""

import cutlass
from cutlass import Float4E2M1FN, Float8E4M3FN, Float8E8M0FNU, Float32, Int8, Int16, cute, pipeline
from cutlass.cute.nvgpu import CopyUniversalOp, cpasync, warp
from cutlass.cute.runtime import make_fake_compact_tensor
from cutlass.utils import blackwell_helpers, blockscaled_layout

TILE, STAGES, CONSUMERS = 128, 2, 256  # a tile is TILE of m, of n and of k
TILE_MNK = (TILE, TILE, TILE)
SCALE_BLOCK = 32
SCALES = TILE * TILE // SCALE_BLOCK  # of a tile of an operand
M, N, K = 256, 128, 512


@cute.struct
class Storage:
    barriers: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    a: cute.struct.Align[cute.struct.MemRange[Float8E4M3FN, TILE * TILE * STAGES], 1024]
    b: cute.struct.Align[cute.struct.MemRange[Int8, TILE * TILE * STAGES], 1024]
    sfa: cute.struct.Align[cute.struct.MemRange[Float8E8M0FNU, SCALES * STAGES], 1024]
    sfb: cute.struct.Align[cute.struct.MemRange[Float8E8M0FNU, SCALES * STAGES], 1024]


def swizzled():
    outer = cute.make_layout((TILE, TILE, STAGES), stride=(TILE, 1, TILE * TILE))
    return cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, outer)


@cute.jit
def part(load: cute.CopyAtom, shared: cute.Tensor, blocks: cute.Tensor):
    """(shared, global) sides of a TMA load, a stage and a block of k each."""
    to, source = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(shared, 0, 2), cute.group_modes(blocks, 0, 2)
    )
    return cute.filter_zeros(to), cute.filter_zeros(source)


@cute.kernel
def gemm(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    a: cute.Tensor,
    load_b: cute.CopyAtom,
    b: cute.Tensor,
    load_sfa: cute.CopyAtom,
    sfa: cute.Tensor,
    load_sfb: cute.CopyAtom,
    sfb: cute.Tensor,
    sfa_layout: cute.Layout,
    sfb_layout: cute.Layout,
    c: cute.Tensor,
):
    thread, _, _ = cute.arch.thread_idx()
    warp_index = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    n_block, m_block, _ = cute.arch.block_idx()
    storage = cutlass.utils.SmemAllocator().allocate(Storage)
    layout = swizzled()
    a_tile = storage.a.get_tensor(layout.outer, swizzle=layout.inner)
    b_tile = storage.b.get_tensor(layout.outer, swizzle=layout.inner)
    sfa_tile, sfb_tile = storage.sfa.get_tensor(sfa_layout), storage.sfb.get_tensor(sfb_layout)
    loads = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=TILE * TILE + TILE * TILE // 2 + 2 * SCALES,  # the padding does not count
        barrier_storage=storage.barriers.data_ptr(),
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )
    a_blocks = cute.local_tile(a, (TILE, TILE), (m_block, None))
    to_a, from_a = part(load_a, a_tile, a_blocks)
    to_b, from_b = part(load_b, b_tile, cute.local_tile(b, (TILE, TILE), (n_block, None)))
    to_sfa, from_sfa = part(load_sfa, sfa_tile, cute.local_tile(sfa, (TILE, TILE), (m_block, None)))
    to_sfb, from_sfb = part(load_sfb, sfb_tile, cute.local_tile(sfb, (TILE, TILE), (n_block, None)))
    k_blocks = cute.size(a_blocks, mode=[2])
    cute.arch.sync_threads()
    if warp_index == CONSUMERS // 32:
        cute.arch.setmaxregister_decrease(40)
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        for k_block in cutlass.range(k_blocks):
            loads.producer_acquire(state)
            full = loads.producer_get_barrier(state)
            cute.copy(load_a, from_a[None, k_block], to_a[None, state.index], tma_bar_ptr=full)
            cute.copy(load_b, from_b[None, k_block], to_b[None, state.index], tma_bar_ptr=full)
            cute.copy(load_sfa, from_sfa[None, k_block], to_sfa[None, state.index], tma_bar_ptr=full)
            cute.copy(load_sfb, from_sfb[None, k_block], to_sfb[None, state.index], tma_bar_ptr=full)
            loads.producer_commit(state)
            state.advance()
        loads.producer_tail(state)
    else:
        cute.arch.setmaxregister_increase(232)
        of_thread = mma.get_slice(thread)
        ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(num_matrices=4), Float8E4M3FN)
        unpacking = cute.make_copy_atom(warp.LdMatrix8x16x8bOp(num_matrices=4, unpack_bits=4), Int8)
        plain = cute.make_copy_atom(CopyUniversalOp(), Float8E8M0FNU)
        of_m, of_n, of_k = (cute.size(mma.permutation_mnk[i]) for i in range(3))
        copy_a, copy_b = cute.make_tiled_copy_A(ldmatrix, mma), cute.make_tiled_copy_B(unpacking, mma)
        copy_sfa = cute.make_tiled_copy(plain, blackwell_helpers.get_layoutSFA_TV(mma), (of_m, of_k))
        copy_sfb = cute.make_tiled_copy(plain, blackwell_helpers.get_layoutSFB_TV(mma), (of_n, of_k))
        a_shared = copy_a.get_slice(thread).partition_S(a_tile)
        b_shared = copy_b.get_slice(thread).partition_S(b_tile)
        sfa_shared = cute.filter_zeros(copy_sfa.get_slice(thread).partition_S(sfa_tile))
        sfb_shared = cute.filter_zeros(copy_sfb.get_slice(thread).partition_S(sfb_tile))
        a_fragment = mma.make_fragment_A(of_thread.partition_A(a_tile)[None, None, None, 0])
        b_fragment = mma.make_fragment_B(of_thread.partition_B(b_tile)[None, None, None, 0])
        sfa_fragment = blackwell_helpers.partition_fragment_SFA(sfa_tile[None, None, 0], of_thread, thread)
        sfb_fragment = blackwell_helpers.partition_fragment_SFB(sfb_tile[None, None, 0], of_thread, thread)
        sfa_fragment = cute.group_modes(sfa_fragment, 2, cute.rank(sfa_fragment))
        sfb_fragment = cute.group_modes(sfb_fragment, 2, cute.rank(sfb_fragment))
        c_part = of_thread.partition_C(cute.local_tile(c, (TILE, TILE), (m_block, n_block)))
        sums = cute.make_rmem_tensor(c_part.shape, Float32)
        sums.fill(0.0)
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        for _ in cutlass.range(k_blocks):
            loads.consumer_wait(state)
            stage = state.index
            for step in cutlass.range_constexpr(TILE // 32):
                at = (None, None, step)
                cute.copy(copy_a, a_shared[None, None, step, stage], copy_a.retile(a_fragment)[at])
                cute.copy(copy_b, b_shared[None, None, step, stage], copy_b.retile(b_fragment)[at])
                cute.copy(
                    copy_sfa,
                    sfa_shared[None, None, step, stage],
                    cute.filter_zeros(copy_sfa.retile(sfa_fragment))[at],
                )
                cute.copy(
                    copy_sfb,
                    sfb_shared[None, None, step, stage],
                    cute.filter_zeros(copy_sfb.retile(sfb_fragment))[at],
                )
            loads.consumer_release(state)
            state.advance()
            codes = cute.recast_tensor(b_fragment, cutlass.Uint32)
            for i in cutlass.range_constexpr(cute.size(codes)):
                codes[i] = codes[i] << 2  # the tensor core wants e2m1 in bits 5:2
            for step in cutlass.range_constexpr(TILE // 32):
                at = (None, None, step)
                cute.gemm(
                    mma, sums, [a_fragment[at], sfa_fragment[at]], [b_fragment[at], sfb_fragment[at]], sums
                )
        cute.autovec_copy(sums, c_part)


@cute.jit
def run(a: cute.Tensor, b: cute.Tensor, sfa: cute.Tensor, sfb: cute.Tensor, c: cute.Tensor):
    mma = cute.make_tiled_mma(
        warp.MmaMXF8F6F4Op(Float8E4M3FN, Float4E2M1FN, Float32, Float8E8M0FNU),
        cute.make_layout((4, 2, 1)),
        permutation_mnk=blackwell_helpers.get_permutation_mnk(TILE_MNK, SCALE_BLOCK, True),
    )
    sfa_layout = blockscaled_layout.sm120_make_smem_layout_sfa(mma, TILE_MNK, SCALE_BLOCK, STAGES)
    sfb_layout = blockscaled_layout.sm120_make_smem_layout_sfb(mma, TILE_MNK, SCALE_BLOCK, STAGES)
    sfa = cute.make_tensor(sfa.iterator, blockscaled_layout.tile_atom_to_shape_SF((M, K, 1), SCALE_BLOCK))
    sfb = cute.make_tensor(sfb.iterator, blockscaled_layout.tile_atom_to_shape_SF((N, K, 1), SCALE_BLOCK))
    of_stage, load = (None, None, 0), cpasync.CopyBulkTensorTileG2SOp()
    box, layout = (TILE, TILE), cute.slice_(swizzled(), of_stage)
    load_a, a_map = cpasync.make_tiled_tma_atom(load, a, layout, box)
    load_b, b_map = cpasync.make_tiled_tma_atom(load, b, layout, box, internal_type=Int8)
    load_sfa, sfa_map = cpasync.make_tiled_tma_atom(
        load, sfa[None, None, 0], cute.slice_(sfa_layout, of_stage), box, internal_type=Int16
    )
    load_sfb, sfb_map = cpasync.make_tiled_tma_atom(
        load, sfb[None, None, 0], cute.slice_(sfb_layout, of_stage), box, internal_type=Int16
    )
    gemm(
        mma, load_a, a_map, load_b, b_map, load_sfa, sfa_map, load_sfb, sfb_map, sfa_layout, sfb_layout, c
    ).launch(grid=(N // TILE, M // TILE, 1), block=(CONSUMERS + 32, 1, 1))


def compiled():
    scales = [(rows * K // SCALE_BLOCK,) for rows in (M, N)]
    a = make_fake_compact_tensor(Float8E4M3FN, (M, K), stride_order=(1, 0), assumed_align=16)
    b = make_fake_compact_tensor(Float4E2M1FN, (N, K), stride_order=(1, 0), assumed_align=32)
    sfa, sfb = (make_fake_compact_tensor(Float8E8M0FNU, s, assumed_align=16) for s in scales)
    c = make_fake_compact_tensor(Float32, (M, N), stride_order=(1, 0), assumed_align=16)
    return cute.compile(run, a, b, sfa, sfb, c)
