// C[M, N] = (A · SFA)[M, K] (B · SFB)[N, K]^T: e4m3 by packed e2m1, one ue8m0 scale for 32 elements of k, fp32 out.
// A word of scales is of one row and 128 elements of k; SFA is [K/128, M] words, SFB [K/128, N].
#include "ptx.cuh"

constexpr int BM = 128, BN = 64, BK = 128, STAGES = 3, CONSUMERS = 128;
constexpr uint32_t A_BYTES = BM * BK, B_BYTES = BN * BK;  // TMA pads e2m1 to a byte an element

struct Storage {
    uint8_t a[STAGES][A_BYTES], b[STAGES][B_BYTES];
    uint32_t sfa[STAGES][BM], sfb[STAGES][BN];
    uint64_t full[STAGES], empty[STAGES];
};

struct Problem { int m, n, k; };

__device__ void produce(Storage& s, const CUtensorMap* a, const CUtensorMap* b, const uint32_t* sfa, const uint32_t* sfb,
                        int m0, int n0, Problem p) {
    uint32_t stage = 0, phase = 0;
    for (int k0 = 0; k0 < p.k; k0 += BK) {
        mbarrier_wait(&s.empty[stage], phase ^ 1);
        uint64_t* full = &s.full[stage];
        mbarrier_arrive_expect_tx(full, A_BYTES + B_BYTES / 2 + (BM + BN) * sizeof(uint32_t));
        tma_load_2d(s.a[stage], a, full, k0, m0);
        tma_load_2d(s.b[stage], b, full, k0, n0);
        bulk_load(s.sfa[stage], sfa + k0 / BK * p.m + m0, BM * sizeof(uint32_t), full);
        bulk_load(s.sfb[stage], sfb + k0 / BK * p.n + n0, BN * sizeof(uint32_t), full);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
}

// BYTE: which byte of the scale words; ROWS, COLUMNS: which lanes of a quad hold this instruction's words.
template <int BYTE, int ROWS, int COLUMNS>
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, uint32_t sfa, uint32_t sfb) {
    asm volatile(
        "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%11, %12}, {%13}, {%11, %14};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
          "r"(sfa), "n"(BYTE), "n"(ROWS), "r"(sfb), "n"(COLUMNS));
}

template <int BYTE, int ROWS>
__device__ void row_of_mmas(float (&d)[8][4], const uint32_t (&a)[4], const uint32_t (&b)[4][4], uint32_t sfa, const uint32_t (&sfb)[2]) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        mma<BYTE, ROWS, 0>(d[4 * j], a, b[2 * j][0], b[2 * j][1], sfa, sfb[j]);
        mma<BYTE, ROWS, 1>(d[4 * j + 1], a, b[2 * j][2], b[2 * j][3], sfa, sfb[j]);
        mma<BYTE, ROWS, 2>(d[4 * j + 2], a, b[2 * j + 1][0], b[2 * j + 1][1], sfa, sfb[j]);
        mma<BYTE, ROWS, 3>(d[4 * j + 3], a, b[2 * j + 1][2], b[2 * j + 1][3], sfa, sfb[j]);
    }
}

// 32 elements of k, of which a tile has four.
template <int STEP>
__device__ void k_step(float (&acc)[2][8][4], uint32_t a, uint32_t b, uint32_t row, uint32_t sfa, const uint32_t (&sfb)[2]) {
    const uint32_t lane = threadIdx.x % 32, column = lane % 8 + lane / 16 * 8;
    uint32_t ra[2][4], rb[4][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) ldmatrix_x4(ra[i], a + swizzle128(row + i * 16 + lane % 16, 2 * STEP + lane / 16));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        ldmatrix_x4_e2m1(rb[j], b + swizzle128(j * 16 + column, 2 * STEP + lane / 8 % 2));
        for (int i = 0; i < 4; ++i) rb[j][i] <<= 2;  // the tensor core wants e2m1 in bits 5:2
    }
    row_of_mmas<STEP, 0>(acc[0], ra[0], rb, sfa, sfb);
    row_of_mmas<STEP, 1>(acc[1], ra[1], rb, sfa, sfb);
}

// Four warps, each with 32 rows of the tile.
__device__ void consume(Storage& s, float* c, int m0, int n0, Problem p) {
    const uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 * 32, g = lane / 4, l = lane % 4;
    float acc[2][8][4] = {};
    uint32_t stage = 0, phase = 0;
    for (int k0 = 0; k0 < p.k; k0 += BK) {
        mbarrier_wait(&s.full[stage], phase);
        const uint32_t a = smem_u32(s.a[stage]), b = smem_u32(s.b[stage]);
        // Lane pairs of a quad hold the scales of rows g and g + 8 of the two row tiles, lanes those of four column tiles.
        const uint32_t sfa = s.sfa[stage][row + l / 2 * 16 + l % 2 * 8 + g];
        const uint32_t sfb[2] = {s.sfb[stage][l * 8 + g], s.sfb[stage][32 + l * 8 + g]};
        k_step<0>(acc, a, b, row, sfa, sfb);
        k_step<1>(acc, a, b, row, sfa, sfb);
        k_step<2>(acc, a, b, row, sfa, sfb);
        k_step<3>(acc, a, b, row, sfa, sfb);
        __syncwarp();
        if (elect_one()) mbarrier_arrive(&s.empty[stage]);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 8; ++j)
            for (int half = 0; half < 2; ++half) {
                const int y = m0 + row + i * 16 + half * 8 + g, x = n0 + j * 8 + l * 2;
                *reinterpret_cast<float2*>(c + size_t(y) * p.n + x) = make_float2(acc[i][j][2 * half], acc[i][j][2 * half + 1]);
            }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1)
block_scaled_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const uint32_t* sfa,
                  const uint32_t* sfb, float* c, Problem p) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Storage& s = *reinterpret_cast<Storage*>(raw);
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);
            mbarrier_init(&s.empty[i], CONSUMERS / 32);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        registers_give<40>();
        if (elect_one()) produce(s, &a, &b, sfa, sfb, m0, n0, p);
    } else {
        registers_take<232>();
        consume(s, c, m0, n0, p);
    }
}
