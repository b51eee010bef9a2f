// Stage a tile of P bodies in shared memory, which all P threads of the block then read.
//
// Against float4: a block loads each body once and its P threads share it, so loads from global memory fall by P;
// the loop over the tile has a constant length and is unrolled by UNROLL. Expected: the inner loop is left with one
// 16-byte load from shared memory, the same address for the whole warp, and the 13 instructions of the interaction;
// unrolling removes the counter and the branch. COLUMNS threads of the block lie along x: P of them, or 16 for Lee's
// 16 x 16 blocks, which changes how threads are numbered and nothing else. With STAGGER each block begins at another
// tile, so that blocks do not all ask for the same one. Loads from global memory a body: n / P of 16 bytes.
// bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; each of n rows.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");
static_assert(P % COLUMNS == 0, "a block is made of whole rows of threads");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P)
    tiled(const PosMass* __restrict__ bodies, PosMass* __restrict__ accelerations, int n, real eps2) {
    __shared__ PosMass tile[P];
    const int thread = COLUMNS == P ? threadIdx.x : threadIdx.y * COLUMNS + threadIdx.x;
    const int i = blockIdx.x * P + thread;
    const PosMass self = bodies[min(i, n - 1)];
    Acceleration a = {0, 0, 0};
    for (int first = 0; first < n; first += P) {
        int begin = first;
        if (STAGGER) {
            begin += blockIdx.x * P;
            if (begin >= gridDim.x * P) begin -= gridDim.x * P;
        }
        // Beyond the last body a tile is filled with bodies without mass, which pull nobody.
        const int j = begin + thread;
        tile[thread] = j < n ? bodies[j] : PosMass{0, 0, 0, 0};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            const PosMass other = tile[k];
            interact(a, self.x, self.y, self.z, other.x, other.y, other.z, other.mass, eps2);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = PosMass{a.x, a.y, a.z, 0};
}
