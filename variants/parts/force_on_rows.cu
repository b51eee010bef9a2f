// Accelerate some bodies by all of them, in float64, and copy what another kernel computed of the same bodies.
//
// Bodies and accelerations are those of that kernel, numbers of type Stored: float where SINGLE is 1, else double. x,
// y, z, mass: n bodies, BODY_STRIDE numbers from one to the next; ax, ay, az: their accelerations, PULL_STRIDE apart.
// rows: the places of count bodies. result: rows of three numbers, first count of that kernel's, then for each of the
// slices count sums over its share of the bodies; their total is the acceleration.
//
// A block of P threads has ROWS bodies and one slice: each thread adds up every P-th body of it for all of them.
// Global loads per body and slice: 4 n / ROWS.
#if SINGLE
typedef float Stored;
#else
typedef double Stored;
#endif

extern "C" __global__ void __launch_bounds__(P)
    force_on_rows(const Stored* __restrict__ x, const Stored* __restrict__ y, const Stored* __restrict__ z,
                  const Stored* __restrict__ mass, const Stored* __restrict__ ax, const Stored* __restrict__ ay,
                  const Stored* __restrict__ az, const int* __restrict__ rows, double* __restrict__ result, int n,
                  int count, int slices, real eps2) {
    __shared__ Sums shares[P];
    const int groups = (count + ROWS - 1) / ROWS;
    const int first_row = blockIdx.x % groups * ROWS;
    const int slice = blockIdx.x / groups;
    Body own[ROWS];
    Sums sums[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const size_t at = size_t(rows[min(first_row + r, count - 1)]) * BODY_STRIDE;
        own[r] = Body{x[at], y[at], z[at]};
    }
    const int end = int((long long)n * (slice + 1) / slices);
    for (int j = int((long long)n * slice / slices) + threadIdx.x; j < end; j += P) {
        const size_t at = size_t(j) * BODY_STRIDE;
        const Body other = {x[at], y[at], z[at], mass[at]};
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
            double* total = result + 3 * (size_t(slice + 1) * count + row);
            total[0] = shares[0].ax;
            total[1] = shares[0].ay;
            total[2] = shares[0].az;
            if (slice == 0) {
                const size_t pull = size_t(rows[row]) * PULL_STRIDE;
                result[3 * size_t(row)] = ax[pull];
                result[3 * size_t(row) + 1] = ay[pull];
                result[3 * size_t(row) + 2] = az[pull];
            }
        }
        __syncthreads();
    }
}
