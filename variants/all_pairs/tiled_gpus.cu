// Deal the rows of tiled out over the GPUs of a host: each computes the accelerations of its part of the bodies.
//
// Against tiled: a GPU has all bodies and computes rows first <= i < last alone. Expected: 1 / gpus of the time as long
// as the rows of a GPU fill its multiprocessors, less a copy of n rows of bodies to each GPU and of its rows of sums
// back.
//
// Global loads per body: n / P, of one row each (gravity: 16 bytes). bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass), n rows; accelerations[i - first]: its sums, last - first rows.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    tiled_gpus(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2, int first,
               int last) {
    __shared__ Body tile[P];
    const int thread = threadIdx.x;
    const int i = first + blockIdx.x * P + thread;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {};
    for (int begin = 0; begin < n; begin += P) {
        const int other = begin + thread;
        if (other < n) tile[thread] = bodies[other];
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
    if (i < last) accelerations[i - first] = sums;
}
