// Let each block begin at another tile, so that the blocks do not all read the same tile at the same time.
//
// Against tiled: a block begins with the tile of its own bodies and goes on with the first after the last. Expected:
// the same speed, as Lee found, because a tile that several blocks read at the same time comes from the L2 cache.
//
// Global loads per body: n / P, of one row each (gravity: 16 bytes). bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass); accelerations[i]: its sums; n rows each.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    staggered(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {};
    for (int passed = 0; passed < n; passed += P) {
        int first = blockIdx.x * P + passed;
        if (first >= gridDim.x * P) first -= gridDim.x * P;
        const int j = first + threadIdx.x;
        if (j < n) tile[threadIdx.x] = bodies[j];
        __syncthreads();
        if (n - first >= P) {
#pragma unroll unroll
            for (int k = 0; k < P; ++k) interact(sums, self, tile[k], eps2);
        } else {
#pragma unroll 1
            for (int k = 0; k < n - first; ++k) interact(sums, self, tile[k], eps2);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = sums;
}
