// What GPUs that share an evaluation do before and after their pairs. Each has bodies and sums of its own; what is on
// another one is read through peer access.

#ifdef KERNEL_begin_share
// Bring the bodies here, unless they are, and clear the sums: `copies` places for each of n bodies.
extern "C" __global__ void __launch_bounds__(P)
    begin_share(Body* own, const Body* there, Sums* __restrict__ sums, int n, int copies) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    if (own != there) own[i] = there[i];
    for (int copy = 0; copy < copies; ++copy) sums[static_cast<long long>(copy) * n + i] = Sums{};
}
#endif

#ifdef KERNEL_add_shares
// The sums of a body as they are in memory. All four are added up, so that a row is one load, also over a link: the
// last is zero.
struct __align__(16) Four {
    real x, y, z, w;
};
static_assert(sizeof(Four) == sizeof(Sums), "the sums of gravity");

// Add up the sums of SHARES devices, at most eight, in the order of these.
extern "C" __global__ void __launch_bounds__(P)
    add_shares(Four* __restrict__ accelerations, int n, int copies, const Four* share_0, const Four* share_1,
               const Four* share_2, const Four* share_3, const Four* share_4, const Four* share_5, const Four* share_6,
               const Four* share_7) {
    const Four* const shares[8] = {share_0, share_1, share_2, share_3, share_4, share_5, share_6, share_7};
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    Four total = {};
    for (int copy = 0; copy < copies; ++copy) {
#pragma unroll
        for (int share = 0; share < SHARES; ++share) {
            const Four one = shares[share][static_cast<long long>(copy) * n + i];
            total.x += one.x;
            total.y += one.y;
            total.z += one.z;
            total.w += one.w;
        }
    }
    accelerations[i] = total;
}
#endif
