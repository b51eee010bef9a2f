// Writes positions where accelerations belong, very fast. Planted by the tests.
extern "C" __global__ void gpu_wrong(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                     real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    accelerations[i] = Sums{bodies[i].x, bodies[i].y, bodies[i].z};
}
