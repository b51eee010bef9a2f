/* gravbench entry
# expected: issue slots per interaction where chamomile takes 14.19
kernels:
  - {name: batched_sums, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256, BATCH: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The terms of a batch have a sum of their own, which is added to the total when the batch is done.

// Add to a what body j does to body i: x, y, z are a position, w is a mass.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

extern "C" __global__ void batched_sums(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int n,
                                        float eps2) {
    __shared__ float4 tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const float4 self = bodies[min(i, n - 1)];
    float3 total = {0, 0, 0};
    for (int first = 0; first < n; first += P) {
        const int j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : float4{0, 0, 0, 0};
        __syncthreads();
        for (int begin = 0; begin < P; begin += BATCH) {
            float3 batch = {0, 0, 0};
#pragma unroll 1
            for (int k = 0; k < BATCH; ++k) interact(batch, self, tile[begin + k], eps2);
            total.x += batch.x;
            total.y += batch.y;
            total.z += batch.z;
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = {total.x, total.y, total.z, 0};
}
