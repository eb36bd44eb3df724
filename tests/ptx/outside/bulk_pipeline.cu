// RMSNorm over rows of 1024 floats: one warp loads rows by bulk copies, four warps normalize and store them.
#include <cstdint>
#include <cuda/barrier>
#include <cuda/ptx>

namespace ptx = cuda::ptx;

constexpr int COLUMNS = 1024, STAGES = 3, CONSUMERS = 128;
enum : uint32_t { ROW_BYTES = COLUMNS * sizeof(float) };

struct __align__(128) Storage {
    float row[STAGES][COLUMNS];
    float result[COLUMNS];
    float weight[COLUMNS];
    float partial[CONSUMERS / 32];
    uint64_t full[STAGES], empty[STAGES], weight_full;
};

template <int N>
__device__ void consumer_barrier() { asm volatile("bar.sync %0, %1;" ::"n"(N), "n"(CONSUMERS) : "memory"); }

__device__ void wait(uint64_t* barrier, uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {}
}

__device__ void load(float* to, const float* from, uint64_t* barrier) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier, ROW_BYTES);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, from, ROW_BYTES, barrier);
}

__device__ void produce(Storage& s, const float* x, const float* weight, int rows) {
    load(s.weight, weight, &s.weight_full);
    int stage = 0, phase = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        wait(&s.empty[stage], phase ^ 1);
        load(s.row[stage], x + size_t(row) * COLUMNS, &s.full[stage]);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
}

__device__ void consume(Storage& s, float* y, int rows, float epsilon) {
    int tid = threadIdx.x, stage = 0, phase = 0;
    wait(&s.weight_full, 0);
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        wait(&s.full[stage], phase);
        float4 v[2];
        float sum = 0.f;
        for (int i = 0; i < 2; ++i) {
            v[i] = reinterpret_cast<const float4*>(s.row[stage])[tid + i * CONSUMERS];
            sum += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
        }
        __syncwarp();
        if (tid % 32 == 0) ptx::mbarrier_arrive(&s.empty[stage]);
        if (++stage == STAGES) stage = 0, phase ^= 1;

        for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
        if (tid % 32 == 0) s.partial[tid / 32] = sum;
        if (tid == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
        consumer_barrier<1>();
        sum = s.partial[0] + s.partial[1] + s.partial[2] + s.partial[3];
        float scale = rsqrtf(sum / COLUMNS + epsilon);
        for (int i = 0; i < 2; ++i) {
            float4 w = reinterpret_cast<const float4*>(s.weight)[tid + i * CONSUMERS];
            reinterpret_cast<float4*>(s.result)[tid + i * CONSUMERS] =
                make_float4(v[i].x * scale * w.x, v[i].y * scale * w.y, v[i].z * scale * w.z, v[i].w * scale * w.w);
        }
        ptx::fence_proxy_async(ptx::space_shared);
        consumer_barrier<2>();
        if (tid == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + size_t(row) * COLUMNS, s.result, ROW_BYTES);
            ptx::cp_async_bulk_commit_group();
        }
    }
    if (tid == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1)
rms_norm(const float* x, const float* weight, float* y, int rows, float epsilon) {
    extern __shared__ __align__(128) unsigned char raw[];
    Storage& s = *reinterpret_cast<Storage*>(raw);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            ptx::mbarrier_init(&s.full[i], 1);
            ptx::mbarrier_init(&s.empty[i], CONSUMERS / 32);
        }
        ptx::mbarrier_init(&s.weight_full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == CONSUMERS) produce(s, x, weight, rows);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(s, y, rows, epsilon);
    }
}
