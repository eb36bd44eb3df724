"""C[m, n] = A[m, k] B[n, k]ᵀ in bf16 in CuTe DSL: TMA with the 128B swizzle, ldmatrix, mma, stmatrix."""

import cutlass
from cutlass import BFloat16, Float32, cute, pipeline
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.cute.runtime import make_fake_compact_tensor

TILE, STAGES, CONSUMERS = 64, 3, 128  # 64 bf16 are one span of the swizzle
M, N, K = 128, 192, 320


@cute.struct
class Storage:
    barriers: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    a: cute.struct.Align[cute.struct.MemRange[BFloat16, TILE * TILE * STAGES], 1024]
    b: cute.struct.Align[cute.struct.MemRange[BFloat16, TILE * TILE * STAGES], 1024]
    c: cute.struct.Align[cute.struct.MemRange[BFloat16, TILE * TILE], 1024]


def swizzled(stages):
    outer = cute.make_layout((TILE, TILE, stages), stride=(TILE, 1, TILE * TILE))
    return cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, outer)


@cute.kernel
def gemm(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    a: cute.Tensor,
    load_b: cute.CopyAtom,
    b: cute.Tensor,
    store: cute.CopyAtom,
    c: cute.Tensor,
):
    thread, _, _ = cute.arch.thread_idx()
    warp_index = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    n_block, m_block, _ = cute.arch.block_idx()
    storage = cutlass.utils.SmemAllocator().allocate(Storage)
    ring, single = swizzled(STAGES), swizzled(1)
    a_tile = storage.a.get_tensor(ring.outer, swizzle=ring.inner)
    b_tile = storage.b.get_tensor(ring.outer, swizzle=ring.inner)
    c_tile = storage.c.get_tensor(single.outer, swizzle=single.inner)[None, None, 0]
    loads = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=2 * TILE * TILE * 2,
        barrier_storage=storage.barriers.data_ptr(),
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )
    one = cute.make_layout(1)
    a_blocks = cute.local_tile(a, (TILE, TILE), (m_block, None))
    b_blocks = cute.local_tile(b, (TILE, TILE), (n_block, None))
    c_block = cute.local_tile(c, (TILE, TILE), (m_block, n_block))
    to_a, from_a = cpasync.tma_partition(
        load_a, 0, one, cute.group_modes(a_tile, 0, 2), cute.group_modes(a_blocks, 0, 2)
    )
    to_b, from_b = cpasync.tma_partition(
        load_b, 0, one, cute.group_modes(b_tile, 0, 2), cute.group_modes(b_blocks, 0, 2)
    )
    from_c, to_c = cpasync.tma_partition(
        store, 0, one, cute.group_modes(c_tile, 0, 2), cute.group_modes(c_block, 0, 2)
    )
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
            loads.producer_commit(state)
            state.advance()
        loads.producer_tail(state)
    else:
        cute.arch.setmaxregister_increase(232)
        of_thread = mma.get_slice(thread)
        ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(num_matrices=4), BFloat16)
        copy_a, copy_b = cute.make_tiled_copy_A(ldmatrix, mma), cute.make_tiled_copy_B(ldmatrix, mma)
        a_shared = copy_a.get_slice(thread).partition_S(a_tile)
        b_shared = copy_b.get_slice(thread).partition_S(b_tile)
        a_fragment = mma.make_fragment_A(of_thread.partition_A(a_tile[None, None, 0]))
        b_fragment = mma.make_fragment_B(of_thread.partition_B(b_tile[None, None, 0]))
        sums = cute.make_rmem_tensor(of_thread.partition_shape_C((TILE, TILE)), Float32)
        sums.fill(0.0)
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        for _ in cutlass.range(k_blocks):
            loads.consumer_wait(state)
            cute.copy(copy_a, a_shared[None, None, None, state.index], copy_a.retile(a_fragment))
            cute.copy(copy_b, b_shared[None, None, None, state.index], copy_b.retile(b_fragment))
            loads.consumer_release(state)
            state.advance()
            for step in cutlass.range_constexpr(TILE // 16):
                cute.gemm(mma, sums, a_fragment[None, None, step], b_fragment[None, None, step], sums)

        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(num_matrices=4), BFloat16)
        copy_c = cute.make_tiled_copy_C(stmatrix, mma)
        rounded = cute.make_rmem_tensor(sums.layout, BFloat16)
        rounded.store(sums.load().to(BFloat16))
        cute.copy(copy_c, copy_c.retile(rounded), copy_c.get_slice(thread).partition_D(c_tile))
        cute.arch.fence_proxy("async.shared", space="cta")
        pipeline.NamedBarrier(barrier_id=1, num_threads=CONSUMERS).arrive_and_wait()
        if warp_index == 0:
            with cute.arch.elect_one():
                cute.copy(store, from_c, to_c)
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def run(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(BFloat16, Float32, (16, 8, 16)),
        cute.make_layout((2, 2, 1)),
        permutation_mnk=(32, 32, 16),
    )
    layout = cute.slice_(swizzled(1), (None, None, 0))
    load, save = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    load_a, a_map = cpasync.make_tiled_tma_atom(load, a, layout, (TILE, TILE))
    load_b, b_map = cpasync.make_tiled_tma_atom(load, b, layout, (TILE, TILE))
    store, c_map = cpasync.make_tiled_tma_atom(save, c, layout, (TILE, TILE))
    gemm(mma, load_a, a_map, load_b, b_map, store, c_map).launch(
        grid=(N // TILE, M // TILE, 1), block=(CONSUMERS + 32, 1, 1)
    )


def compiled():
    shapes = (M, K), (N, K), (M, N)
    tensors = [make_fake_compact_tensor(BFloat16, s, stride_order=(1, 0), assumed_align=16) for s in shapes]
    return cute.compile(run, *tensors)
