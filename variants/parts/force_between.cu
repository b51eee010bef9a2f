// Sum the pulls of bodies j on bodies i, two sets of their own; tiles of P bodies j in shared memory.
//
// As tiled.cu, but with separate sets (the shape of CUNBODY-1's call) in the arrays that callers have: xj: nj rows x,
// y, z; mj: nj masses; xi: ni rows x, y, z; a: accelerations of the bodies i, ni rows x, y, z. P threads a block, one
// a body i. Loads from global memory a body i: 4 nj / P.
extern "C" __global__ void __launch_bounds__(P)
    force_between(const real* __restrict__ xj, const real* __restrict__ mj, const real* __restrict__ xi,
                  real* __restrict__ a, int nj, int ni, real eps2) {
    __shared__ PosMass tile[P];
    const int i = blockIdx.x * P + threadIdx.x;
    const size_t own = 3 * size_t(min(i, ni - 1));
    const real x = xi[own], y = xi[own + 1], z = xi[own + 2];
    Acceleration sum = {0, 0, 0};
    for (int first = 0; first < nj; first += P) {
        // Beyond the last body a tile is filled with bodies without mass, which pull nobody.
        const int j = first + threadIdx.x;
        const size_t row = 3 * size_t(j);
        tile[threadIdx.x] = j < nj ? PosMass{xj[row], xj[row + 1], xj[row + 2], mj[j]} : PosMass{0, 0, 0, 0};
        __syncthreads();
#pragma unroll 32
        for (int k = 0; k < P; ++k) {
            const PosMass other = tile[k];
            interact(sum, x, y, z, other.x, other.y, other.z, other.mass, eps2);
        }
        __syncthreads();
    }
    if (i < ni) {
        a[own] = sum.x;
        a[own + 1] = sum.y;
        a[own + 2] = sum.z;
    }
}
