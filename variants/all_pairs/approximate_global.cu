// Sum over a window of the bodies only, another window in each step, read from global memory.
//
// Against float4: a step sums over the bodies first to last - 1 and multiplies the sum by scale, the number of windows
// in a cycle, so that the mean over a whole cycle of windows is the exact sum. Expected: time falls in proportion to
// the window, and so does the number of interactions computed; an interaction is not cheaper.
//
// Global loads per body: the length of the window, of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z,
// 0; n rows each.
extern "C" __global__ void approximate_global(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n,
                                              real eps2, int first, int last, real scale) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Body self = bodies[i];
    Sums sums = {};
    for (int j = first; j < last; ++j) {
        interact(sums, self, bodies[j], eps2);
    }
    accelerations[i] = Sums{scale * sums.ax, scale * sums.ay, scale * sums.az};
}
