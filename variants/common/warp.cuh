// What the 32 lanes of a warp do together. All lanes of the warp have to call each of these functions, except those
// that only count bits. Numbers may be int, unsigned, float or double.

constexpr unsigned whole_warp = 0xffffffff;

__device__ __forceinline__ int lane_of_thread() {
    return threadIdx.x % 32;
}

// Return the value of lane `from`, which may be another for each lane that asks.
template <class Number>
__device__ __forceinline__ Number broadcast(Number value, int from) {
    return __shfl_sync(whole_warp, value, from);
}

// Return the sum over the lanes up to this one (inclusive scan).
template <class Number>
__device__ __forceinline__ Number inclusive_scan(Number value) {
    const int lane = lane_of_thread();
#pragma unroll
    for (int apart = 1; apart < 32; apart <<= 1) {
        const Number other = __shfl_up_sync(whole_warp, value, apart);
        if (lane >= apart) value += other;
    }
    return value;
}

// Return the sum over the lanes before this one (exclusive scan).
template <class Number>
__device__ __forceinline__ Number exclusive_scan(Number value) {
    return inclusive_scan(value) - value;
}

// Reductions return their result to all lanes: over the warp, or with LANES over each group of so many neighbours, a
// power of two. A sum adds the same pairs of lanes in every launch, so its last bits stay the same.
template <int LANES = 32, class Number>
__device__ __forceinline__ Number warp_sum(Number value) {
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart >>= 1) value += __shfl_xor_sync(whole_warp, value, apart);
    return value;
}

template <int LANES = 32, class Number>
__device__ __forceinline__ Number warp_min(Number value) {
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart >>= 1) value = min(value, __shfl_xor_sync(whole_warp, value, apart));
    return value;
}

template <int LANES = 32, class Number>
__device__ __forceinline__ Number warp_max(Number value) {
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart >>= 1) value = max(value, __shfl_xor_sync(whole_warp, value, apart));
    return value;
}

// Return the sum over the lanes whose numbers leave the same remainder divided by `stride`, a power of two.
template <class Number>
__device__ __forceinline__ Number strided_sum(Number value, int stride) {
    for (int apart = stride; apart < 32; apart <<= 1) value += __shfl_xor_sync(whole_warp, value, apart);
    return value;
}

// Of unsigned integers over the whole warp: one instruction from sm_80 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned warp_min(unsigned value) {
    return __reduce_min_sync(whole_warp, value);
}

__device__ __forceinline__ unsigned warp_max(unsigned value) {
    return __reduce_max_sync(whole_warp, value);
}

__device__ __forceinline__ unsigned warp_or(unsigned bits) {
    return __reduce_or_sync(whole_warp, bits);
}
#else
__device__ __forceinline__ unsigned warp_or(unsigned bits) {
#pragma unroll
    for (int apart = 16; apart > 0; apart >>= 1) bits |= __shfl_xor_sync(whole_warp, bits, apart);
    return bits;
}
#endif

// Return the lanes for which a condition holds, as bits: lane 0 is the lowest one.
__device__ __forceinline__ unsigned lanes_where(bool condition) {
    return __ballot_sync(whole_warp, condition);
}

// Return how many of `lanes` are before this one: its rank among them, and where it writes if they write in a row.
__device__ __forceinline__ int rank_among(unsigned lanes) {
    return __popc(lanes & ((1u << lane_of_thread()) - 1));
}

// Return the first of `lanes`, or -1 where there is none; `lanes & (lanes - 1)` are the others.
__device__ __forceinline__ int first_of(unsigned lanes) {
    return __ffs(lanes) - 1;
}
