// Pull by a window of the bodies only, another window each step, read from global memory.
//
// Against float4: a step sums over the bodies from first to last and multiplies by scale = n / window, so that the mean
// over a whole cycle of windows is the exact sum. Expected: time falls with the window, and so does what is computed;
// an interaction is not cheaper. Loads from global memory a body: the window, of 16 bytes. bodies[i] = x, y, z, mass;
// accelerations[i] = x, y, z, 0; each of n rows.
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
