// What a multiprocessor does at most of one kind of instruction: one kernel each, of a loop of nothing else.
//
// The instructions are written as PTX that the compiler may not drop. Every kernel leaves a result that tells whether
// it did all of them. marks: clocks and nanoseconds of the first thread at the begin and at the end of its loop.
#define LANES 8  // independent chains per thread

typedef unsigned long long Mark;

__device__ __forceinline__ Mark nanoseconds() {
    Mark found;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(found));
    return found;
}

struct Clock {
    Mark* const marks;
    __device__ __forceinline__ explicit Clock(Mark* to) : marks(to) {
        if (blockIdx.x == 0 && threadIdx.x == 0) marks[0] = clock64(), marks[1] = nanoseconds();
    }
    __device__ __forceinline__ void stop() {
        if (blockIdx.x == 0 && threadIdx.x == 0) marks[2] = clock64(), marks[3] = nanoseconds();
    }
};

__device__ __forceinline__ int place() {
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ void multiply_add(float& sum, float a, float b) {
    asm volatile("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(a), "f"(b));
}

__device__ __forceinline__ void inverse_root(float& x) {
    asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
}

__device__ __forceinline__ void and_xor(unsigned& x, unsigned a, unsigned b) {
    asm volatile("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(x) : "r"(a), "r"(b));  // (x & a) ^ b
}

// Both operands of a product lie in one register, two change from one instruction to the next, or all three do.
#define FMA_KERNEL(NAME, A, B)                                                                            \
    extern "C" __global__ void NAME(float* out, Mark* marks, const float* in, int turns) {                \
        [[maybe_unused]] float sum[LANES], a[LANES], b[LANES];                                            \
        _Pragma("unroll") for (int k = 0; k < LANES; ++k) sum[k] = k, a[k] = in[k], b[k] = in[LANES + k]; \
        Clock watch(marks);                                                                               \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; ++turn) {                                    \
            _Pragma("unroll") for (int k = 0; k < 4 * LANES; ++k) multiply_add(sum[k % LANES], A, B);     \
        }                                                                                                 \
        watch.stop();                                                                                     \
        float total = 0;                                                                                  \
        _Pragma("unroll") for (int k = 0; k < LANES; ++k) total += sum[k] * (k + 1);                      \
        out[place()] = total;                                                                             \
    }

FMA_KERNEL(fma_1, a[0], a[0])
FMA_KERNEL(fma_2, a[k % LANES], a[0])
FMA_KERNEL(fma_3, a[k % LANES], b[k % LANES])

extern "C" __global__ void alu(unsigned* out, Mark* marks, const unsigned* in, int turns) {
    unsigned x[LANES];
    const unsigned a = in[0], b = in[1];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = k;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k) and_xor(x[k % LANES], a, b);
    }
    watch.stop();
    unsigned total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k] * (k + 1);
    out[place()] = total;
}

extern "C" __global__ void alu_fma(float* out, Mark* marks, const float* in, const unsigned* bits, int turns) {
    unsigned x[LANES];
    float sum[LANES];
    const unsigned a = bits[0], b = bits[1];
    const float factor = in[0];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = k, sum[k] = k;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 2 * LANES; ++k) {
            and_xor(x[k % LANES], a, b);
            multiply_add(sum[k % LANES], factor, factor);
        }
    }
    watch.stop();
    float total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += sum[k] * (k + 1) + static_cast<float>(x[k] & 0xff);
    out[place()] = total;
}

extern "C" __global__ void mufu(float* out, Mark* marks, const float* in, int turns) {
    float x[LANES];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = in[k];
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k) inverse_root(x[k % LANES]);
    }
    watch.stop();
    float total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k];
    out[place()] = total;
}

// Eight multiplications and additions beside each rsqrt keep the FMA pipes as busy as these keep theirs: the ninth
// instruction shows whether all of them share the slots of issue.
extern "C" __global__ void mufu_fma(float* out, Mark* marks, const float* in, int turns) {
    float x[LANES], sum[LANES];
    const float factor = in[LANES];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = in[k], sum[k] = k;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            inverse_root(x[k]);
#pragma unroll
            for (int other = 0; other < LANES; ++other) multiply_add(sum[other], factor, factor);
        }
    }
    watch.stop();
    float total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k] + sum[k];
    out[place()] = total;
}

extern "C" __global__ void fp64(double* out, Mark* marks, const double* in, int turns) {
    double sum[LANES];
    const double factor = in[0];
#pragma unroll
    for (int k = 0; k < LANES; ++k) sum[k] = k;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k)
            asm volatile("fma.rn.f64 %0, %1, %1, %0;" : "+d"(sum[k % LANES]) : "d"(factor));
    }
    watch.stop();
    double total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += sum[k];
    out[place()] = total;
}

extern "C" __global__ void shuffle(unsigned* out, Mark* marks, int turns) {
    unsigned x[LANES];
    const int next = (threadIdx.x + 1) % 32;
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = threadIdx.x % 32 + k;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k)
            asm volatile("shfl.sync.idx.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(x[k % LANES]) : "r"(next));
    }
    watch.stop();
    unsigned total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k];
    out[place()] = total;
}

// Matrices of 8 x 8 half-precision numbers, transposed an even number of times.
extern "C" __global__ void transpose(unsigned* out, Mark* marks, int turns) {
    unsigned x[LANES];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = threadIdx.x % 32 + k;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k)
            asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x[k % LANES]));
    }
    watch.stop();
    unsigned total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k];
    out[place()] = total;
}

// Two floats become two half-precision numbers in one register, which is the next float.
extern "C" __global__ void convert(unsigned* out, Mark* marks, const float* in, int turns) {
    float x[LANES];
    const float low = in[0];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = in[k];
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k) {
            unsigned pair;
#if __CUDA_ARCH__ >= 800
            asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[k % LANES]), "f"(low));
#else
            asm volatile("{.reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {b, a};}"
                         : "=r"(pair)
                         : "f"(x[k % LANES]), "f"(low));
#endif
            x[k % LANES] = __int_as_float(pair);
        }
    }
    watch.stop();
    unsigned total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += __float_as_int(x[k]);
    out[place()] = total;
}

// The upper half-precision number of a word becomes a float, whose upper half is the next.
extern "C" __global__ void widen(unsigned* out, Mark* marks, const float* in, int turns) {
    unsigned x[LANES];
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = __float_as_int(in[k]);
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 4 * LANES; ++k) {
            float wide;
            asm volatile("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}"
                         : "=f"(wide)
                         : "r"(x[k % LANES]));
            x[k % LANES] = __float_as_int(wide);
        }
    }
    watch.stop();
    unsigned total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k];
    out[place()] = total;
}

// All lanes of a warp read one address, as they do of a tile: a row of words, the other one in the next turn. Every
// second word alone, because the compiler makes one load of two that are neighbours.
#define LOAD_32(NAME, SPACE, FROM)                                                                       \
    extern "C" __global__ void NAME(unsigned* out, Mark* marks, const unsigned* in, int turns) {         \
        __shared__ __align__(16) unsigned tile[256];                                                     \
        tile[threadIdx.x % 256] = in[threadIdx.x % 256];                                                 \
        __syncthreads();                                                                                 \
        unsigned x = 0, y = 0;                                                                           \
        Clock watch(marks);                                                                              \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; ++turn) {                                   \
            _Pragma("unroll") for (int k = 0; k < 32; k += 2) {                                          \
                unsigned a, b;                                                                           \
                asm volatile("ld." SPACE ".u32 %0, [%1];" : "=r"(a) : FROM(turn % 2 * 128 + 2 * k));     \
                asm volatile("ld." SPACE ".u32 %0, [%1];" : "=r"(b) : FROM(turn % 2 * 128 + 2 * k + 2)); \
                x += a ^ b, y ^= b;                                                                      \
            }                                                                                            \
        }                                                                                                \
        watch.stop();                                                                                    \
        out[place()] = x + y;                                                                            \
    }

#define LOAD_128(NAME, SPACE, FROM)                                                              \
    extern "C" __global__ void NAME(unsigned* out, Mark* marks, const unsigned* in, int turns) { \
        __shared__ __align__(16) unsigned tile[256];                                             \
        tile[threadIdx.x % 256] = in[threadIdx.x % 256];                                         \
        __syncthreads();                                                                         \
        unsigned x = 0, y = 0;                                                                   \
        Clock watch(marks);                                                                      \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; ++turn) {                           \
            _Pragma("unroll") for (int k = 0; k < 128; k += 4) {                                 \
                unsigned a, b, c, d;                                                             \
                asm volatile("ld." SPACE ".v4.u32 {%0, %1, %2, %3}, [%4];"                       \
                             : "=r"(a), "=r"(b), "=r"(c), "=r"(d)                                \
                             : FROM(turn % 2 * 128 + k));                                        \
                x += a ^ b ^ c, y ^= d;                                                          \
            }                                                                                    \
        }                                                                                        \
        watch.stop();                                                                            \
        out[place()] = x + y;                                                                    \
    }

// Each lane of a warp reads 16 bytes of its own, side by side.
extern "C" __global__ void lds_lanes(unsigned* out, Mark* marks, const unsigned* in, int turns) {
    __shared__ __align__(16) unsigned tile[384];
    tile[threadIdx.x % 256] = in[threadIdx.x % 256];
    if (threadIdx.x < 128) tile[256 + threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x % 32 * 4));
    unsigned x = 0, y = 0;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 128; k += 4) {
            unsigned a, b, c, d;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                         : "r"(own + 4 * (turn % 2 * 128 + k)));
            x += a ^ b ^ c, y ^= d;
        }
    }
    watch.stop();
    out[place()] = x + y;
}

#define OF_TILE(k) "r"(static_cast<unsigned>(__cvta_generic_to_shared(tile + (k))))
#define OF_MEMORY(k) "l"(in + (k))

LOAD_32(lds_32, "shared", OF_TILE)
LOAD_128(lds_128, "shared", OF_TILE)
LOAD_32(ldg_32, "global.nc", OF_MEMORY)
LOAD_128(ldg_128, "global.nc", OF_MEMORY)

// Read `words` rows of 16 bytes, each thread its own, all of them in every turn, past the cache of a multiprocessor.
extern "C" __global__ void read_rows(unsigned* out, Mark* marks, const uint4* in, int words, int turns) {
    unsigned x = 0, y = 0;
    const int all = gridDim.x * blockDim.x;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll 1
        for (int k = place(); k < words; k += 4 * all) {
#pragma unroll
            for (int other = 0; other < 4; ++other) {
                unsigned a, b, c, d;
                asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                             : "l"(in + k + other * all));
                x += a ^ b, y += c ^ d;
            }
        }
    }
    watch.stop();
    out[place()] = x + y;
}

extern "C" __global__ void fill_rows(uint4* out, int words) {
    for (int k = place(); k < words; k += gridDim.x * blockDim.x) {
        const unsigned own = 2654435761u * k;
        out[k] = make_uint4(own, 0, own >> 7, 0);
    }
}

// Write `words` rows of 16 bytes, each thread its own, all of them in every turn, and read the last of its own at the
// end.
extern "C" __global__ void write_rows(unsigned* out, Mark* marks, uint4* to, int words, int turns) {
    const int all = gridDim.x * blockDim.x;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll 1
        for (int k = place(); k < words; k += 4 * all) {
#pragma unroll
            for (int other = 0; other < 4; ++other) {
                const int row = k + other * all;
                asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %1, %2};" ::"l"(to + row), "r"(turn), "r"(row)
                             : "memory");
            }
        }
    }
    watch.stop();
    const int last = words - all + place();
    out[place()] = (to[last].x + (to[last].y ^ last)) * (words / all);
}

// Products of matrices of ones: each adds the length of a row to every sum.
#define PRODUCT(NAME, SHAPE, OPERANDS)                                                                        \
    extern "C" __global__ void NAME(float* out, Mark* marks, const unsigned* in, int turns) {                 \
        float sum[4][4] = {};                                                                                 \
        const unsigned a0 = in[0], a1 = in[1], a2 = in[2], a3 = in[3], b0 = in[4], b1 = in[5];                \
        Clock watch(marks);                                                                                   \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; ++turn) {                                        \
            _Pragma("unroll") for (int k = 0; k < 16; ++k) {                                                  \
                float (&to)[4] = sum[k % 4];                                                                  \
                asm volatile("mma.sync.aligned." SHAPE ".row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, " OPERANDS \
                             ", {%0, %1, %2, %3};"                                                            \
                             : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])                             \
                             : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                         \
            }                                                                                                 \
        }                                                                                                     \
        watch.stop();                                                                                         \
        float total = 0;                                                                                      \
        _Pragma("unroll") for (int k = 0; k < 16; ++k) total += sum[k / 4][k % 4];                            \
        out[place()] = total;                                                                                 \
    }

PRODUCT(mma_8, "m16n8k8", "{%4, %5}, {%8}")
#if __CUDA_ARCH__ >= 800
PRODUCT(mma_16, "m16n8k16", "{%4, %5, %6, %7}, {%8, %9}")

__device__ __forceinline__ void add_product(float (&to)[4], const unsigned (&ones)[6]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "r"(ones[0]), "r"(ones[1]), "r"(ones[2]), "r"(ones[3]), "r"(ones[4]), "r"(ones[5]));
}

// Three products for four reciprocal square roots: how far they hinder each other, and the clock under such a load.
extern "C" __global__ void mma_mufu(float* out, Mark* marks, const float* in, const unsigned* factors, int turns) {
    float sum[4][4] = {};
    float x[LANES];
    const unsigned ones[6] = {factors[0], factors[1], factors[2], factors[3], factors[4], factors[5]};
#pragma unroll
    for (int k = 0; k < LANES; ++k) x[k] = in[k];
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 2 * LANES; ++k) {
            inverse_root(x[k % LANES]);
            if (k % 4) add_product(sum[k % 4], ones);
        }
    }
    watch.stop();
    float total = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) total += x[k];
#pragma unroll
    for (int k = 0; k < 16; ++k) total += sum[k / 4][k % 4];
    out[place()] = total;
}

// One warp, each product adds to the sum of the one before it.
extern "C" __global__ void latency_mma(float* out, Mark* marks, const unsigned* in, int turns) {
    float sum[4] = {};
    const unsigned ones[6] = {in[0], in[1], in[2], in[3], in[4], in[5]};
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 33; ++k) add_product(sum, ones);
    }
    watch.stop();
    out[place()] = sum[0] + sum[1] + sum[2] + sum[3];
}
#endif

// STEP 1: each thread adds to a place of its own; 0: all threads to one.
#define ADDITIONS(NAME, STEP)                                                                                         \
    extern "C" __global__ void NAME(float* out, Mark* marks, int turns) {                                             \
        float* const to = out + STEP * place();                                                                       \
        Clock watch(marks);                                                                                           \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; ++turn) {                                                \
            _Pragma("unroll") for (int k = 0; k < 4;                                                                  \
                                   ++k) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(1.0f) : "memory"); \
        }                                                                                                             \
        watch.stop();                                                                                                 \
    }

ADDITIONS(red_distinct, 1)
ADDITIONS(red_one, 0)

extern "C" __global__ void empty() {}

// A kernel that has work, but little: it adds one to what the kernel before it left.
extern "C" __global__ void relay(unsigned* to, const unsigned* from) {
    to[place()] = from[place()] + 1;
}

// Latencies: one warp, each instruction needs the result of the one before it.
extern "C" __global__ void latency_fma(float* out, Mark* marks, const float* in, int turns) {
    float sum = 0;
    const float factor = in[0];
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 33; ++k) multiply_add(sum, factor, factor);
    }
    watch.stop();
    out[place()] = sum;
}

extern "C" __global__ void latency_mufu(float* out, Mark* marks, const float* in, int turns) {
    float x = in[0];
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 33; ++k) inverse_root(x);
    }
    watch.stop();
    out[place()] = x;
}

extern "C" __global__ void latency_transpose(unsigned* out, Mark* marks, int turns) {
    unsigned x = threadIdx.x;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 32; ++k) asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));
    }
    watch.stop();
    out[place()] = x;
}

// The words of a ring: each is the address of the next.
extern "C" __global__ void link_words(Mark* ring, int words, int step) {
    for (int k = place(); k < words; k += gridDim.x * blockDim.x)
        ring[static_cast<long long>(k) * step] =
            reinterpret_cast<Mark>(ring + static_cast<long long>((k + 1) % words) * step);
}

extern "C" __global__ void latency_lds(unsigned* out, Mark* marks, int turns) {
    __shared__ unsigned tile[32];
    const unsigned begin = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    tile[threadIdx.x % 32] = begin + 4 * ((threadIdx.x + 5) % 32);
    __syncthreads();
    unsigned at = begin;
    Clock watch(marks);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 33; ++k) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at));
    }
    watch.stop();
    out[place()] = (at - begin) / 4;
}

#define CHASE(NAME, SPACE)                                                                                        \
    extern "C" __global__ void NAME(Mark* out, Mark* marks, const Mark* ring, int turns) {                        \
        Mark at = reinterpret_cast<Mark>(ring);                                                                   \
        Clock watch(marks);                                                                                       \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; ++turn) {                                            \
            _Pragma("unroll") for (int k = 0; k < 33; ++k) asm volatile("ld." SPACE ".u64 %0, [%0];" : "+l"(at)); \
        }                                                                                                         \
        watch.stop();                                                                                             \
        out[place()] = at - reinterpret_cast<Mark>(ring);                                                         \
    }

CHASE(latency_l1, "global.nc")
CHASE(latency_l2, "global.cg")
