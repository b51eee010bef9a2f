/* gravbench entry
# expected: in the next turn of the loop without a barrier between them (race)
kernels:
  - {name: tiles, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The threads of a block load a tile of P bodies into shared memory, one each, and then read it P times.

// Add to a what body j does to body i: x, y, z are a position, w is a mass.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

extern "C" __global__ void tiles(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                 float eps2) {
    __shared__ float4 tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const float4 self = bodies[min(i, n - 1)];  // all threads of the block load tiles: none may leave
    float3 a = {0, 0, 0};
    for (int first = 0; first < n; first += P) {
        const int j = first + threadIdx.x;
        if (j < n) tile[threadIdx.x] = bodies[j];
        __syncthreads();  // the tile is complete
        const int count = min(P, n - first);
        for (int k = 0; k < count; ++k) interact(a, self, tile[k], eps2);
    }
    if (i < n) accelerations[i] = {a.x, a.y, a.z, 0};
}
