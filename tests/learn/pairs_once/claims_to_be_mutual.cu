/* gravbench entry
# expected: the head says mutual, but
kernels:
  - {name: clear, grid: 'ceil_div(n, 256)', block: 256, arguments: [accelerations, n]}
  - {name: pairs_once, grid: ['ceil_div(n, 32 * R)', PARTS], block: 32, arguments: [bodies, accelerations, n, eps2]}
constants: {R: 8, PARTS: 64}
arrays: {bodies: bodies, accelerations: accelerations}
mutual: true
*/
// A block is one warp. It keeps 32 * R bodies, R in each lane, and partners come in groups of 32 that travel around the
// lanes: after 32 steps each partner has met all of them. This kernel computes each pair twice, once for either body.
// Your part: compute it once, and add it to both.

extern "C" __global__ void clear(float4* accelerations, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) accelerations[i] = {0, 0, 0, 0};
}

// Add to a what body j does to body i. Your part: add to both what they do to each other.
__device__ void interact(float3& a, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float strength = j.w * inverse * inverse * inverse;
    a.x += strength * dx;
    a.y += strength * dy;
    a.z += strength * dz;
}

// The body of lane + 1: all lanes pass theirs on at the same time. Your part: its sums, too.
__device__ void pass_on(float4& body) {
    const unsigned all = 0xffffffff;
    const int next = (threadIdx.x + 1) % 32;
    body = {__shfl_sync(all, body.x, next), __shfl_sync(all, body.y, next), __shfl_sync(all, body.z, next),
            __shfl_sync(all, body.w, next)};
}

// A place without a body has a body without mass.
__device__ float4 body_at(const float4* bodies, int i, int n) {
    return i < n ? bodies[i] : float4{0, 0, 0, 0};
}

// Several warps add to the same row.
__device__ void add_to(float4* accelerations, int i, int n, float3 sums) {
    if (i >= n) return;
    atomicAdd(&accelerations[i].x, sums.x);
    atomicAdd(&accelerations[i].y, sums.y);
    atomicAdd(&accelerations[i].z, sums.z);
}

// The blocks of bodies form a ring, and each meets all of them, itself included. Your part: half of the ring is enough.
// blockIdx.y shares the groups of a block among PARTS warps.
extern "C" __global__ void pairs_once(const float4* __restrict__ bodies, float4* accelerations, int n, float eps2) {
    const int block = blockIdx.x, blocks = gridDim.x;
    const int others = blocks - 1;
    float4 own[R];
    float3 a[R] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) own[r] = body_at(bodies, (block * R + r) * 32 + threadIdx.x, n);
    for (int group = blockIdx.y; group < (1 + others) * R; group += PARTS) {
        const int place = (block * R + group) % (blocks * R) * 32 + threadIdx.x;
        float4 partner = body_at(bodies, place, n);
#pragma unroll 4
        for (int step = 0; step < 32; ++step) {
#pragma unroll
            for (int r = 0; r < R; ++r) interact(a[r], own[r], partner, eps2);
            pass_on(partner);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) add_to(accelerations, (block * R + r) * 32 + threadIdx.x, n, a[r]);
}
