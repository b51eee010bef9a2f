// Stage a tile of P bodies in shared memory, from which all P threads of the block read.
//
// Against float4: a block loads each body once for its P threads, and the loop over the tile, whose length is now
// constant, is unrolled by UNROLL. Expected: faster. Global loads fall by a factor of P; per interaction the inner loop
// keeps one 16-byte load from shared memory, of one address for the whole warp, and the 13 instructions of the
// interaction. Unrolling removes the loop counter and the branch.
//
// The last tile is rarely full; the kernel counts its bodies instead of filling it up, because not every interaction
// has a body that adds nothing.
//
// Global loads per body: n / P, of one row each (gravity: 16 bytes). bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass); accelerations[i]: its sums; n rows each.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    tiled(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {};
    for (int first = 0; first < n; first += P) {
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
