// Writes NaN. Planted by the tests.
extern "C" __global__ void gpu_nan(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                   real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    accelerations[i].ax = accelerations[i].ay = accelerations[i].az = 0.0f / (bodies[i].mass - bodies[i].mass);
}
