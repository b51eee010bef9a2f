// Read a body, its position and mass together, with one 16-byte load.
//
// Against naive: the four arrays become one of x, y, z, mass. Expected: a quarter of the load instructions for the
// same bytes, and what the load unit no longer issues the arithmetic can. Loads from global memory a body: n of
// 16 bytes. (float4 alone is the name of a type.) bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; each of n
// rows.
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
