// Let Q threads share the work on one body, and add up their sums.
//
// Against tiled: a block has P * Q threads for P bodies. A tile holds P * Q bodies; thread (x, y) works on the y-th
// part of it for body x, and the Q sums of a body are added in shared memory at the end. Expected: faster at small N,
// because Q times as many threads per body hide latencies; no gain where N alone fills the device.
//
// Global loads per body: n / P of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a thread's part of a tile has no remainder");
static_assert(P * Q <= 1024, "p * q threads have to fit into a block");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P* Q, resident_blocks(P* Q, sizeof(Sums)))
    split(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P * Q];
    const int thread = threadIdx.y * P + threadIdx.x;
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = bodies[min(i, n - 1)];
    const Body* part = tile + threadIdx.y * P;
    Sums sums = {};
    for (int first = 0; first < n; first += P * Q) {
        const int j = first + thread;
        tile[thread] = j < n ? bodies[j] : Body{};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            interact(sums, self, part[k], eps2);
        }
        __syncthreads();
    }
    tile[thread] = Body{sums.ax, sums.ay, sums.az, 0};
    __syncthreads();
    if (threadIdx.y == 0 && i < n) {
        for (int y = 1; y < Q; ++y) {
            const Body others = tile[y * P + threadIdx.x];
            add(sums, Sums{others.x, others.y, others.z});
        }
        accelerations[i] = sums;
    }
}
