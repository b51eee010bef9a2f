// Sum bags of another number of bodies than are pulled: a part of all per launch, another part in each.
//
// Against chamomile: the bags cover the bodies first to last - 1 instead of all, and the sum is multiplied by scale,
// the number of parts in a cycle. Expected: time falls in proportion to the part; where that is small, transfers and
// the launch are most of a call.
//
// Global loads per body: (last - first) / P, of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n
// rows each.
static_assert(J_BAG % UNROLL == 0, "unroll has to divide j_bag: the loop over a bag has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    chamomile_part(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2, int first,
                   int last, real scale) {
    __shared__ Body bag[J_BAG];
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = bodies[min(i, n - 1)];
    Sums backup = {};
    for (; first < last; first += J_BAG) {
        for (int k = threadIdx.x; k < J_BAG; k += P) {
            if (first + k < last) bag[k] = bodies[first + k];
        }
        __syncthreads();
        Sums current = {};
        if (last - first >= J_BAG) {
#pragma unroll unroll
            for (int k = 0; k < J_BAG; ++k) interact(current, self, bag[k], eps2);
        } else {
#pragma unroll 1
            for (int k = 0; k < last - first; ++k) interact(current, self, bag[k], eps2);
        }
        add(backup, current);
        __syncthreads();
    }
    if (i < n) accelerations[i] = Sums{scale * backup.ax, scale * backup.ay, scale * backup.az};
}
