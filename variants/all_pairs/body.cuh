// What every all-pairs kernel shares: the number type and the inverse square root.
//
// Behind this text stands what the interaction's own file says (variants/interactions): the rows Body and Sums, and
// interact(sums, i, j, eps2), which adds to the sums of body i what body j does to it. Units: G = 1. eps2 is the
// softening length squared, greater than zero.

#ifdef FLOAT64
typedef double real;
#else
typedef float real;
#endif

// Blocks of so many threads that a multiprocessor has to have registers for, the second number of __launch_bounds__:
// room for 1,024 threads (512 in float64). Left open, the assembler saves registers by working on one body at a time,
// or not, as small things in the text happen to be: two compilers then differ by up to 19 % on the same kernel.
__host__ __device__ constexpr int resident_blocks(int threads) {
    const int room = sizeof(real) == 8 ? 512 : 1024;
    return threads < 32 ? room / 32 : (threads < room ? room / threads : 1);
}

__device__ __forceinline__ float inverse_sqrt(float value) {
    return rsqrtf(value);
}

__device__ __forceinline__ double inverse_sqrt(double value) {
    return rsqrt(value);
}
