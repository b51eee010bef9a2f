// What CUDA C names, for a C++ compiler of the host: qualifiers, vectors, mathematics, what lanes exchange, atomics.
//
// The functions of `emulated` are those of threads.hpp, and of checked.cpp where accesses are checked. They are called
// from functions that are always inlined: the place a call returns to is then a line of the kernel.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// Headers of the library come before these names, which are words of its own too: it has `__noinline__` in attributes.
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define EMULATED_INLINE inline __attribute__((always_inline))
// Shared memory that a kernel declares is storage of the one thread of the program, where it has an address range of
// its own. What tests load into their process is simply static.
#ifdef EMULATED_RUNTIME
#define __shared__ static
#define EMULATED_INDEX extern
#else
#define __shared__ static thread_local
#define EMULATED_INDEX extern const
#endif
#define EMULATED_DYNAMIC(type, name) type* const name = reinterpret_cast<type*>(emulated::dynamic_shared);

// The assignment is a copy that is checked: the compiler lets nobody see where the result of a function is stored.
#define EMULATED_VECTOR(name)                                                                                        \
    EMULATED_INLINE name& operator=(const name& other) {                                                             \
        __builtin_memcpy(this, &other, sizeof(name));                                                                \
        return *this;                                                                                                \
    }
#define EMULATED_VECTORS(type, name, whole)                                                                          \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; EMULATED_VECTOR(name##2) };                                \
    struct name##3 { type x, y, z; EMULATED_VECTOR(name##3) };                                                       \
    struct alignas(whole) name##4 { type x, y, z, w; EMULATED_VECTOR(name##4) };                                     \
    EMULATED_INLINE name##2 make_##name##2(type x, type y) { return {x, y}; }                                        \
    EMULATED_INLINE name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                             \
    EMULATED_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EMULATED_VECTORS(float, float, 16)
EMULATED_VECTORS(double, double, 16)
EMULATED_VECTORS(int, int, 16)
EMULATED_VECTORS(unsigned, uint, 16)

typedef uint3 dim3;
// Constant for a kernel, so that what reads them is no access to memory.
EMULATED_INDEX uint3 threadIdx, blockIdx, blockDim, gridDim;
constexpr int warpSize = 32;

namespace emulated {
typedef unsigned long long Word;
void barrier();
void warp_barrier(unsigned mask);
// What each lane of the mask gave, and the lanes that exist.
const Word* exchange(const char* what, unsigned mask, Word value);
unsigned existing_lanes();
// Tells of an atomic operation, of a fence and of what is printed.
void atomic(const volatile void* address, int bytes);
void fence();
long long clock();
int print(const char* format, ...);
extern char dynamic_shared[];

EMULATED_INLINE unsigned lane() { return (threadIdx.x + threadIdx.y * blockDim.x) % 32; }
template <class T> EMULATED_INLINE Word word(T value) {
    static_assert(sizeof(T) <= 8, "a value that lanes exchange has at most 8 bytes");
    Word bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T> EMULATED_INLINE T value_of(Word bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
// The words lie where no kernel may read: what is instrumented has them read by this.
__attribute__((noinline, no_sanitize("thread"))) inline Word read(const Word* words, unsigned lane) { return words[lane]; }
template <class T> EMULATED_INLINE T from_lane(const Word* words, unsigned lane) { return value_of<T>(read(words, lane)); }
}  // namespace emulated

EMULATED_INLINE void __syncthreads() { emulated::barrier(); }
EMULATED_INLINE void __syncwarp(unsigned mask = ~0u) { emulated::warp_barrier(mask); }
EMULATED_INLINE void __threadfence() { emulated::fence(); }
EMULATED_INLINE void __threadfence_block() {}
EMULATED_INLINE void __threadfence_system() { emulated::fence(); }
EMULATED_INLINE long long clock64() { return emulated::clock(); }
EMULATED_INLINE void __nanosleep(unsigned) {}

// Shuffles. A lane beyond the segment, or one that is not there, gives the reader its own value.
template <class T> EMULATED_INLINE T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    const unsigned here = emulated::lane(), first = here & ~unsigned(width - 1);
    return emulated::from_lane<T>(
        emulated::exchange("__shfl_sync", mask, emulated::word(value)), first + (from & (width - 1)));
}
template <class T> EMULATED_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned apart, int width = 32) {
    const unsigned here = emulated::lane(), place = here & unsigned(width - 1);
    return emulated::from_lane<T>(
        emulated::exchange("__shfl_up_sync", mask, emulated::word(value)), place < apart ? here : here - apart);
}
template <class T> EMULATED_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned apart, int width = 32) {
    const unsigned here = emulated::lane(), place = here & unsigned(width - 1);
    return emulated::from_lane<T>(emulated::exchange("__shfl_down_sync", mask, emulated::word(value)),
        place + apart < unsigned(width) ? here + apart : here);
}
template <class T> EMULATED_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const unsigned here = emulated::lane(), other = here ^ bits, end = (here & ~unsigned(width - 1)) + width;
    return emulated::from_lane<T>(
        emulated::exchange("__shfl_xor_sync", mask, emulated::word(value)), other < end ? other : here);
}

// Votes and reductions.
EMULATED_INLINE unsigned emulated_votes(const char* what, unsigned mask, bool value) {
    const emulated::Word* words = emulated::exchange(what, mask, value);
    unsigned votes = 0;
    for (unsigned k = 0; k < 32; ++k)
        if (mask >> k & 1 & emulated::existing_lanes() >> k && emulated::read(words, k)) votes |= 1u << k;
    return votes;
}
EMULATED_INLINE unsigned __ballot_sync(unsigned mask, bool value) { return emulated_votes("__ballot_sync", mask, value); }
EMULATED_INLINE int __any_sync(unsigned mask, bool value) { return emulated_votes("__any_sync", mask, value) != 0; }
EMULATED_INLINE int __all_sync(unsigned mask, bool value) { return emulated_votes("__all_sync", mask, !value) == 0; }
template <class T, class Join> EMULATED_INLINE T emulated_reduced(const char* what, unsigned mask, T value, Join join) {
    const emulated::Word* words = emulated::exchange(what, mask, emulated::word(value));
    T result = value;
    for (unsigned k = 0; k < 32; ++k)
        if (k != emulated::lane() && mask >> k & 1 & emulated::existing_lanes() >> k)
            result = join(result, emulated::from_lane<T>(words, k));
    return result;
}
#define EMULATED_REDUCTION(name, expression)                                                                         \
    template <class T> EMULATED_INLINE T name(unsigned mask, T value) {                                              \
        return emulated_reduced(#name, mask, value, [](T a, T b) -> T { return expression; });                       \
    }
EMULATED_REDUCTION(__reduce_add_sync, a + b)
EMULATED_REDUCTION(__reduce_min_sync, a < b ? a : b)
EMULATED_REDUCTION(__reduce_max_sync, a < b ? b : a)
EMULATED_REDUCTION(__reduce_and_sync, a & b)
EMULATED_REDUCTION(__reduce_or_sync, a | b)
EMULATED_REDUCTION(__reduce_xor_sync, a ^ b)

// Atomics: one thread runs at a time, so that the operation itself needs nothing.
#define EMULATED_ATOMIC(name, expression)                                                                            \
    template <class T>                                                                                               \
    __attribute__((noinline, no_sanitize("thread"))) inline T emulated_##name(T* to, std::type_identity_t<T> value) { \
        const T before = *to;                                                                                        \
        *to = expression;                                                                                            \
        return before;                                                                                               \
    }                                                                                                                \
    template <class T> EMULATED_INLINE T name(T* to, std::type_identity_t<T> value) {                                \
        emulated::atomic(to, sizeof(T));                                                                             \
        return emulated_##name(to, value);                                                                           \
    }
EMULATED_ATOMIC(atomicAdd, before + value)
EMULATED_ATOMIC(atomicSub, before - value)
EMULATED_ATOMIC(atomicMin, value < before ? value : before)
EMULATED_ATOMIC(atomicMax, before < value ? value : before)
EMULATED_ATOMIC(atomicExch, (void(before), value))
EMULATED_ATOMIC(atomicAnd, before & value)
EMULATED_ATOMIC(atomicOr, before | value)
EMULATED_ATOMIC(atomicXor, before ^ value)
EMULATED_ATOMIC(atomicInc, before >= value ? 0 : before + 1)
EMULATED_ATOMIC(atomicDec, before == 0 || before > value ? value : before - 1)
template <class T>
__attribute__((noinline, no_sanitize("thread"))) inline T emulated_compared(T* to, T compared, T value) {
    const T before = *to;
    if (before == compared) *to = value;
    return before;
}
template <class T>
EMULATED_INLINE T atomicCAS(T* to, std::type_identity_t<T> compared, std::type_identity_t<T> value) {
    emulated::atomic(to, sizeof(T));
    return emulated_compared<T>(to, compared, value);
}
EMULATED_INLINE float4 atomicAdd(float4* to, float4 value) {
    return {atomicAdd(&to->x, value.x), atomicAdd(&to->y, value.y), atomicAdd(&to->z, value.z), atomicAdd(&to->w, value.w)};
}
EMULATED_INLINE float2 atomicAdd(float2* to, float2 value) { return {atomicAdd(&to->x, value.x), atomicAdd(&to->y, value.y)}; }

// Mathematics. Names without overloads here are those of the host's library.
using std::abs;
using std::sqrt;
using std::fma;
#define EMULATED_MIN_MAX(result, first, second)                                                                      \
    EMULATED_INLINE result min(first left, second right) {                                                           \
        const result a = left, b = right;                                                                            \
        return a < b ? a : b;                                                                                        \
    }                                                                                                                \
    EMULATED_INLINE result max(first left, second right) {                                                           \
        const result a = left, b = right;                                                                            \
        return a < b ? b : a;                                                                                        \
    }
EMULATED_MIN_MAX(int, int, int)
EMULATED_MIN_MAX(unsigned, unsigned, unsigned)
EMULATED_MIN_MAX(unsigned, int, unsigned)
EMULATED_MIN_MAX(unsigned, unsigned, int)
EMULATED_MIN_MAX(long, long, long)
EMULATED_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMULATED_MIN_MAX(long long, long long, long long)
EMULATED_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
// Of a number and NaN these are the number.
#define EMULATED_REAL_MIN_MAX(result, first, second, suffix)                                                         \
    EMULATED_INLINE result min(first a, second b) { return fmin##suffix(a, b); }                                     \
    EMULATED_INLINE result max(first a, second b) { return fmax##suffix(a, b); }
EMULATED_REAL_MIN_MAX(float, float, float, f)
EMULATED_REAL_MIN_MAX(double, double, double, )
EMULATED_REAL_MIN_MAX(double, float, double, )
EMULATED_REAL_MIN_MAX(double, double, float, )
EMULATED_INLINE float rsqrtf(float value) { return 1 / sqrtf(value); }
EMULATED_INLINE double rsqrt(double value) { return 1 / std::sqrt(value); }
EMULATED_INLINE float rsqrt(float value) { return rsqrtf(value); }
#define EMULATED_ROUNDED(suffix)                                                                                     \
    EMULATED_INLINE float __fadd_##suffix(float a, float b) { return a + b; }                                        \
    EMULATED_INLINE float __fsub_##suffix(float a, float b) { return a - b; }                                        \
    EMULATED_INLINE float __fmul_##suffix(float a, float b) { return a * b; }                                        \
    EMULATED_INLINE float __fdiv_##suffix(float a, float b) { return a / b; }                                        \
    EMULATED_INLINE float __fmaf_##suffix(float a, float b, float c) { return fmaf(a, b, c); }                       \
    EMULATED_INLINE float __fsqrt_##suffix(float a) { return sqrtf(a); }                                             \
    EMULATED_INLINE float __frcp_##suffix(float a) { return 1 / a; }                                                 \
    EMULATED_INLINE double __dadd_##suffix(double a, double b) { return a + b; }                                     \
    EMULATED_INLINE double __dsub_##suffix(double a, double b) { return a - b; }                                     \
    EMULATED_INLINE double __dmul_##suffix(double a, double b) { return a * b; }                                     \
    EMULATED_INLINE double __ddiv_##suffix(double a, double b) { return a / b; }                                     \
    EMULATED_INLINE double __fma_##suffix(double a, double b, double c) { return std::fma(a, b, c); }                \
    EMULATED_INLINE double __dsqrt_##suffix(double a) { return std::sqrt(a); }                                       \
    EMULATED_INLINE double __drcp_##suffix(double a) { return 1 / a; }
EMULATED_ROUNDED(rn)
EMULATED_INLINE float __frsqrt_rn(float value) { return rsqrtf(value); }
EMULATED_INLINE float __fdividef(float a, float b) { return a / b; }
EMULATED_INLINE float fdividef(float a, float b) { return a / b; }
EMULATED_INLINE float __expf(float value) { return expf(value); }
EMULATED_INLINE float __logf(float value) { return logf(value); }
EMULATED_INLINE float __powf(float a, float b) { return powf(a, b); }
EMULATED_INLINE float __sinf(float value) { return sinf(value); }
EMULATED_INLINE float __cosf(float value) { return cosf(value); }
EMULATED_INLINE float __saturatef(float value) { return fminf(fmaxf(value, 0), 1); }
EMULATED_INLINE float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
EMULATED_INLINE float rnorm3df(float x, float y, float z) { return 1 / norm3df(x, y, z); }

// Bits.
template <class To, class From> EMULATED_INLINE To emulated_bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    __builtin_memcpy(&result, &value, sizeof(To));
    return result;
}
EMULATED_INLINE int __float_as_int(float value) { return emulated_bits<int>(value); }
EMULATED_INLINE unsigned __float_as_uint(float value) { return emulated_bits<unsigned>(value); }
EMULATED_INLINE float __int_as_float(int bits) { return emulated_bits<float>(bits); }
EMULATED_INLINE float __uint_as_float(unsigned bits) { return emulated_bits<float>(bits); }
EMULATED_INLINE long long __double_as_longlong(double value) { return emulated_bits<long long>(value); }
EMULATED_INLINE double __longlong_as_double(long long bits) { return emulated_bits<double>(bits); }
EMULATED_INLINE int __popc(unsigned bits) { return __builtin_popcount(bits); }
EMULATED_INLINE int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
EMULATED_INLINE int __ffs(int bits) { return __builtin_ffs(bits); }
EMULATED_INLINE int __ffsll(long long bits) { return __builtin_ffsll(bits); }
EMULATED_INLINE int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
EMULATED_INLINE int __clzll(unsigned long long bits) { return bits ? __builtin_clzll(bits) : 64; }

// Loads and stores with a hint for a cache.
#define EMULATED_LOAD(name)                                                                                          \
    template <class T> EMULATED_INLINE T name(const T* from) { return *from; }
EMULATED_LOAD(__ldg)
EMULATED_LOAD(__ldca)
EMULATED_LOAD(__ldcg)
EMULATED_LOAD(__ldcs)
EMULATED_LOAD(__ldcv)
EMULATED_LOAD(__ldlu)
#define EMULATED_STORE(name)                                                                                         \
    template <class T> EMULATED_INLINE void name(T* to, std::type_identity_t<T> value) { *to = value; }
EMULATED_STORE(__stcg)
EMULATED_STORE(__stcs)
EMULATED_STORE(__stwb)
EMULATED_STORE(__stwt)
#ifndef EMULATED_RUNTIME
#define printf emulated::print
EMULATED_INLINE long long clock() { return emulated::clock(); }
#endif
