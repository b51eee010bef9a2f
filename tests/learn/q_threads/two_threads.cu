/* gravbench entry
# expected: 2 threads per body where split has 8
kernels:
  - {name: q_threads, grid: 'ceil_div(n, P)', block: [P, Q], arguments: [bodies, accelerations, n, eps2]}
constants: {P: 64, Q: 2, UNROLL: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// Q threads share the work on one body: each adds up its part of every tile, and the first joins their Q sums.

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

extern "C" __global__ void q_threads(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                     float eps2) {
    __shared__ float4 tile[P * Q];
    const int thread = threadIdx.y * P + threadIdx.x;
    const int i = blockIdx.x * P + threadIdx.x;  // the Q threads with the same x have the same body
    const float4 self = bodies[min(i, n - 1)];
    const float4* part = tile + threadIdx.y * P;
    float3 a = {0, 0, 0};
    for (int first = 0; first < n; first += P * Q) {
        const int j = first + thread;
        tile[thread] = j < n ? bodies[j] : float4{0, 0, 0, 0};  // a body without mass adds nothing
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) interact(a, self, part[k], eps2);
        __syncthreads();
    }
    tile[thread] = {a.x, a.y, a.z, 0};
    __syncthreads();
    if (threadIdx.y == 0 && i < n) {
        for (int y = 1; y < Q; ++y) {
            const float4 other = tile[y * P + threadIdx.x];
            a.x += other.x;
            a.y += other.y;
            a.z += other.z;
        }
        accelerations[i] = {a.x, a.y, a.z, 0};
    }
}
