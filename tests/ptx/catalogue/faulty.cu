// One mistake a kernel, at the line marked FAULT (where the checker notices it); -DFIXED repairs it.
// All are launched with blocks of 64 threads; test_catalogue.py has grids, arguments and what is reported.
#include <cstdint>

#ifdef FIXED
#define IF_FIXED(...) __VA_ARGS__
#define IF_FAULTY(...)
#else
#define IF_FIXED(...)
#define IF_FAULTY(...) __VA_ARGS__
#endif

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void global_out_of_bounds(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    IF_FIXED(if (i < n))
    y[i] = 2.f * x[i];  // FAULT
}

__device__ int table[48];

extern "C" __global__ void variable_out_of_bounds(int* y) {
    int i = threadIdx.x;
    IF_FIXED(if (i < 48))
    table[i] = i;  // FAULT
    y[i] = i;
}

extern "C" __global__ void shared_out_of_bounds(int* y) {
    __shared__ int tile[64];
    tile[threadIdx.x IF_FAULTY(+ 1)] = threadIdx.x;  // FAULT
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void strided_view_gap(float* x, int stride) {
    int row = threadIdx.x / 8, column = threadIdx.x % 8;
    x[row * IF_FIXED(stride) IF_FAULTY(8) + column] = 1.f;  // FAULT
}

extern "C" __global__ void misaligned_vector(const float* x, float* y) {
    float4 v = *reinterpret_cast<const float4*>(x + IF_FAULTY(2 *) 4 * threadIdx.x IF_FAULTY(+ 1));  // FAULT
    y[threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void writes_an_input(const int* x, int* y) {
    y[threadIdx.x] = x[threadIdx.x];
    IF_FAULTY(const_cast<int*>(x)[threadIdx.x] = 0;)  // FAULT
}

extern "C" __global__ void unwritten_output(int* y, int n) {
    int i = threadIdx.x;
    IF_FIXED(y[i] = 0;)
    y[i] += n;  // FAULT
}

extern "C" __global__ void unwritten_tile(int* y, int n) {
    __shared__ int tile[64];
    if (threadIdx.x < n) tile[threadIdx.x] = threadIdx.x;
    IF_FIXED(else tile[threadIdx.x] = 0;)
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];  // FAULT
}

extern "C" __global__ void unwritten_array(int* y, const int* index) {
    int values[16];
    for (int k = IF_FIXED(0) IF_FAULTY(1); k < 16; ++k) values[index[k]] = k;
    y[threadIdx.x] = values[index[threadIdx.x % 16]];  // FAULT
}

extern "C" __global__ void no_barrier(int* y) {
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    IF_FIXED(__syncthreads();)
    y[threadIdx.x] = tile[63 - threadIdx.x];  // FAULT
}

extern "C" __global__ void reused_too_early(int* y) {
    __shared__ int tile[64];
    int sum = 0;
    for (int k = 0; k < 3; ++k) {
        tile[threadIdx.x] = threadIdx.x + k;  // FAULT
        __syncthreads();
        sum += tile[63 - threadIdx.x];
        IF_FIXED(__syncthreads();)
    }
    y[threadIdx.x] = sum;
}

extern "C" __global__ void all_lanes_store(int* y) {
    IF_FIXED(if (threadIdx.x == 5))
    y[0] = threadIdx.x;  // FAULT
}

extern "C" __global__ void in_place(float* x) {
    float neighbour = x[(threadIdx.x + 1) % 64];
    IF_FIXED(__syncthreads();)
    x[threadIdx.x] = neighbour;  // FAULT
}

extern "C" __global__ void halo(float* x) {  // two blocks; each block may only use its own half
    int i = blockIdx.x * 64 + threadIdx.x;
    x[i] = i;
    __syncthreads();
    float right = x[IF_FIXED(blockIdx.x * 64 + (threadIdx.x + 1) % 64) IF_FAULTY((i + 1) % 128)];  // FAULT
    __syncthreads();
    x[i] = right;
}

extern "C" __global__ void merge_without_fence(float* partial, unsigned* count, float* y) {
    __shared__ bool last;
    partial[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
    IF_FIXED(__threadfence();)
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += partial[b * 64 + threadIdx.x];  // FAULT
    y[threadIdx.x] = sum;
}

extern "C" __global__ void merge_at_block_scope(float* partial, unsigned* count, float* y) {
    __shared__ bool last;
    partial[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = IF_FIXED(atomicAdd) IF_FAULTY(atomicAdd_block)(count, 1) == gridDim.x - 1;  // FAULT
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += partial[b * 64 + threadIdx.x];
    y[threadIdx.x] = sum;
}

extern "C" __global__ void flag_without_acquire(int* data, volatile int* flag) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) *flag = 1;
    } else {
        while (*flag == 0) {}
        IF_FIXED(__threadfence();)
        data[64 + threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void counter_read_plainly(unsigned* count, unsigned* y) {
    atomicAdd(count, 1);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = IF_FIXED(atomicAdd(count, 0)) IF_FAULTY(*count);  // FAULT
}

extern "C" __global__ void copy_not_awaited(const int* x, int* y) {
    __shared__ __align__(16) int tile[256];
    int4 v;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile + 4 * threadIdx.x)), "l"(x + 4 * threadIdx.x));
    asm volatile("cp.async.commit_group;");
    IF_FIXED(asm volatile("cp.async.wait_group 0;" ::: "memory");)
    v = *reinterpret_cast<int4*>(tile + 4 * threadIdx.x);  // FAULT
    y[threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void no_proxy_fence(int* y) {
    __shared__ __align__(16) int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    IF_FIXED(asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(y), "r"(shared_address(tile)) : "memory");  // FAULT
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

extern "C" __global__ void divergent_barrier(int* y) {
    __shared__ int tile[64];
    if (threadIdx.x < 16) {
        tile[threadIdx.x] = 1;
        IF_FAULTY(__syncthreads();)  // FAULT
    } else {
        tile[threadIdx.x] = 2;
        IF_FAULTY(__syncthreads();)
    }
    IF_FIXED(__syncthreads();)
    y[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void barrier_counts_differ(int* y) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.sync 1, %0;" ::"n"(64 IF_FAULTY(+ 32)) : "memory");  // FAULT
    y[threadIdx.x] = 1;
}

extern "C" __global__ void barrier_never_full(int* y) {
    asm volatile("bar.sync 1, %0;" ::"n"(64 IF_FAULTY(+ 64)) : "memory");  // FAULT
    y[threadIdx.x] = 1;
}

extern "C" __global__ void half_a_warp_shuffles(int* y) {
    int v = threadIdx.x;
    if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(IF_FIXED(0xffffu) IF_FAULTY(0xffffffffu), v, 1);  // FAULT
    __syncthreads();
    y[threadIdx.x] = v;
}

extern "C" __global__ void mbarrier_lacks_an_arrival(int* y) {
    __shared__ uint64_t barrier;
    uint32_t bar = shared_address(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(64 IF_FAULTY(+ 1)) : "memory");
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory");
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }" ::"r"(bar) : "memory");  // FAULT
    y[threadIdx.x] = 1;
}

extern "C" __global__ void mbarrier_bytes_overflow(int* y) {
    __shared__ uint64_t barrier;
    uint32_t bar = shared_address(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;" ::"r"(bar), "r"((1 << 20) IF_FIXED(-1)) : "memory");  // FAULT
    }
    y[threadIdx.x] = 1;
}

extern "C" __global__ void mbarrier_not_initialized(int* y) {
    __shared__ uint64_t barrier;
    uint32_t bar = shared_address(&barrier);
    IF_FIXED(if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(bar) : "memory");)
    IF_FAULTY(if (threadIdx.x == 0) barrier = 64;)
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory");  // FAULT
    y[threadIdx.x] = 1;
}

extern "C" __global__ void flag_nobody_sets(volatile int* flag) {
    IF_FIXED(if (threadIdx.x == 0) *flag = 1;)
    while (*flag == 0) {}  // FAULT
}

extern "C" __global__ void trapped(const int* x, int* y) {
    IF_FAULTY(if (x[threadIdx.x] == 37) __trap();)  // FAULT
    y[threadIdx.x] = x[threadIdx.x];
}
