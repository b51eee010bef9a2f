// Stage a tile of P bodies in shared memory, which all P threads of the block then read.
//
// Against float4: a block loads each body once and its P threads share it, so loads from global memory fall by P;
// the loop over the tile has a constant length and is unrolled by UNROLL. Expected: the inner loop is left with one
// 16-byte load from shared memory, the same address for the whole warp, and the 13 instructions of the interaction;
// unrolling removes the counter and the branch. COLUMNS threads of the block lie along x: P of them, or 16 for Lee's
// 16 x 16 blocks, which changes how threads are numbered and nothing else. With STAGGER each block begins at another
// tile, so that blocks do not all ask for the same one. Loads from global memory a body: n / P of 16 bytes.
// The last tile is rarely full; its bodies are counted, because not every interaction has bodies that do nothing.
// bodies[i]: what the interaction reads of a body (gravity: x, y, z, mass); accelerations[i]: its sums; each of n rows.
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
