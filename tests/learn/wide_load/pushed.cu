/* gravbench entry
# expected: the sign is wrong: bodies are pushed instead of pulled
kernels:
  - {name: wide_load, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// A body is one row of x, y, z and mass, and one load of 16 bytes reads it.

// Add to a what body j does to body i: x, y, z are a position, w is a mass.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = i.x - j.x, dy = i.y - j.y, dz = i.z - j.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

extern "C" __global__ void wide_load(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                     float eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 self = bodies[i];
    float3 a = {0, 0, 0};
    for (int j = 0; j < n; ++j) interact(a, self, bodies[j], eps2);
    accelerations[i] = {a.x, a.y, a.z, 0};
}
