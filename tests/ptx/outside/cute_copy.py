"""y = 2x + 1 in CuTe DSL: a warp loads boxes by TMA into a ring of buffers, four compute, one of them stores.

A block goes over the tiles of one column of tiles.
"""

import cutlass
from cutlass import Float32, cute, pipeline
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_compact_tensor

ROWS, COLUMNS = 16, 32  # of a tile
STAGES, CONSUMERS = 3, 128
SHAPE = 100, 72


@cute.struct
class Storage:
    barriers: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    source: cute.struct.Align[cute.struct.MemRange[Float32, ROWS * COLUMNS * STAGES], 128]
    result: cute.struct.Align[cute.struct.MemRange[Float32, ROWS * COLUMNS], 128]


@cute.kernel
def kernel(load: cute.CopyAtom, x: cute.Tensor, store: cute.CopyAtom, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    block, _, _ = cute.arch.block_idx()
    storage = cutlass.utils.SmemAllocator().allocate(Storage)
    ring = storage.source.get_tensor(
        cute.make_layout((ROWS, COLUMNS, STAGES), stride=(COLUMNS, 1, ROWS * COLUMNS))
    )
    result = storage.result.get_tensor(cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1)))
    loads = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=ROWS * COLUMNS * 4,
        barrier_storage=storage.barriers.data_ptr(),
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )
    x_tiles = cute.local_tile(x, (ROWS, COLUMNS), (None, block))
    y_tiles = cute.local_tile(y, (ROWS, COLUMNS), (None, block))
    one = cute.make_layout(1)
    to_ring, from_x = cpasync.tma_partition(
        load, 0, one, cute.group_modes(ring, 0, 2), cute.group_modes(x_tiles, 0, 2)
    )
    from_result, to_y = cpasync.tma_partition(
        store, 0, one, cute.group_modes(result, 0, 2), cute.group_modes(y_tiles, 0, 2)
    )
    tiles = cute.size(x_tiles, mode=[2])
    cute.arch.sync_threads()
    if warp == CONSUMERS // 32:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        for tile in cutlass.range(tiles):
            loads.producer_acquire(state)
            cute.copy(
                load,
                from_x[None, tile],
                to_ring[None, state.index],
                tma_bar_ptr=loads.producer_get_barrier(state),
            )
            loads.producer_commit(state)
            state.advance()
        loads.producer_tail(state)
    else:
        consumers = pipeline.NamedBarrier(barrier_id=1, num_threads=CONSUMERS)
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        for tile in cutlass.range(tiles):
            loads.consumer_wait(state)
            values = cute.make_rmem_tensor(ROWS * COLUMNS // CONSUMERS, Float32)
            for i in cutlass.range_constexpr(cute.size(values)):
                at = thread + i * CONSUMERS
                values[i] = ring[at // COLUMNS, at % COLUMNS, state.index] * 2 + 1
            loads.consumer_release(state)
            state.advance()
            if warp == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)
            consumers.arrive_and_wait()
            for i in cutlass.range_constexpr(cute.size(values)):
                at = thread + i * CONSUMERS
                result[at // COLUMNS, at % COLUMNS] = values[i]
            cute.arch.fence_proxy("async.shared", space="cta")
            consumers.arrive_and_wait()
            if warp == 0:
                with cute.arch.elect_one():
                    cute.copy(store, from_result[None], to_y[None, tile])
                    cute.arch.cp_async_bulk_commit_group()
        if warp == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def run(x: cute.Tensor, y: cute.Tensor):
    layout = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    load, x_map = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, (ROWS, COLUMNS))
    store, y_map = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, layout, (ROWS, COLUMNS))
    kernel(load, x_map, store, y_map).launch(
        grid=(cute.ceil_div(x.shape[1], COLUMNS), 1, 1), block=(CONSUMERS + 32, 1, 1)
    )


def compiled():
    tensors = [
        make_fake_compact_tensor(Float32, SHAPE, stride_order=(1, 0), assumed_align=16) for _ in range(2)
    ]
    return cute.compile(run, *tensors)
