// Give each thread R bodies, so that one body read from shared memory serves R interactions.
//
// Against tiled: a thread keeps R bodies and their sums in registers. A block has P threads for P * R bodies; a tile
// has P bodies. Expected: less waiting for shared memory at large N. A 16-byte load from shared memory takes an issue
// slot and more than two cycles of the pipe that all warps share; one load now serves R interactions instead of one. R
// independent interactions per thread hide the latencies that took as many warps before. What remains is the 13
// instructions of the interaction. Slower at small N, because the same bodies make R times fewer threads.
//
// MASS_FIRST 1: a row of the tile begins with the mass, for the register banks (tile_rows.cuh). RESIDENT: blocks per
// multiprocessor for which the compiler has to leave registers.
//
// Global loads per body: n / (P * R) of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows
// each. Places of a tile beyond the last body have mass 0.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

#include "tile_rows.cuh"

extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    register_blocked(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Row tile[P];
    const int thread = threadIdx.x;
    const int i = blockIdx.x * (P * R) + thread;
    Body own[R];
    Sums sums[R] = {};
#pragma unroll
    for (int b = 0; b < R; ++b) own[b] = bodies[min(i + b * P, n - 1)];
    for (int first = 0; first < n; first += P) {
        tile[thread] = first + thread < n ? row_of(bodies[first + thread]) : Row{};
        __syncthreads();
        pull_rows(sums, own, tile, P, eps2);
        __syncthreads();
    }
#pragma unroll
    for (int b = 0; b < R; ++b) {
        if (i + b * P < n) accelerations[i + b * P] = sums[b];
    }
}
