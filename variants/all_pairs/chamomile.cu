// Sum the bodies of a bag in one register and the bags in another.
//
// Against tiled: the bodies staged in shared memory are a J-bag of any size; all i-bodies of the block work through it,
// each in a current sum, which is then added to a backup sum and set back to zero. Expected: the speed of tiled, less
// three additions a bag, and a rounding error that grows with the length of a bag and with the number of bags instead
// of with n. Loads from global memory a body: n / P of 16 bytes. bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass); accelerations[i]: its sums; each of n rows.
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
