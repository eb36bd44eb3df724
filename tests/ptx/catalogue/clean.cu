// Legal idioms that look racy. Each writes 1 to y[i] for each of its 256 (or fewer) results that is right.
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda/atomic>

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void init(uint32_t bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ void arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ void wait(uint32_t bar, int parity) {
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W; }" ::"r"(bar), "r"(parity) : "memory");
}

// Two warps produce tiles, two consume them, through a ring of two stages.
extern "C" __global__ void mbarrier_pipeline(int* y) {
    __shared__ int ring[2][64];
    __shared__ uint64_t full[2], empty[2];
    if (threadIdx.x == 0)
        for (int s = 0; s < 2; ++s) init(shared_address(full + s), 64), init(shared_address(empty + s), 64);
    __syncthreads();
    int lane = threadIdx.x % 64, right = 0;
    for (int k = 0; k < 7; ++k) {
        int s = k % 2, round = k / 2;
        if (threadIdx.x < 64) {
            wait(shared_address(empty + s), (round + 1) % 2);
            ring[s][lane] = 100 * k + lane;
            arrive(shared_address(full + s));
        } else {
            wait(shared_address(full + s), round % 2);
            right += ring[s][63 - lane] == 100 * k + 63 - lane;
            arrive(shared_address(empty + s));
        }
    }
    if (threadIdx.x >= 64) y[lane] = right == 7;
}

// One thread feeds a ring of two stages by bulk copies, all consume.
extern "C" __global__ void bulk_copy_pipeline(const int* x, int* y) {
    __shared__ __align__(128) int ring[2][64];
    __shared__ uint64_t full[2];
    if (threadIdx.x == 0) {
        init(shared_address(full), 1), init(shared_address(full + 1), 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    int right = 0;
    auto issue = [&](int k) {
        uint32_t bar = shared_address(full + k % 2);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(
                         shared_address(ring[k % 2])), "l"(x + 64 * k), "r"(bar) : "memory");
    };
    if (threadIdx.x == 0) issue(0), issue(1);
    for (int k = 0; k < 6; ++k) {
        wait(shared_address(full + k % 2), k / 2 % 2);
        right += ring[k % 2][63 - threadIdx.x] == 64 * k + 63 - static_cast<int>(threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 0 && k + 2 < 6) issue(k + 2);
    }
    y[threadIdx.x] = right == 6;
}

// The last block to finish adds up what all blocks wrote, and leaves the counter as it was.
extern "C" __global__ void last_block_merge(int* partial, unsigned* count, int* y) {
    __shared__ bool last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    int sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += partial[b * blockDim.x + threadIdx.x];
    y[threadIdx.x] = sum == gridDim.x * threadIdx.x;
}

// The same with atomics of their own order, a plain reset, and volatile partial results.
extern "C" __global__ void last_block_merge_acq_rel(volatile int* partial, unsigned* count, int* y) {
    __shared__ bool last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*count);
        last = counter.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    int sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += partial[b * blockDim.x + threadIdx.x];
    y[threadIdx.x] = sum == gridDim.x * threadIdx.x;
    if (threadIdx.x == 33) *count = 0;
}

// A warp reduces in shared memory without a barrier of the block.
extern "C" __global__ void warp_synchronous(int* y) {
    __shared__ int sums[128];
    int lane = threadIdx.x % 32;
    int* mine = sums + threadIdx.x - lane;
    mine[lane] = lane;
    __syncwarp();
    for (int step = 16; step; step /= 2) {
        if (lane < step) mine[lane] += mine[lane + step];
        __syncwarp();
    }
    y[threadIdx.x] = mine[0] == 496;
}

// Half of the block hands tiles to the other half through two named barriers.
extern "C" __global__ void named_barriers(int* y) {
    __shared__ int tile[64];
    int lane = threadIdx.x % 64, right = 0;
    for (int k = 0; k < 4; ++k) {
        if (threadIdx.x < 64) {
            tile[lane] = lane + k;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
            asm volatile("bar.sync 2, 128;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            right += tile[63 - lane] == 63 - lane + k;
            asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
    }
    if (threadIdx.x >= 64) y[lane] = right == 4;
}

extern "C" __global__ void double_buffered_copies(const int* x, int* y) {
    __shared__ __align__(16) int buffer[2][64];
    auto issue = [&](int k) {
        if (threadIdx.x < 16 && k < 6)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(buffer[k % 2] + 4 * threadIdx.x)),
                         "l"(x + 64 * k + 4 * threadIdx.x) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    int right = 0;
    issue(0);
    for (int k = 0; k < 6; ++k) {
        issue(k + 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        right += buffer[k % 2][63 - threadIdx.x] == 64 * k + 63 - static_cast<int>(threadIdx.x);
        __syncthreads();
    }
    y[threadIdx.x] = right == 6;
}

// Each block waits for the one before it, adds to its result and hands it on.
extern "C" __global__ void chain_of_flags(int* sums, volatile int* flags, int* y) {
    int value = 1;
    if (blockIdx.x) {
        if (threadIdx.x == 0) while (!flags[blockIdx.x - 1]) {}
        __syncthreads();
        __threadfence();
        value += sums[(blockIdx.x - 1) * 64 + threadIdx.x];
    }
    sums[blockIdx.x * 64 + threadIdx.x] = value;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) flags[blockIdx.x] = 1;
    y[blockIdx.x * 64 + threadIdx.x] = value == blockIdx.x + 1;
}

extern "C" __global__ void chain_of_flags_acquire_release(int* sums, int* flags, int* y) {
    int value = 1;
    if (blockIdx.x) {
        cuda::atomic_ref<int, cuda::thread_scope_device> before(flags[blockIdx.x - 1]);
        while (!before.load(cuda::memory_order_acquire)) {}
        value += sums[(blockIdx.x - 1) * 64 + threadIdx.x];
    }
    sums[blockIdx.x * 64 + threadIdx.x] = value;
    __syncthreads();
    cuda::atomic_ref<int, cuda::thread_scope_device> mine(flags[blockIdx.x]);
    if (threadIdx.x == 0) mine.store(1, cuda::memory_order_release);
    y[blockIdx.x * 64 + threadIdx.x] = value == blockIdx.x + 1;
}

// Every block sees what every other wrote in each round.
extern "C" __global__ void grid_barrier(int* data, unsigned* arrived, int* y) {
    int i = blockIdx.x * 64 + threadIdx.x, total = gridDim.x * 64, right = 0;
    unsigned target = 0;
    auto barrier = [&] {
        target += gridDim.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (*static_cast<volatile unsigned*>(arrived) < target) {}
            __threadfence();
        }
        __syncthreads();
    };
    for (int k = 0; k < 3; ++k) {
        data[i] = 1000 * k + i;
        barrier();
        int other = (i + 64 * (k + 1)) % total;
        right += data[other] == 1000 * k + other;
        barrier();
    }
    y[i] = right == 3;
}

// A lock around an ordinary read and write, one thread a block.
extern "C" __global__ void spin_lock(int* lock, int* value, int* y) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1)) {}
        __threadfence();
        int before = *value;
        *value = before + 1;
        __threadfence();
        atomicExch(lock, 0);
        y[blockIdx.x] = before >= 0 && before < gridDim.x;
    }
}

extern "C" __global__ void histogram(const int* x, int* counts, int* y) {
    __shared__ int local[16];
    if (threadIdx.x < 16) local[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(local + x[blockIdx.x * 64 + threadIdx.x] % 16, 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(counts + threadIdx.x, local[threadIdx.x]);
    y[blockIdx.x * 64 + threadIdx.x] = 1;
}

// A warp reuses its own shared words; nobody else touches them.
extern "C" __global__ void reuse_by_one_warp(int* y) {
    __shared__ int scratch[128];
    int right = 0;
    for (int k = 0; k < 4; ++k) {
        scratch[threadIdx.x] = threadIdx.x * k;
        __syncwarp();
        right += scratch[threadIdx.x ^ 31] == (threadIdx.x ^ 31) * k;
        __syncwarp();
    }
    y[threadIdx.x] = right == 4;
}

extern "C" __global__ void shuffles_only(int* y) {
    int sum = threadIdx.x % 32;
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    y[threadIdx.x] = sum == 496;
}

// Warps of a block meet at a flag in global memory, at block scope.
extern "C" __global__ void flag_within_a_block(int* data, int* flag, int* y) {
    cuda::atomic_ref<int, cuda::thread_scope_block> ready(flag[blockIdx.x]);
    int* mine = data + blockIdx.x * 32;
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        mine[lane] = lane;
        __syncwarp();
        if (lane == 0) ready.store(1, cuda::memory_order_release);
    } else {
        while (!ready.load(cuda::memory_order_acquire)) {}
        y[blockIdx.x * 32 + lane] = mine[31 - lane] == 31 - lane;
    }
}

// Cooperative groups: tiles of a warp and the block.
extern "C" __global__ void cooperative(int* y) {
    namespace cg = cooperative_groups;
    __shared__ int tile[128];
    auto block = cg::this_thread_block();
    auto eight = cg::tiled_partition<8>(block);
    int sum = threadIdx.x % 8;
    for (int step = 4; step; step /= 2) sum += eight.shfl_xor(sum, step);
    tile[threadIdx.x] = sum;
    block.sync();
    y[threadIdx.x] = tile[(threadIdx.x + 50) % 128] == 28;
}

// Flags through a local array, indexed at run time, all of it written first.
extern "C" __global__ void local_array(const int* x, int* y) {
    int values[16];
    for (int k = 0; k < 16; ++k) values[k] = k;
    for (int k = 0; k < 16; ++k) values[(x[k] + threadIdx.x) % 16] += 16;
    int sum = 0;
    for (int k = 0; k < 16; ++k) sum += values[x[k] % 16];
    y[threadIdx.x] = sum == 120 + 256;
}
