// One thread a body; every thread reads every body from global memory, four separate arrays of numbers.
//
// The plain C loop over all pairs, its outer loop handed to threads. It is where the ladder starts, so nothing
// changed. Expected: the same address is read by a whole warp at once, so the caches serve it, but each interaction
// issues four loads. Loads from global memory a body: 4 n. x, y, z: positions; mass; ax, ay, az: accelerations;
// each of n numbers.
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
