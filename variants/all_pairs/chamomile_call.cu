// Sum in bags for the bodies of one call, with the sums between bags in a register or in global memory.
//
// Against chamomile: the bodies that are pulled are an array of their own, as in the source's force(xj, mj, xi, eps2,
// a, ni, nj). IN_MEMORY 1: between two bags the sum over all earlier ones is in global memory, as the source prints the
// scheme: a thread reads it there, adds the bag's sum, and writes it back. Expected: n / J_BAG reads and writes of 16
// bytes per body more, one for J_BAG interactions, which the interactions of other warps hide.
//
// Global loads per body: n / P bodies and, with IN_MEMORY 1, n / J_BAG - 1 sums, of 16 bytes. pulled[i] and bodies[j]:
// x, y, z, mass, ni and nj rows; accelerations[i] = x, y, z, 0, ni rows.
static_assert(J_BAG % UNROLL == 0, "unroll has to divide j_bag: the loop over a bag has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    chamomile_call(const Body* __restrict__ pulled, const Body* __restrict__ bodies, Sums* accelerations, int ni,
                   int nj, real eps2) {
    __shared__ Body bag[J_BAG];
    const int i = blockIdx.x * P + threadIdx.x;
    const Body self = pulled[min(i, ni - 1)];
    Sums backup = {};
    for (int first = 0; first < nj; first += J_BAG) {
        for (int k = threadIdx.x; k < J_BAG; k += P) {
            if (first + k < nj) bag[k] = bodies[first + k];
        }
        __syncthreads();
        Sums current = {};
        if (nj - first >= J_BAG) {
#pragma unroll unroll
            for (int k = 0; k < J_BAG; ++k) interact(current, self, bag[k], eps2);
        } else {
#pragma unroll 1
            for (int k = 0; k < nj - first; ++k) interact(current, self, bag[k], eps2);
        }
        if (IN_MEMORY && first > 0 && i < ni) backup = accelerations[i];
        add(backup, current);
        if (IN_MEMORY && i < ni) accelerations[i] = backup;
        __syncthreads();
    }
    if (!IN_MEMORY && i < ni) accelerations[i] = backup;
}
