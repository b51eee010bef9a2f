// Stage a tile of P bodies in shared memory, from which all P threads of the block read.
//
// Against float4: a block loads each body once for its P threads, and the loop over the tile, whose length is now
// constant, is unrolled by UNROLL. Expected: faster. Global loads fall by a factor of P; per interaction the inner loop
// keeps one 16-byte load from shared memory, of one address for the whole warp, and the 13 instructions of the
// interaction. Unrolling removes the loop counter and the branch.
//
// COLUMNS: threads of the block along x. P of them, or 16 for Lee's blocks of 16 x 16, which number the threads in
// another way and change nothing else. STAGGER 1: each block begins at another tile, so that the blocks do not all read
// the same tile at the same time. The last tile is rarely full; the kernel counts its bodies instead of filling it up,
// because not every interaction has a body that adds nothing.
//
// Global loads per body: n / P, of one row each (gravity: 16 bytes). bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass); accelerations[i]: its sums; n rows each.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");
static_assert(P % COLUMNS == 0, "a block is made of whole rows of threads");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    tiled(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int thread = COLUMNS == P ? threadIdx.x : threadIdx.y * COLUMNS + threadIdx.x;
    const int i = blockIdx.x * P + thread;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {};
    for (int first = 0; first < n; first += P) {
        int begin = first;
        if (STAGGER) {
            begin += blockIdx.x * P;
            if (begin >= gridDim.x * P) begin -= gridDim.x * P;
        }
        if (begin + thread < n) tile[thread] = bodies[begin + thread];
        __syncthreads();
        if (n - begin >= P) {
#pragma unroll unroll
            for (int k = 0; k < P; ++k) interact(sums, self, tile[k], eps2);
        } else {
#pragma unroll 1
            for (int k = 0; k < n - begin; ++k) interact(sums, self, tile[k], eps2);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = sums;
}
