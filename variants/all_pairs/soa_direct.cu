// One thread per body over separate arrays, in the plane (DIM 2) or in space (DIM 3).
//
// Against naive: the same loop, but in the plane it neither loads nor subtracts z, and adds nothing along z. Expected:
// in space the speed of naive; in the plane faster, with a quarter fewer loads and 15 of the 20 FLOPs.
//
// Global loads per body: (DIM + 1) n, of 4 bytes (8 in float64). x, y, z: positions; mass; ax, ay, az: accelerations;
// each an array of n numbers. In the plane z is not read and az is not written.
extern "C" __global__ void soa_direct(const real* __restrict__ x, const real* __restrict__ y,
                                      const real* __restrict__ z, const real* __restrict__ mass, real* __restrict__ ax,
                                      real* __restrict__ ay, real* __restrict__ az, int n, real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Body self = {x[i], y[i], DIM == 3 ? z[i] : 0, mass[i]};
    Sums sums = {};
    for (int j = 0; j < n; ++j) {
        interact(sums, self, Body{x[j], y[j], DIM == 3 ? z[j] : 0, mass[j]}, eps2);
    }
    ax[i] = sums.ax;
    ay[i] = sums.ay;
    if (DIM == 3) az[i] = sums.az;
}
