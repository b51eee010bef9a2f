/* gravbench entry
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
    // Your part: end the threads that have no body, add up what all bodies j contribute, and write ax[i], ay[i], az[i].
}
