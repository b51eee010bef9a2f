// What GPUs that share an evaluation do before and after their pairs. Each has bodies and sums of its own; what is on
// another one is read through peer access. KERNEL: which of the two is compiled.
#if KERNEL == 3
// Bring the bodies here, unless they are, and clear the sums: `copies` places for each of n bodies.
extern "C" __global__ void __launch_bounds__(P)
    begin_share(Body* own, const Body* there, Sums* __restrict__ sums, int n, int copies) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    if (own != there) own[i] = there[i];
    for (int copy = 0; copy < copies; ++copy) sums[static_cast<long long>(copy) * n + i] = Sums{};
}
#else
// Add up the sums of SHARES devices, at most eight, in the order of these.
extern "C" __global__ void __launch_bounds__(P)
    add_shares(Sums* __restrict__ accelerations, int n, int copies, const Sums* share_0, const Sums* share_1,
               const Sums* share_2, const Sums* share_3, const Sums* share_4, const Sums* share_5, const Sums* share_6,
               const Sums* share_7) {
    const Sums* const shares[8] = {share_0, share_1, share_2, share_3, share_4, share_5, share_6, share_7};
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    Sums total = {};
    for (int copy = 0; copy < copies; ++copy) {
#pragma unroll
        for (int share = 0; share < SHARES; ++share) add(total, shares[share][static_cast<long long>(copy) * n + i]);
    }
    accelerations[i] = total;
}
#endif
