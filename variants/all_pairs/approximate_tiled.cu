// Sum over a window of the bodies only, another window in each step, staged in tiles of P.
//
// Against tiled: the tiles of a step cover the bodies first to last - 1 instead of all, and the sum is multiplied by
// scale, the number of windows in a cycle, as in approximate_global. Expected: time falls in proportion to the window,
// starting from the speed of tiled. The last tile of a window is rarely full, which costs more the smaller the window
// is.
//
// Global loads per body: the length of the window / P, of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y,
// z, 0; n rows each.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    approximate_tiled(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2, int first,
                      int last, real scale) {
    __shared__ Body tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {};
    for (; first < last; first += P) {
        const int j = first + threadIdx.x;
        tile[threadIdx.x] = j < last ? bodies[j] : Body{};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            interact(sums, self, tile[k], eps2);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = Sums{scale * sums.ax, scale * sums.ay, scale * sums.az};
}
