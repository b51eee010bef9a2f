/* gravbench entry
# expected: the largest difference by pipe is on the load-store pipe
kernels:
  - {name: clear, grid: 'ceil_div(n, 256)', block: 256, arguments: [accelerations, n]}
  - {name: pairs_once, grid: ['ceil_div(n, 32 * R)', PARTS], block: 32, arguments: [bodies, accelerations, n, eps2]}
constants: {R: 1, PARTS: 64}
arrays: {bodies: bodies, accelerations: accelerations}
mutual: true
*/
// Each pair is computed once and added to both bodies. A block is one warp. It keeps 32 * R bodies, R in each lane, and
// partners come in groups of 32 that travel around the lanes: after 32 steps each partner has met all of them.

extern "C" __global__ void clear(float4* accelerations, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) accelerations[i] = {0, 0, 0, 0};
}

// Add what bodies i and j do to each other: one distance and one square root for both.
__device__ void interact_both(float3& of_i, float3& of_j, float4 i, float4 j, float eps2) {
    const float dx = j.x - i.x, dy = j.y - i.y, dz = j.z - i.z;
    const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));
    const float cube = inverse * inverse * inverse;
    const float on_i = cube * j.w, on_j = cube * i.w;
    of_i.x += on_i * dx;
    of_i.y += on_i * dy;
    of_i.z += on_i * dz;
    of_j.x -= on_j * dx;
    of_j.y -= on_j * dy;
    of_j.z -= on_j * dz;
}

// The body of lane + 1, and its sums: all lanes pass theirs on at the same time.
__device__ void pass_on(float4& body, float3& sums) {
    const unsigned all = 0xffffffff;
    const int next = (threadIdx.x + 1) % 32;
    body = {__shfl_sync(all, body.x, next), __shfl_sync(all, body.y, next), __shfl_sync(all, body.z, next),
            __shfl_sync(all, body.w, next)};
    sums = {__shfl_sync(all, sums.x, next), __shfl_sync(all, sums.y, next), __shfl_sync(all, sums.z, next)};
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

// The blocks of bodies form a ring. Each meets itself and the half of the ring behind it, so that two blocks meet once.
// blockIdx.y shares the groups of a block among PARTS warps.
extern "C" __global__ void pairs_once(const float4* __restrict__ bodies, float4* accelerations, int n, float eps2) {
    const int block = blockIdx.x, blocks = gridDim.x;
    // Of two blocks that are opposite each other, the first has the pair.
    const int others = (blocks - 1) / 2 + (blocks % 2 == 0 && block < blocks / 2);
    float4 own[R];
    float3 a[R] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) own[r] = body_at(bodies, (block * R + r) * 32 + threadIdx.x, n);
    for (int group = blockIdx.y; group < (1 + others) * R; group += PARTS) {
        const int place = (block * R + group) % (blocks * R) * 32 + threadIdx.x;
        float4 partner = body_at(bodies, place, n);
        float3 b = {0, 0, 0};
#pragma unroll 4
        for (int step = 0; step < 32; ++step) {
#pragma unroll
            for (int r = 0; r < R; ++r) interact_both(a[r], b, own[r], partner, eps2);
            pass_on(partner, b);
        }
        // The partner is home again. In its own block each pair comes twice, and one side is enough.
        if (group >= R) add_to(accelerations, place, n, b);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) add_to(accelerations, (block * R + r) * 32 + threadIdx.x, n, a[r]);
}
