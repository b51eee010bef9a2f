// Read a body, its position and mass together, with one 16-byte load.
//
// Against naive: the four arrays become one array of rows x, y, z, mass. Expected: a quarter of the load instructions
// moves the same bytes, and the issue slots that this frees go to the arithmetic.
//
// Global loads per body: n of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each. (The
// kernel is not called float4, which is the name of a type.)
extern "C" __global__ void float4_kernel(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                         real eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Body self = bodies[i];
    Sums sums = {};
    for (int j = 0; j < n; ++j) {
        interact(sums, self, bodies[j], eps2);
    }
    accelerations[i] = sums;
}
