// Stage tiles in blocks of 16 x 16 as Lee's last kernel does, with divisions.
//
// Against lee_global: a block loads P bodies once for its P threads; the loop over a tile is unrolled by UNROLL.
// SQUARE 1: the threads of a block, numbered as 16 rows of 16, work on 16 rows of 16 bodies, each row 256 bodies behind
// the last; 0: on consecutive bodies. A tile has consecutive bodies either way. Expected: with rsqrt the speed of
// tiled; with roots and divisions (arithmetic.cuh) these decide, and neither the tile nor unrolling matters much.
//
// Global loads per body: n / P, of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
#include "arithmetic.cuh"
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

template <class Rows>
__device__ __forceinline__ void add_tiles(Rows bodies, Sums* accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;
    const int i =
        SQUARE ? (blockIdx.x / 16 * 16 + row) * 256 + blockIdx.x % 16 * 16 + column : blockIdx.x * P + threadIdx.x;
    const Body self = i < n ? bodies[i] : Body{};
    Sums sums = {};
    for (int first = 0; first < n; first += P) {
        const int j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : Body{};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            pull(sums, self, tile[k], eps2);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = sums;
}

#if ARITHMETIC == 0
extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    lee_tiled(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    add_tiles(bodies, accelerations, n, eps2);
}
#else
extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    lee_tiled_by_roots(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    add_tiles(bodies, accelerations, n, eps2);
}
#endif
