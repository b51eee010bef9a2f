// Add a row of sums to one in global memory, whoever else adds to it; the fourth number stays.
__device__ __forceinline__ void add_atomically(Sums* to, const Sums& sums) {
#if __CUDA_ARCH__ >= 900 && !defined(FLOAT64)
    atomicAdd(reinterpret_cast<float4*>(to), make_float4(sums.ax, sums.ay, sums.az, 0));
#else
    atomicAdd(&to->ax, sums.ax);
    atomicAdd(&to->ay, sums.ay);
    atomicAdd(&to->az, sums.az);
#endif
}
