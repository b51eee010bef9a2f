// Accelerate bodies i by bodies j, two separate sets, with tiles of P bodies j in shared memory.
//
// Like tiled.cu, but for separate sets (as CUNBODY-1 is called), in the arrays that callers have. P threads per block,
// one per body i. Global loads per body i: 4 nj / P, of 4 bytes (8 in float64).
//
// xj: nj rows x, y, z; mj: nj masses; xi: ni rows x, y, z; a: accelerations of the bodies i, ni rows x, y, z.
extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    force_between(const real* __restrict__ xj, const real* __restrict__ mj, const real* __restrict__ xi,
                  real* __restrict__ a, int nj, int ni, real eps2) {
    __shared__ Body tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const size_t own = 3 * size_t(min(i, ni - 1));
    const Body self = {xi[own], xi[own + 1], xi[own + 2]};
    Sums sums = {};
    for (int first = 0; first < nj; first += P) {
        // Places of a tile beyond the last body have mass 0 and add nothing.
        const int j = first + threadIdx.x;
        const size_t row = 3 * size_t(j);
        tile[threadIdx.x] = j < nj ? Body{xj[row], xj[row + 1], xj[row + 2], mj[j]} : Body{};
        __syncthreads();
#pragma unroll 32
        for (int k = 0; k < P; ++k) interact(sums, self, tile[k], eps2);
        __syncthreads();
    }
    if (i < ni) {
        a[own] = sums.ax;
        a[own + 1] = sums.ay;
        a[own + 2] = sums.az;
    }
}
