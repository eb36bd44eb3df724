// Kernels that the interpreter's tests compile with nvcc; see test_compiled.py for what each must compute.
#include <cassert>
#include <cstdio>
#include <cstdint>

// Sum of n floats by one block: warp shuffles, then shared memory.
extern "C" __global__ void reduce_sum(const float* x, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.f;
        for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

// out[i] = x[i] changed in one of nine ways, by i % 9.
extern "C" __global__ void dispatch(const int* x, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    switch (i % 9) {
        case 0: v = v * 3 + 1; break;
        case 1: v = v / 7; break;
        case 2: v = v % 5; break;
        case 3: v = __popc(v); break;
        case 4: v = __clz(v); break;
        case 5: for (int k = 0; k < i % 7; ++k) v = v * 5 + k; break;
        case 6: v = __brev(v); break;
        case 7: v = v << (i & 7); break;
        default: v = -v;
    }
    out[i] = v;
}

struct Pair { float low, high; };

__noinline__ __device__ Pair ordered(float a, float b) {
    if (a < b) return {a, b};
    return {b, a};
}

__noinline__ __device__ float spread(const float* x, int i) {
    Pair p = ordered(x[2 * i], x[2 * i + 1]);
    return p.high - p.low;
}

// out[i] = |x[2i] − x[2i+1]| through two device functions and a struct.
extern "C" __global__ void call_functions(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = spread(x, i);
}

// Local memory indexed at run time: reverses groups of 8.
extern "C" __global__ void local_array(const int* x, int* out, const int* order) {
    int i = threadIdx.x, values[8];
    for (int k = 0; k < 8; ++k) values[k] = x[i * 8 + k];
    for (int k = 0; k < 8; ++k) out[i * 8 + k] = values[order[k]];
}

// Fails its assertion for negative x.
extern "C" __global__ void check_positive(const int* x) { assert(x[threadIdx.x] >= 0); }

struct Shape { int rows, columns; float scale; double bias; };

// A struct by value, and 64-bit floating point.
extern "C" __global__ void by_value(Shape shape, double* out) {
    int i = threadIdx.x;
    if (i < shape.rows * shape.columns) out[i] = (i / shape.columns) * shape.scale + shape.bias / (i % shape.columns + 1);
}

// The last block to finish adds up what all have left behind.
__device__ unsigned int arrived = 0;
extern "C" __global__ void last_block_sum(const float* x, float* partial, float* out) {
    __shared__ bool last;
    float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float total = 0.f;
        for (int b = 0; b < gridDim.x; ++b) total += ((volatile float*)partial)[b];
        *out = total;
    }
}

// Blocks pass a token in order: block b spins until b − 1 is done.
extern "C" __global__ void chain(volatile int* token, int* order) {
    if (threadIdx.x == 0) {
        while (*token != (int)(gridDim.x - 1 - blockIdx.x)) {}
        order[gridDim.x - 1 - blockIdx.x] = blockIdx.x;
        __threadfence();
        *token = *token + 1;
    }
}

__device__ inline uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// C[64, 64] = A[64, K] B[64, K]^T in bf16 by 4 warps: cp.async double buffering, ldmatrix, mma.
extern "C" __global__ void matmul_bf16(const uint16_t* A, const uint16_t* B, float* C, int K) {
    __shared__ __align__(16) uint16_t a[2][64][40], b[2][64][40];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    float acc[8][4] = {};
    auto fetch = [&](int stage, int k0) {
        for (int i = tid; i < 256; i += 128) {
            int row = i / 4, col = i % 4 * 8;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&a[stage][row][col])), "l"(A + row * K + k0 + col));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&b[stage][row][col])), "l"(B + row * K + k0 + col));
        }
        asm volatile("cp.async.commit_group;");
    };
    fetch(0, 0);
    for (int k0 = 0, stage = 0; k0 < K; k0 += 32, stage ^= 1) {
        if (k0 + 32 < K) {
            fetch(stage ^ 1, k0 + 32);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        for (int kk = 0; kk < 32; kk += 16) {
            uint32_t ra[4], rb[2];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(shared_address(&a[stage][warp * 16 + lane % 16][kk + lane / 16 * 8])));
            for (int n = 0; n < 8; ++n) {
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                    : "=r"(rb[0]), "=r"(rb[1]) : "r"(shared_address(&b[stage][n * 8 + lane % 8][kk + lane / 8 % 2 * 8])));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                    : "+f"(acc[n][0]), "+f"(acc[n][1]), "+f"(acc[n][2]), "+f"(acc[n][3])
                    : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
            }
        }
        __syncthreads();
    }
    for (int n = 0; n < 8; ++n)
        for (int i = 0; i < 4; ++i)
            C[(warp * 16 + lane / 4 + i / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + i % 2] = acc[n][i];
}

// Every kind of conversion.
extern "C" __global__ void print_all(int n, float x) {
    printf("%d of %d: %i|%#06x|%5.2f|%e|%s|%c|%lld|%% %*d|", threadIdx.x, n, -12, 255, x, x, "text", 'c',
           123456789012LL, 1, 5);
}
