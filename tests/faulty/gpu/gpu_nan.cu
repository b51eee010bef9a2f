// Writes NaN. Planted by the tests.
extern "C" __global__ void gpu_nan(const PosMass* __restrict__ bodies, PosMass* __restrict__ accelerations, int n,
                                   real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    accelerations[i].x = accelerations[i].y = accelerations[i].z = 0.0f / (bodies[i].mass - bodies[i].mass);
}
