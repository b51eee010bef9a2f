// Bodies of a caller's arrays and their accelerations between the caller's units and layout, and those of a variant.
//
// positions: n rows x, y, z; masses: n numbers; both float64, as the caller has them until they are scaled. The arrays
// of a variant are numbers of type Stored, float where SINGLE is 1, else double, body_stride and pull_stride from one
// body to the next. Each block writes a row of what it finds: the least of each of several numbers, NaN where one of
// them is. What is the least of nothing is infinite, the argument none.
#if SINGLE
typedef float Stored;
#else
typedef double Stored;
#endif

__device__ __forceinline__ double lesser(double one, double other) {
    return one <= other || one != one ? one : other;
}

// Write the least that any thread of the block has, of each number, to the block's row of the result.
template <int COUNT>
__device__ __forceinline__ void write_least(const double (&own)[COUNT], double* result) {
    __shared__ double shares[P][COUNT];
    for (int k = 0; k < COUNT; ++k) shares[threadIdx.x][k] = own[k];
    __syncthreads();
    for (int half = P / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            for (int k = 0; k < COUNT; ++k)
                shares[threadIdx.x][k] = lesser(shares[threadIdx.x][k], shares[threadIdx.x + half][k]);
        }
        __syncthreads();
    }
    if (threadIdx.x < COUNT) result[COUNT * blockIdx.x + threadIdx.x] = shares[0][threadIdx.x];
}

// Find the least x, y, z, -x, -y, -z, mass, -mass, and size of a mass but zero.
extern "C" __global__ void __launch_bounds__(P)
    extent_of_bodies(const double* __restrict__ positions, const double* __restrict__ masses,
                     double* __restrict__ result, int n, real none) {
    double own[9] = {none, none, none, none, none, none, none, none, none};
    for (int i = blockIdx.x * P + threadIdx.x; i < n; i += gridDim.x * P) {
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            const double value = positions[3 * size_t(i) + axis];
            own[axis] = lesser(own[axis], value);
            own[3 + axis] = lesser(own[3 + axis], -value);
        }
        const double mass = masses[i];
        own[6] = lesser(own[6], mass);
        own[7] = lesser(own[7], -mass);
        own[8] = lesser(own[8], mass == 0 ? none : fabs(mass));
    }
    write_least(own, result);
}

// Scale the bodies in place: (position - origin) * factor, and mass / unit.
extern "C" __global__ void __launch_bounds__(P)
    scale_bodies(double* __restrict__ positions, double* __restrict__ masses, int n, real origin_x, real origin_y,
                 real origin_z, real factor, real unit) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    double* position = positions + 3 * size_t(i);
    position[0] = (position[0] - origin_x) * factor;
    position[1] = (position[1] - origin_y) * factor;
    position[2] = (position[2] - origin_z) * factor;
    masses[i] /= unit;
}

// Write the bodies of a variant, which are scaled.
extern "C" __global__ void __launch_bounds__(P)
    lay_out_bodies(const double* __restrict__ positions, const double* __restrict__ masses, Stored* __restrict__ x,
                   Stored* __restrict__ y, Stored* __restrict__ z, Stored* __restrict__ mass, int body_stride, int n) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    const double* position = positions + 3 * size_t(i);
    const size_t at = size_t(i) * body_stride;
    x[at] = Stored(position[0]);
    y[at] = Stored(position[1]);
    z[at] = Stored(position[2]);
    mass[at] = Stored(masses[i]);
}

// Write accelerations times unit as rows x, y, z. Find the least size but zero of an acceleration, by its largest
// component and before that, and the largest, with the sign of a least one.
extern "C" __global__ void __launch_bounds__(P)
    accelerations_as_rows(const Stored* __restrict__ ax, const Stored* __restrict__ ay, const Stored* __restrict__ az,
                          int pull_stride, Stored* __restrict__ rows, double* __restrict__ result, int n, real unit,
                          real none) {
    double own[2] = {none, none};
    for (int i = blockIdx.x * P + threadIdx.x; i < n; i += gridDim.x * P) {
        const size_t at = size_t(i) * pull_stride;
        const Stored pull[3] = {ax[at], ay[at], az[at]};
        double size = 0;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            rows[3 * size_t(i) + axis] = pull[axis] * Stored(unit);
            size = -lesser(-size, -fabs(double(pull[axis])));
        }
        own[0] = lesser(own[0], size == 0 ? none : size);
        own[1] = lesser(own[1], -size);
    }
    write_least(own, result);
}
