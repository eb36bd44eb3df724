"""y = alpha * x, through shared memory."""

import cutlass
from cutlass import Float32, Int32, Int64, cute

THREADS = 64
POINTERS = {"y": (Float32, 4), "x": (Float32, 16)}


@cute.kernel
def scale_kernel(y: cute.Pointer, x: cute.Pointer, alpha: Float32, n: Int32, offset: Int64):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    memory = cutlass.utils.SmemAllocator()
    tile = memory.allocate_tensor(Float32, cute.make_layout(THREADS), 16)
    i = block * THREADS + thread
    if i < n:
        tile[thread] = cute.make_tensor(x + offset + i, cute.make_layout(1))[0]
        cute.make_tensor(y + i, cute.make_layout(1))[0] = alpha * tile[thread]


@cute.jit
def scale(y: cute.Pointer, x: cute.Pointer, alpha: Float32, n: Int32, offset: Int64):
    grid = (cute.ceil_div(n, THREADS), 1, 1)
    scale_kernel(y, x, alpha, n, offset).launch(grid=grid, block=(THREADS, 1, 1))


KERNELS = (scale,)
