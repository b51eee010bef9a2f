/* gravbench entry
# expected: something is read that was not written
kernels:
  - {name: block_size, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 64, TILE: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// P threads load tiles of TILE bodies: 8 warps and 4 KiB of shared memory for a block leave room for many blocks.

// Add to a what body j does to body i: x, y, z are a position, w is a mass.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

extern "C" __global__ void block_size(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                      float eps2) {
    __shared__ float4 tile[TILE];
    const int i = blockIdx.x * P + threadIdx.x;
    const float4 self = bodies[min(i, n - 1)];
    float3 a = {0, 0, 0};
    for (int first = 0; first < n; first += TILE) {
        const int count = min(TILE, n - first);
        if (threadIdx.x < count) tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < count; ++k) interact(a, self, tile[k], eps2);
        __syncthreads();
    }
    if (i < n) accelerations[i] = {a.x, a.y, a.z, 0};
}
