// Walk the tree on the GPUs of a host, each of which builds it for itself and walks for its share of the bodies.
//
// Against resident_tree: groups of bodies that are neighbours take turns among the GPUs, so that all have as many from
// the dense parts. Before it each GPU reads the bodies and the lengths of the last accelerations of the first one
// (begin_share, a copy), and clears its own accelerations; after it the first adds up those of all, of which one per
// body is not zero (add_shares), and finds their lengths (last_lengths). Expected: 1 / gpus of the time of the walk,
// the whole time of the build, and some 50 microseconds for the transfers and their events.
//
// Shapes and units as in resident_tree.
#include "resident_tree.cu"
#include "several.cuh"

#ifdef KERNEL_last_lengths
extern "C" __global__ void __launch_bounds__(P)
    last_lengths(const Sums* __restrict__ accelerations, real* __restrict__ last, int n) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    const Sums own = accelerations[i];
    last[i] = sqrt(own.ax * own.ax + (own.ay * own.ay + own.az * own.az));
}
#endif
