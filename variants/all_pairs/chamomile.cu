// Sum the bodies of a bag in one register, and the sums of the bags in another.
//
// Against tiled: the bodies staged in shared memory are a J-bag of any size. All i-bodies of the block interact with it
// and add to a current sum, which is then added to a backup sum and cleared. Expected: the speed of tiled, less three
// additions per bag and body, and a smaller rounding error, because it grows with the length of a bag and the number of
// bags instead of n.
//
// Global loads per body: n / P, of one row each (gravity: 16 bytes). bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass); accelerations[i]: its sums; n rows each.
static_assert(J_BAG % UNROLL == 0, "unroll has to divide j_bag: the loop over a bag has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    chamomile(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body bag[J_BAG];
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = bodies[min(i, n - 1)];
    Sums backup = {};
    for (int first = 0; first < n; first += J_BAG) {
        for (int k = threadIdx.x; k < J_BAG; k += P) {
            if (first + k < n) bag[k] = bodies[first + k];
        }
        __syncthreads();
        Sums current = {};
        if (n - first >= J_BAG) {
#pragma unroll unroll
            for (int k = 0; k < J_BAG; ++k) interact(current, self, bag[k], eps2);
        } else {
#pragma unroll 1
            for (int k = 0; k < n - first; ++k) interact(current, self, bag[k], eps2);
        }
        add(backup, current);
        __syncthreads();
    }
    if (i < n) accelerations[i] = backup;
}
