// Sum the pulls of bodies j on bodies i, two sets of their own; tiles of P bodies j in shared memory.
//
// As tiled.cu, but with separate sets (the shape of CUNBODY-1's call) in the arrays that callers have: xj: nj rows x,
// y, z; mj: nj masses; xi: ni rows x, y, z; a: accelerations of the bodies i, ni rows x, y, z. P threads a block, one
// a body i. Loads from global memory a body i: 4 nj / P.
extern "C" __global__ void __launch_bounds__(P, resident_blocks(P, sizeof(Sums)))
    force_between(const real* __restrict__ xj, const real* __restrict__ mj, const real* __restrict__ xi,
                  real* __restrict__ a, int nj, int ni, real eps2) {
    __shared__ Body tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const size_t own = 3 * size_t(min(i, ni - 1));
    const Body self = {xi[own], xi[own + 1], xi[own + 2]};
    Sums sums = {};
    for (int first = 0; first < nj; first += P) {
        // Beyond the last body a tile is filled with bodies without mass, which pull nobody.
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
