// Read bodies from one interleaved array, number by number or as float4, with divisions.
//
// Against naive: x, y, z and mass of a body stand side by side. With WIDTH 1 a thread reads them one by one, as Lee's
// first kernel does; with WIDTH 4 together, as his second. SQUARE 1: the threads of a block, numbered as 16 rows of
// 16, work on 16 rows of 16 bodies, each row 256 bodies behind the last, as on Lee's grid 256 bodies wide; 0: on
// consecutive bodies. Expected: WIDTH 1 as slow as naive; SQUARE changes only where a thread's own body is, once;
// roots and divisions (arithmetic.cuh) cost several times the instructions of one inverse square root.
//
// Global loads per body: 4 n / WIDTH. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
#include "arithmetic.cuh"

// Read one number by a load of its own: the compiler joins four neighbours to one load where it sees them.
__device__ __forceinline__ real number(const real& from) {
#ifdef __CUDA_ARCH__
    return __ldg(&from);
#else
    return from;
#endif
}

__device__ __forceinline__ int own_body() {
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;
    return SQUARE ? (blockIdx.x / 16 * 16 + row) * 256 + blockIdx.x % 16 * 16 + column : blockIdx.x * P + threadIdx.x;
}

template <class Rows>
__device__ __forceinline__ void add_all(Rows bodies, Sums* accelerations, int n, real eps2) {
    const int i = own_body();
    if (i >= n) return;
    const Body self = bodies[i];
    Sums sums = {};
    for (int j = 0; j < n; ++j) {
#if WIDTH == 1
        pull(sums, self, Body{number(bodies[j].x), number(bodies[j].y), number(bodies[j].z), number(bodies[j].mass)},
             eps2);
#else
        pull(sums, self, bodies[j], eps2);
#endif
    }
    accelerations[i] = sums;
}

#if ARITHMETIC == 0
extern "C" __global__ void lee_global(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                      real eps2) {
    add_all(bodies, accelerations, n, eps2);
}
#else
extern "C" __global__ void lee_global_by_roots(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                               real eps2) {
    add_all(bodies, accelerations, n, eps2);
}
#endif
