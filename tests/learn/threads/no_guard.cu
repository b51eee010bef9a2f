/* gravbench entry
# expected: x has 1 row: no thread may use an index from n on (bounds)
kernels:
  - {name: threads, grid: 'ceil_div(n, P)', block: P, arguments: [x, y, z, mass, ax, ay, az, n, eps2]}
constants: {P: 256}
arrays: {x: x, y: y, z: z, mass: mass, ax: ax, ay: ay, az: az}
*/
// One thread for each body: thread i adds up what all bodies do to body i.

extern "C" __global__ void threads(const float* __restrict__ x, const float* __restrict__ y,
                                   const float* __restrict__ z, const float* __restrict__ mass, float* __restrict__ ax,
                                   float* __restrict__ ay, float* __restrict__ az, int n, float eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum_x = 0, sum_y = 0, sum_z = 0;
    for (int j = 0; j < n; ++j) {
        const float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
        const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
        const float strength = mass[j] * inverse * inverse * inverse;
        sum_x += strength * dx;
        sum_y += strength * dy;
        sum_z += strength * dz;
    }
    ax[i] = sum_x;
    ay[i] = sum_y;
    az[i] = sum_z;
}
