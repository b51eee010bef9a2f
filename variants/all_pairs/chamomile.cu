// Sum the bodies of a bag in one register and the bags in another.
//
// Against tiled: the bodies staged in shared memory are a J-bag of any size; all i-bodies of the block work through it,
// each in a current sum, which is then added to a backup sum and set back to zero. Expected: the speed of tiled, less
// three additions a bag, and a rounding error that grows with the length of a bag and with the number of bags instead
// of with n. Loads from global memory a body: n / P of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] =
// x, y, z, 0; each of n rows.
static_assert(J_BAG % UNROLL == 0, "unroll has to divide j_bag: the loop over a bag has no remainder");

constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma

extern "C" __global__ void __launch_bounds__(P)
    chamomile(const PosMass* __restrict__ bodies, PosMass* __restrict__ accelerations, int n, real eps2) {
    __shared__ PosMass bag[J_BAG];
    const int i = blockIdx.x * P + threadIdx.x;
    const PosMass self = bodies[min(i, n - 1)];
    Acceleration backup = {0, 0, 0};
    for (int first = 0; first < n; first += J_BAG) {
        for (int k = threadIdx.x; k < J_BAG; k += P) {
            const int j = first + k;
            bag[k] = j < n ? bodies[j] : PosMass{0, 0, 0, 0};
        }
        __syncthreads();
        Acceleration current = {0, 0, 0};
#pragma unroll unroll
        for (int k = 0; k < J_BAG; ++k) {
            const PosMass other = bag[k];
            interact(current, self.x, self.y, self.z, other.x, other.y, other.z, other.mass, eps2);
        }
        backup.x += current.x;
        backup.y += current.y;
        backup.z += current.z;
        __syncthreads();
    }
    if (i < n) accelerations[i] = PosMass{backup.x, backup.y, backup.z, 0};
}
