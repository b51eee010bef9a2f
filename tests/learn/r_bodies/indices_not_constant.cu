/* gravbench entry
# expected: the largest difference by pipe is on the load-store pipe
kernels:
  - {name: r_bodies, grid: 'ceil_div(n, P * R)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 128, R: 4, UNROLL: 8}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// A thread has R bodies, so that one body read from shared memory serves R interactions.

// Add to a what body j does to body i: x, y, z are a position, w is a mass.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

constexpr int unroll = UNROLL;

extern "C" __global__ void r_bodies(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                    float eps2) {
    __shared__ float4 tile[P];
    const int i = blockIdx.x * (P * R) + threadIdx.x;  // and i + P, i + 2 P, ...
    float4 self[R];
    float3 a[R] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) self[r] = bodies[min(i + r * P, n - 1)];
    for (int first = 0; first < n; first += P) {
        const int j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : float4{0, 0, 0, 0};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            const float4 other = tile[k];
#pragma unroll 1
            for (int r = 0; r < R; ++r) interact(a[r], self[r], other, eps2);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (i + r * P < n) accelerations[i + r * P] = {a[r].x, a[r].y, a[r].z, 0};
    }
}
