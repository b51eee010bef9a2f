// One thread per body; each thread reads all bodies from four arrays in global memory.
//
// The plain C loop over all pairs, with its outer loop spread over threads. It is the start of the ladder, so it has no
// parent. Expected: all threads of a warp read the same address at the same time, so the caches serve it, but each
// interaction issues four loads.
//
// Global loads per body: 4 n, of 4 bytes (8 in float64). x, y, z: positions; mass; ax, ay, az: accelerations; each an
// array of n numbers.
extern "C" __global__ void naive(const real* __restrict__ x, const real* __restrict__ y, const real* __restrict__ z,
                                 const real* __restrict__ mass, real* __restrict__ ax, real* __restrict__ ay,
                                 real* __restrict__ az, int n, real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Body self = {x[i], y[i], z[i], mass[i]};
    Sums sums = {};
    for (int j = 0; j < n; ++j) {
        interact(sums, self, Body{x[j], y[j], z[j], mass[j]}, eps2);
    }
    ax[i] = sums.ax;
    ay[i] = sums.ay;
    az[i] = sums.az;
}
