// C[M, N] = A[M, K] B[N, K]^T in bf16 with fp32 accumulation: TMA both ways, 128B swizzle, a warp that loads.
#include <cuda_bf16.h>

#include "ptx.cuh"

constexpr int TILE = 64, STAGES = 3, CONSUMERS = 128;  // a row of a tile is 64 bf16: one span of the swizzle
constexpr uint32_t TILE_BYTES = TILE * TILE * sizeof(__nv_bfloat16);

struct Storage {
    __nv_bfloat16 a[STAGES][TILE * TILE], b[STAGES][TILE * TILE], c[TILE * TILE];
    uint64_t full[STAGES], empty[STAGES];
};

__device__ void produce(Storage& s, const CUtensorMap* a, const CUtensorMap* b, int m0, int n0, int k) {
    uint32_t stage = 0, phase = 0;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        mbarrier_wait(&s.empty[stage], phase ^ 1);
        mbarrier_arrive_expect_tx(&s.full[stage], 2 * TILE_BYTES);
        tma_load_2d(s.a[stage], a, &s.full[stage], k0, m0);
        tma_load_2d(s.b[stage], b, &s.full[stage], k0, n0);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
}

__device__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint32_t pack(float low, float high) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<uint32_t&>(pair);
}

// Four warps, each with a 32×32 quarter of the tile.
__device__ void consume(Storage& s, const CUtensorMap* c, int m0, int n0, int k) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row = warp / 2 * 32 + lane % 16, column = warp % 2 * 32 + lane % 8 + lane / 16 * 8;
    float acc[2][4][4] = {};
    uint32_t stage = 0, phase = 0;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        mbarrier_wait(&s.full[stage], phase);
        const uint32_t a = smem_u32(s.a[stage]), b = smem_u32(s.b[stage]);
#pragma unroll
        for (int unit = 0; unit < TILE / 8; unit += 2) {
            uint32_t ra[2][4], rb[2][4];
            for (int i = 0; i < 2; ++i) {
                ldmatrix_x4(ra[i], a + swizzle128(row + i * 16, unit + lane / 16));
                ldmatrix_x4(rb[i], b + swizzle128(column + i * 16, unit + lane / 8 % 2));
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) mma_bf16(acc[i][j], ra[i], rb[j / 2][j % 2 * 2], rb[j / 2][j % 2 * 2 + 1]);
        }
        __syncwarp();
        if (elect_one()) mbarrier_arrive(&s.empty[stage]);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; j += 2) {
            float(&low)[4] = acc[i][j], (&high)[4] = acc[i][j + 1];
            stmatrix_x4(smem_u32(s.c) + swizzle128(row + i * 16, warp % 2 * 4 + j + lane / 16),
                        pack(low[0], low[1]), pack(low[2], low[3]), pack(high[0], high[1]), pack(high[2], high[3]));
        }
    fence_proxy_async();
    named_barrier(1, CONSUMERS);
    if (threadIdx.x == 0) {
        tma_store_2d(c, s.c, n0, m0);
        bulk_commit();
        bulk_wait_read();
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1)
gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap c, int k) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Storage& s = *reinterpret_cast<Storage*>(raw);
    const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
    if (threadIdx.x == 0) {
        tma_prefetch(&a);
        tma_prefetch(&b);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);
            mbarrier_init(&s.empty[i], CONSUMERS / 32);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        registers_give<40>();
        if (elect_one()) produce(s, &a, &b, m0, n0, k);
    } else {
        registers_take<232>();
        consume(s, &c, m0, n0, k);
    }
}
