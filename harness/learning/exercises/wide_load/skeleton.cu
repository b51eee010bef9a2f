/* gravbench entry
kernels:
  - {name: wide_load, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The rows of bodies are x, y, z and mass. This kernel reads a row with four loads. Your part: read it with one.

extern "C" __global__ void wide_load(const float* __restrict__ bodies, float* __restrict__ accelerations, int n,
                                     float eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2];
    float ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; ++j) {
        const float dx = bodies[4 * j] - x, dy = bodies[4 * j + 1] - y, dz = bodies[4 * j + 2] - z;
        const float mass = bodies[4 * j + 3];
        const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
        const float strength = mass * inverse * inverse * inverse;
        ax += strength * dx;
        ay += strength * dy;
        az += strength * dz;
    }
    accelerations[4 * i] = ax;
    accelerations[4 * i + 1] = ay;
    accelerations[4 * i + 2] = az;
}
