// What every kernel shares: the number type, the bound on registers and the inverse square root.
//
// After this text comes what is generated from the file of the interaction (variants/interactions): the rows Body and
// Sums, and interact(sums, i, j, eps2), which adds the effect of body j on body i to the sums of i. Units: G = 1. eps2
// is the softening length squared, greater than zero.

#ifdef FLOAT64
typedef double real;
#else
typedef float real;
#endif

// Blocks per multiprocessor for which the compiler has to leave registers, the second argument of __launch_bounds__:
// 1,536 threads of 40 registers (sm_75 holds 1,024 threads), fewer where the sums of a body take more than 16 bytes.
// Without it, small changes of the text decide whether the assembler saves registers by working on one body at a time,
// and two compilers differ by up to 19 % on the same kernel.
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
