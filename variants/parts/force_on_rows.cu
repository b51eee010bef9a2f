// Accelerate some bodies by all bodies j, in float64.
//
// positions: n rows x, y, z of the bodies j; masses: n; pulled: count rows x, y, z. result: for each of the slices
// count rows of three numbers, sums over its share of the bodies j; their total is the acceleration.
//
// A block of P threads has ROWS bodies and one slice: each thread adds up every P-th body of it for all of them.
// Global loads per body that is pulled: 4 n / ROWS, of 8 bytes.

// Return 1 / sqrt(value) without the branches of rsqrt() for zero, infinite and subnormal numbers, which no softened
// distance in units of about 1 is: so the compiler works on all rows of a thread side by side.
__device__ __forceinline__ double inverse_sqrt_of_normal(double value) {
#ifdef __CUDA_ARCH__
    double guess;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(guess) : "d"(value));
    const double rest = fma(-value * guess, guess, 1.0);
    return fma(guess * rest, fma(rest, 0.375, 0.5), guess);
#else
    return rsqrt(value);
#endif
}

__device__ __forceinline__ void add_pull(Sums& sums, const Body& own, const Body& other, double eps2) {
    const double dx = other.x - own.x;
    const double dy = other.y - own.y;
    const double dz = other.z - own.z;
    const double inverse = inverse_sqrt_of_normal(fma(dx, dx, fma(dy, dy, fma(dz, dz, eps2))));
    const double strength = other.mass * inverse * (inverse * inverse);
    sums.ax = real(fma(strength, dx, double(sums.ax)));
    sums.ay = real(fma(strength, dy, double(sums.ay)));
    sums.az = real(fma(strength, dz, double(sums.az)));
}

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
        for (int r = 0; r < ROWS; ++r) add_pull(sums[r], own[r], other, eps2);
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
