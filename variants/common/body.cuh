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

// Blocks for which a multiprocessor has to have registers, the second number of __launch_bounds__: 1,536 threads of 40
// registers (sm_75 holds 1,024 threads), fewer where the sums of a body take more than 16 bytes. Left open, the
// assembler saves registers by working on one body at a time, or does not, as small things in the text happen to be:
// two compilers then differ by up to 19 % on the same kernel.
__host__ __device__ constexpr int resident_blocks(int threads, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    const int most = 1024;
#else
    const int most = 1536;
#endif
    const int room = bytes > 32 ? 512 : (bytes > 16 ? 1024 : most);
    return threads < 128 ? room / 128 : (threads < room ? room / threads : 1);
}

__device__ __forceinline__ float inverse_sqrt(float value) {
    return rsqrtf(value);
}

__device__ __forceinline__ double inverse_sqrt(double value) {
    return rsqrt(value);
}
