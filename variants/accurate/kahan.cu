// Keep the rounding error of each addition and subtract it from the next (Kahan's compensated sum).
//
// Against tiled: beside each sum a thread keeps what rounding has lost from it. The next term starts from minus that
// loss, which costs nothing, because it is the addend of a fused multiply-add; three more additions per component add
// the term to the sum and compute the new loss. Expected: the error of one interaction, whatever the number of bodies,
// for 22 instructions per interaction instead of 13.
//
// Global loads per body: n / P of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
// Places of a tile beyond the last body have mass 0.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

__device__ __forceinline__ void compensate(real& sum, real& lost, real next) {
    const real larger = sum + next;
    lost = (larger - sum) - next;
    sum = larger;
}

extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, 2 * sizeof(Sums)))
    kahan(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int thread = threadIdx.x;
    const int i = blockIdx.x * P + thread;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {}, lost = {};
    for (int first = 0; first < n; first += P) {
        tile[thread] = first + thread < n ? bodies[first + thread] : Body{};
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < P; ++k) {
            Sums next = {-lost.ax, -lost.ay, -lost.az};
            interact(next, self, tile[k], eps2);
            compensate(sums.ax, lost.ax, next.ax);
            compensate(sums.ay, lost.ay, next.ay);
            compensate(sums.az, lost.az, next.az);
        }
        __syncthreads();
    }
    if (i < n) accelerations[i] = sums;
}
