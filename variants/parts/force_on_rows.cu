// Accelerate some bodies by all bodies j, in float64.
//
// positions: n rows x, y, z of the bodies j; masses: n; pulled: count rows x, y, z. result: for each of the slices
// count rows of three numbers, sums over its share of the bodies j; their total is the acceleration.
//
// A block of P threads has ROWS bodies and one slice: each thread adds up every P-th body of it for all of them.
// Global loads per body that is pulled: 4 n / ROWS, of 8 bytes.
extern "C" __global__ void __launch_bounds__(P)
    force_on_rows(const real* __restrict__ positions, const real* __restrict__ masses, const real* __restrict__ pulled,
                  real* __restrict__ result, int n, int count, int slices, real eps2) {
    __shared__ Sums shares[P];
    const int groups = (count + ROWS - 1) / ROWS;
    const int first_row = blockIdx.x % groups * ROWS;
    const int slice = blockIdx.x / groups;
    Body own[ROWS];
    Sums sums[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real* at = pulled + 3 * size_t(min(first_row + r, count - 1));
        own[r] = Body{at[0], at[1], at[2]};
    }
    const int end = int((long long)n * (slice + 1) / slices);
    for (int j = int((long long)n * slice / slices) + threadIdx.x; j < end; j += P) {
        const real* at = positions + 3 * size_t(j);
        const Body other = {at[0], at[1], at[2], masses[j]};
#pragma unroll
        for (int r = 0; r < ROWS; ++r) interact(sums[r], own[r], other, eps2);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        shares[threadIdx.x] = sums[r];
        __syncthreads();
        for (int half = P / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) {
                shares[threadIdx.x].ax += shares[threadIdx.x + half].ax;
                shares[threadIdx.x].ay += shares[threadIdx.x + half].ay;
                shares[threadIdx.x].az += shares[threadIdx.x + half].az;
            }
            __syncthreads();
        }
        const int row = first_row + r;
        if (threadIdx.x == 0 && row < count) {
            real* total = result + 3 * (size_t(slice) * count + row);
            total[0] = shares[0].ax;
            total[1] = shares[0].ay;
            total[2] = shares[0].az;
        }
        __syncthreads();
    }
}
