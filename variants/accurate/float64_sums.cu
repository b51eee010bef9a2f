// Compute interactions in float32 and add them up in float64.
//
// Against tiled: the terms of BATCH bodies are added in float32, and each such sum is added to a sum in float64.
// Expected: with BATCH 1 the error of the interactions alone, at the cost of three conversions and three float64
// additions per interaction, which run on fewer units than float32, on most devices on very few. A larger BATCH divides
// that cost and adds the rounding error of a sum of BATCH terms.
//
// Global loads per body: n / P of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
// Places of a tile beyond the last body have mass 0.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");
static_assert(UNROLL % BATCH == 0, "batch has to divide unroll");

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, 2 * sizeof(Sums)))
    float64_sums(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int thread = threadIdx.x;
    const int i = blockIdx.x * P + thread;
    const Body self = bodies[min(i, n - 1)];
    double ax = 0, ay = 0, az = 0;
    for (int first = 0; first < n; first += P) {
        tile[thread] = first + thread < n ? bodies[first + thread] : Body{};
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < P; k += UNROLL) {
#pragma unroll
            for (int batch = k; batch < k + UNROLL; batch += BATCH) {
                Sums sums = {};
#pragma unroll
                for (int step = 0; step < BATCH; ++step) interact(sums, self, tile[batch + step], eps2);
                ax += sums.ax;
                ay += sums.ay;
                az += sums.az;
            }
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = Sums{static_cast<real>(ax), static_cast<real>(ay), static_cast<real>(az)};
}
