// Code of the CUDA headers: CUB, cooperative groups, pipelines, and the types of 16, 8 and 4 bits.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

namespace cg = cooperative_groups;

// out[0…127] = exclusive prefix sums, out[128] = their total.
extern "C" __global__ void scan(const int* x, int* out) {
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union { Reduce::TempStorage reduce; Scan::TempStorage scan; } storage;
    int value = x[threadIdx.x], prefix;
    int total = Reduce(storage.reduce).Sum(value);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(value, prefix);
    out[threadIdx.x] = prefix;
    if (threadIdx.x == 0) out[128] = total;
}

extern "C" __global__ void sort(const unsigned* x, unsigned* out) {
    using Sort = cub::BlockRadixSort<unsigned, 64, 4>;
    __shared__ Sort::TempStorage storage;
    unsigned values[4];
    for (int i = 0; i < 4; ++i) values[i] = x[threadIdx.x * 4 + i];
    Sort(storage).Sort(values);
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = values[i];
}

// Sums and maxima of groups of 8, and how many x are positive.
extern "C" __global__ void groups(const float* x, float* sums, float* maxima, int* positive) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    float value = x[block.thread_rank()];
    float sum = cg::reduce(tile, value, cg::plus<float>()), maximum = cg::reduce(tile, value, cg::greater<float>());
    if (tile.thread_rank() == 0) {
        sums[tile.meta_group_rank()] = sum;
        maxima[tile.meta_group_rank()] = maximum;
    }
    if (value > 0) {
        auto active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(positive, active.size());
    }
}

// Sums chunks of 64 that arrive through a pipeline of two stages, each read back to front.
extern "C" __global__ void pipeline(const int* x, int* out, int chunks) {
    constexpr int STAGES = 2;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    __shared__ __align__(16) int buffer[STAGES][64];
    auto block = cg::this_thread_block();
    auto copies = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int chunk = 0, fetched = 0; chunk < chunks; ++chunk) {
        for (; fetched < chunks && fetched < chunk + STAGES; ++fetched) {
            copies.producer_acquire();
            cuda::memcpy_async(block, buffer[fetched % STAGES], x + fetched * 64, cuda::aligned_size_t<16>(256), copies);
            copies.producer_commit();
        }
        copies.consumer_wait();
        sum += buffer[chunk % STAGES][63 - threadIdx.x];
        copies.consumer_release();
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void halves(const __half2* x, __half2* out, const __nv_bfloat162* y, __nv_bfloat162* out_bf16) {
    const int i = threadIdx.x;
    __half2 a = x[2 * i], b = x[2 * i + 1];
    __half2 results[] = {__hfma2(a, b, a), h2exp2(a), __hmax2(a, b), h2tanh(a), h2sqrt(__habs2(a)), h2rcp(a)};
    for (int k = 0; k < 6; ++k) out[6 * i + k] = results[k];
    __nv_bfloat162 c = y[2 * i], d = y[2 * i + 1];
    __nv_bfloat162 results_bf16[] = {__hfma2(c, d, c), h2exp2(c), __hmin2_nan(c, d), __hadd2_rn(c, d), h2log2(__habs2(c)), __hfma2_relu(c, d, c)};
    for (int k = 0; k < 6; ++k) out_bf16[6 * i + k] = results_bf16[k];
}

// Pairs of floats to e4m3 and e2m1 and back, by way of half.
extern "C" __global__ void narrow(const float2* x, uint16_t* e4m3, __half2_raw* from_e4m3, uint8_t* e2m1, __half2_raw* from_e2m1) {
    const int i = threadIdx.x;
    e4m3[i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E4M3);
    from_e4m3[i] = __nv_cvt_fp8x2_to_halfraw2(e4m3[i], __NV_E4M3);
    e2m1[i] = __nv_cvt_float2_to_fp4x2(x[i], __NV_E2M1, cudaRoundNearest);
    from_e2m1[i] = __nv_cvt_fp4x2_to_halfraw2(e2m1[i], __NV_E2M1);
}
