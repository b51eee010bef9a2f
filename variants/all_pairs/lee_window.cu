// Sum over a window of the bodies in blocks of 16 x 16, and do not scale the sum, as Lee printed it.
//
// Against lee_tiled: a step sums over the bodies first to last - 1, another window in each step. SCALED 0: the sum
// stays that of the window; 1: it is multiplied by scale, the number of windows in a cycle. STAGED 1: the window comes
// in tiles of P bodies; 0: from global memory. Blocks are 16 rows of 16 threads, for rows of bodies 256 apart.
// Expected: time falls in proportion to the window; the last tile of a window is rarely full; scaling costs nothing.
//
// Global loads per body: the length of the window, over P where STAGED, of 16 bytes. bodies[i] = x, y, z, mass;
// accelerations[i] = x, y, z, 0; n rows each.
#include "arithmetic.cuh"
static_assert(P == 256, "a block is 16 rows of 16 threads");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

template <class Rows>
__device__ __forceinline__ void add_window(Rows bodies, Sums* accelerations, int n, real eps2, int first, int last,
                                           real scale) {
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;
    const int i = (blockIdx.x / 16 * 16 + row) * 256 + blockIdx.x % 16 * 16 + column;
    const Body self = i < n ? bodies[i] : Body{};
    Sums sums = {};
#if STAGED
    __shared__ Body tile[P];
    for (; first < last; first += P) {
        const int j = first + threadIdx.x;
        tile[threadIdx.x] = j < last ? bodies[j] : Body{};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            pull(sums, self, tile[k], eps2);
        }
        __syncthreads();
    }
#else
    if (i >= n) return;
    for (int j = first; j < last; ++j) {
        pull(sums, self, bodies[j], eps2);
    }
#endif
    const real factor = SCALED ? scale : 1;
    if (i < n) accelerations[i] = Sums{factor * sums.ax, factor * sums.ay, factor * sums.az};
}

#if ARITHMETIC == 0
extern "C" __global__ void __launch_bounds__(P)
    lee_window(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2, int first, int last,
               real scale) {
    add_window(bodies, accelerations, n, eps2, first, last, scale);
}
#else
extern "C" __global__ void __launch_bounds__(P)
    lee_window_by_roots(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2, int first,
                        int last, real scale) {
    add_window(bodies, accelerations, n, eps2, first, last, scale);
}
#endif
