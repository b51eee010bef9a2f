/* gravbench entry
# expected: rsqrtf(x) takes one instruction where a square root and a division take many
kernels:
  - {name: unrolling, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256, UNROLL: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The loop over a full tile has a constant length and is unrolled; the last tile has a loop of its own.

// Add to a what body j does to body i: x, y, z are a position, w is a mass.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = 1 / sqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

constexpr int unroll = UNROLL;

extern "C" __global__ void unrolling(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                     float eps2) {
    __shared__ float4 tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const float4 self = bodies[min(i, n - 1)];
    float3 a = {0, 0, 0};
    for (int first = 0; first < n; first += P) {
        const int j = first + threadIdx.x;
        if (j < n) tile[threadIdx.x] = bodies[j];
        __syncthreads();
        if (n - first >= P) {
#pragma unroll unroll
            for (int k = 0; k < P; ++k) interact(a, self, tile[k], eps2);
        } else {
#pragma unroll 1
            for (int k = 0; k < n - first; ++k) interact(a, self, tile[k], eps2);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = {a.x, a.y, a.z, 0};
}
