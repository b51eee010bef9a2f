// Writes far outside of its array. Planted by the tests.
extern "C" __global__ void gpu_illegal_address(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                               real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    accelerations[(long long)i + (1LL << 40)] = Sums{bodies[i].x};
}
