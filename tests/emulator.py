"""Run CUDA C on a CPU, slowly: the threads of a block take turns, each from one barrier to the next.

For kernels that Numba's simulator cannot stand in for (shuffles, votes, atomics). Blocks run one after the other. The
threads run in the order of their numbers, and in the opposite order in every second launch: what a kernel reads before
the barrier that it lacks is then there in one of the two launches at most.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import cuda_source
from gravbench.toolkits import binaries
from hosted import HostMemory

COMPILER = shutil.which("g++")

HEADERS = """
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <ucontext.h>
"""
# Unique symbols, such as a tile in a function template, would be one for all libraries of a process, of whatever size.
OPTIONS = ["-std=c++20", "-O1", "-w", "-fpermissive", "-fPIC", "-fno-gnu-unique"]

SHIM = r"""
using std::max;
using std::abs;
using std::min;
using std::sqrt;
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct Place { int x = 0, y = 0; };
struct uint2 { unsigned x, y; };
struct int4 { int x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct Barrier {
    int expected, arrived = 0;
    long long met = 0;
};
struct Warp {
    Barrier together{32};
    double numbers[2][32];
};
const int MOST_THREADS = 1024, STACK = 1 << 16;
struct Thread {
    char* stack = nullptr;
    jmp_buf place;
    bool entered = false;
    const Barrier* barrier = nullptr;
    long long met = 0;
    unsigned exchanges = 0;
    bool over = false;
};
static Place threadIdx, blockIdx, gridDim, blockDim;
static Warp warps[MOST_THREADS / 32];
static Thread threads_of_block[MOST_THREADS];
static Thread* running;
static jmp_buf between_turns;
static Barrier block{0};
static void (*kernel_of_launch)();
static bool upwards = false;

// A thread keeps its stack from block to block, and is started on it once. After that it is switched to by jumps:
// swapcontext would make a system call at each switch.
[[gnu::noinline]] static void end_turn() {
    if (!_setjmp(running->place)) _longjmp(between_turns, 1);
}
static void run_kernels() {
    for (;; end_turn()) {
        kernel_of_launch();
        running->over = true;
    }
}
[[gnu::noinline]] static void give_turn(Thread& thread) {
    running = &thread;
    if (_setjmp(between_turns)) return;
    if (thread.entered) _longjmp(thread.place, 1);
    thread.entered = true;
    if (!thread.stack) thread.stack = new char[STACK];
    ucontext_t beginning;
    getcontext(&beginning);
    beginning.uc_stack.ss_sp = thread.stack;
    beginning.uc_stack.ss_size = STACK;
    makecontext(&beginning, run_kernels, 0);
    setcontext(&beginning);
}

// The last to arrive goes on; the others end their turn.
inline void meet(Barrier& barrier) {
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.met;
        return;
    }
    running->barrier = &barrier;
    running->met = barrier.met;
    end_turn();
}
inline int lane() { return threadIdx.x % 32; }
inline Warp& own_warp() { return warps[threadIdx.x / 32]; }
inline void __syncthreads() { meet(block); }
inline void __syncwarp() { meet(own_warp().together); }
inline void __threadfence() {}
inline float rsqrtf(float value) { return 1 / std::sqrt(value); }
inline double rsqrt(double value) { return 1 / std::sqrt(value); }

// What all lanes of the warp gave. Nobody writes there again before all have come to the next exchange.
inline const double* exchanged(double value) {
    double* numbers = own_warp().numbers[running->exchanges++ % 2];
    numbers[lane()] = value;
    __syncwarp();
    return numbers;
}
template <class T> T __shfl_sync(unsigned, T value, int from) { return static_cast<T>(exchanged(value)[from & 31]); }
template <class T> T __shfl_up_sync(unsigned, T value, int apart) {
    return __shfl_sync(0, value, lane() < apart ? lane() : lane() - apart);
}
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) { return __shfl_sync(0, value, lane() ^ mask); }
inline unsigned __ballot_sync(unsigned, bool value) {
    const double* numbers = exchanged(value);
    unsigned found = 0;
    for (int k = 0; k < 32; ++k) found |= unsigned(numbers[k] != 0) << k;
    return found;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __clzll(unsigned long long bits) { return bits ? __builtin_clzll(bits) : 64; }
template <class T> T __ldcg(const T* from) { return *from; }
inline bool __all_sync(unsigned, bool value) { return __ballot_sync(0, value) == ~0u; }
template <class T> T atomicAdd(T* to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
template <class T> T atomicMin(T* to, T value) {
    const T before = *to;
    *to = min(before, value);
    return before;
}
inline int __float_as_int(float value) { int bits; std::memcpy(&bits, &value, 4); return bits; }
// Give every thread that can go on its turn until all have ended; false if some wait for what never arrives.
inline bool take_turns(int threads) {
    for (int left = threads; left > 0;) {
        bool moved = false;
        for (int k = 0; k < threads; ++k) {
            const int number = upwards ? k : threads - 1 - k;
            Thread& thread = threads_of_block[number];
            if (thread.over || (thread.barrier && thread.barrier->met == thread.met)) continue;
            moved = true;
            threadIdx = {number, 0};
            give_turn(thread);
            left -= thread.over;
        }
        if (!moved) return false;
    }
    return true;
}
template <class Kernel> bool launch(int grid_x, int grid_y, int threads, const Kernel& kernel) {
    gridDim = {grid_x, grid_y};
    blockDim = {threads, 1};
    static const Kernel* of_launch;
    of_launch = &kernel;
    kernel_of_launch = [] { (*of_launch)(); };
    upwards = !upwards;
    for (int y = 0; y < grid_y; ++y)
        for (int x = 0; x < grid_x; ++x) {
            blockIdx = {x, y};
            block = {threads};
            for (int k = 0; k < threads; ++k) {
                warps[k / 32].together = {32};
                threads_of_block[k].barrier = nullptr;
                threads_of_block[k].exchanges = 0;
                threads_of_block[k].over = false;
            }
            if (take_turns(threads)) continue;
            // Those that wait are in the middle of the kernel.
            for (Thread& thread : threads_of_block) thread.entered = false;
            return false;
        }
    return true;
}
"""


# Stands in for the pointer to the bodies, and counts what is read through it.
COUNTED = r"""
static long long loads = 0;
template <class Row> struct Counted {
    const Row* rows;
    const Row& operator[](long long k) const { ++loads; return rows[k]; }
    Counted operator+(long long k) const { return {rows + k}; }
};
extern "C" long long loads_since_last_asked() {
    const long long found = loads;
    loads = 0;
    return found;
}
"""
BODIES = re.compile(r"const Body\* (?:__restrict__ )?bodies")

# What a chip with tensor cores has beside that, and the product's own functions of one PTX instruction each. The
# fragments are those of the PTX manual: lane 4 g + t has rows g and g + 8 and columns that follow from t.
TENSOR_CORES = r"""
#define __CUDA_ARCH__ 800
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline unsigned __float_as_uint(float value) { unsigned bits; std::memcpy(&bits, &value, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }

struct Lanes { double of[32]; };
inline Lanes all_lanes(double value) {
    const double* numbers = exchanged(value);
    Lanes found;
    std::copy(numbers, numbers + 32, found.of);
    return found;
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
    const Lanes all = all_lanes(value);
    return *std::max_element(all.of, all.of + 32);
}
inline unsigned __reduce_min_sync(unsigned, unsigned value) {
    const Lanes all = all_lanes(value);
    return *std::min_element(all.of, all.of + 32);
}
inline unsigned __reduce_or_sync(unsigned, unsigned bits) {
    const Lanes all = all_lanes(bits);
    unsigned found = 0;
    for (const double word : all.of) found |= unsigned(word);
    return found;
}

inline unsigned short half_bits(float value) {
    const _Float16 half = value;
    unsigned short bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}
inline float half_value(unsigned short bits) { _Float16 half; std::memcpy(&half, &bits, 2); return half; }
inline unsigned pack(float first, float second) { return half_bits(first) | unsigned(half_bits(second)) << 16; }
inline unsigned pack_rest(unsigned packed, float first, float second) {
    return pack(first - half_value(packed), second - half_value(packed >> 16));
}
inline unsigned transposed(unsigned packed) {
    const Lanes all = all_lanes(packed);
    const int g = lane() / 4, t = lane() % 4;
    unsigned result = 0;
    for (int k = 0; k < 2; ++k) {
        const unsigned word = all.of[4 * (2 * t + k) + g / 2];
        result |= (word >> (g % 2 * 16) & 0xffff) << 16 * k;
    }
    return result;
}
// Row and column of A, column of B.
template <int DEPTH, class A, class B> void add_products(float (&d)[4], A a, B b) {
    const int g = lane() / 4, t = lane() % 4;
    for (int k = 0; k < DEPTH; ++k)
        for (int element = 0; element < 4; ++element)
            d[element] += a(g + element / 2 * 8, k) * b(k, 2 * t + element % 2);
}
inline void multiply_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, const uint2& b) {
    const Lanes as[4] = {all_lanes(a0), all_lanes(a1), all_lanes(a2), all_lanes(a3)};
    const Lanes bs[2] = {all_lanes(b.x), all_lanes(b.y)};
    const auto part = [](double word, int k) { return half_value(unsigned(word) >> k % 2 * 16); };
    add_products<16>(d, [&](int row, int k) { return part(as[row / 8 + k / 8 * 2].of[row % 8 * 4 + k % 8 / 2], k); },
                     [&](int k, int column) { return part(bs[k / 8].of[column * 4 + k % 8 / 2], k); });
}
inline void product_f16(float (&d)[4], const uint4& a, const uint2& b) {
    for (float& one : d) one = 0;
    multiply_f16(d, a.x, a.y, a.z, a.w, b);
}
inline unsigned cubes(unsigned packed) {
    const auto cube = [](unsigned half) {
        const float own = half_value(half);
        return half_bits(half_value(half_bits(own * own)) * own);
    };
    return cube(packed & 0xffff) | cube(packed >> 16) << 16;
}
inline float sum_of_parts(unsigned high, unsigned low) { return half_value(high) + half_value(low); }
"""
ONE_INSTRUCTION = re.compile(
    r"^__device__ __forceinline__ [^;{}]*\{(?:[^{}]|\{[^{}]*\})*?asm\(.*?^\}\n", re.MULTILINE | re.DOTALL
)


@lru_cache
def precompiled(folder):
    """Compile the headers of all kernels into a folder, once; to read them takes longer than most kernels do."""
    path = Path(folder) / "headers.hpp"
    made = Path(f"{path}.gch")
    if not made.exists():
        own = Path(folder) / f"{os.getpid()}.hpp"
        own.write_text(HEADERS)
        own_made = Path(f"{own}.gch")
        subprocess.run([COMPILER, *OPTIONS, "-x", "c++-header", "-o", own_made, own], check=True)
        # Several processes may get here: each puts a whole file in place.
        own.replace(path)
        own_made.replace(made)
    return path


@cache
def compiler_version():
    """Return what the compiler says of itself."""
    return subprocess.run([COMPILER, "--version"], check=True, capture_output=True, text=True).stdout


def compiled(text, defines, folder):
    """Return the shared library that g++ makes of a text."""
    with tempfile.TemporaryDirectory() as own:
        source, library = Path(own) / "kernel.cpp", Path(own) / "kernel.so"
        source.write_text(text)
        headers = ["-include", precompiled(folder)]
        subprocess.run([COMPILER, *OPTIONS, *headers, "-shared", *defines, "-o", library, source], check=True)
        return library.read_bytes()


def place_whole(path, content):
    """Write a file that several processes may write at the same time: each puts a whole one in place."""
    own = path.with_name(f"{os.getpid()}_{path.name}")
    own.write_bytes(content)
    own.replace(path)


class Emulator(HostMemory):
    """What a variant asks of a toolkit, on the host; ``tensor_cores``: of a chip that has some.

    With ``counting``, ``loads`` are the bodies that threads of all launches so far have read from global memory.
    """

    multiprocessors = 4

    def __init__(self, variant, dtype, folder, *, tensor_cores=False, counting=False):
        """Load from ``folder``, and compile what was not compiled before, by this test run or an earlier one."""
        self.tensor_cores = tensor_cores
        self.counting = counting
        self.loads = 0
        self.path = variant.path.with_suffix(".cu")
        self.real = np.dtype(dtype).type
        self.interaction = find(GRAVITY)
        self.folder = folder

    def upload(self, values):
        """Return a copy."""
        return np.array(values, self.real, order="C")

    def empty(self, *shape):
        """Return an array of NaN."""
        return np.full(shape, np.nan, self.real)

    def source(self):
        """Return the CUDA C of all kernels of the variant."""
        return re.sub(r"#line.*|asm volatile\(.*", "", cuda_source(self.path, self.interaction))

    def compile(self, stem, /, **constants):
        """Compile one kernel by g++."""
        text = self.source()
        signature = re.search(rf"\b{stem}\((.*?)\)\s*\{{", text, re.DOTALL).group(1)
        shim = SHIM
        if self.tensor_cores:
            shim, text = SHIM + TENSOR_CORES, ONE_INSTRUCTION.sub("", text)
        if self.counting:
            shim, text, signature = (
                shim + COUNTED,
                *(BODIES.sub("Counted<Body> bodies", one) for one in (text, signature)),
            )
        names = ", ".join(one.split()[-1].lstrip("*") for one in signature.split(","))
        entry = (
            f'extern "C" bool entry(int grid_x, int grid_y, int threads, {signature}) {{\n'
            f"    return launch(grid_x, grid_y, threads, [=] {{ {stem}({names}); }});\n}}\n"
        )
        defines = [f"-D{name}={value}" for name, value in constants.items()]
        defines += ["-DFLOAT64=1"] if self.real is np.float64 else []
        own = shim + text + entry
        name = hashlib.sha256("".join([own, *defines]).encode()).hexdigest()[:16]
        library = Path(self.folder) / f"{stem}_{name}.so"
        if not library.exists():
            key = ["emulated", compiler_version(), HEADERS, *OPTIONS, *defines, own]
            made, _ = binaries.binary(key, lambda: (compiled(own, defines, self.folder), ""))
            place_whole(library, made.code)
        loaded = ctypes.CDLL(str(library))
        function = loaded.entry
        function.restype = ctypes.c_bool

        def kernel(grid, threads, *arguments, stream=None):  # noqa: ARG001 - everything is done at once
            grid_x, grid_y = grid if isinstance(grid, tuple) else (grid, 1)
            along_x = threads[0] * threads[1] if isinstance(threads, tuple) else threads
            assert along_x <= 1024, f"{stem}: {along_x} threads per block; CUDA has at most 1024"
            ended = function(int(grid_x), int(grid_y), int(along_x), *map(self._converted, arguments))
            assert ended, f"{stem}: threads wait at a barrier at which the others do not arrive"
            if self.counting:
                self.loads += loaded.loads_since_last_asked()

        return kernel

    def _converted(self, value):
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        if isinstance(value, np.int32):
            return ctypes.c_int(int(value))
        return (ctypes.c_float if self.real is np.float32 else ctypes.c_double)(float(value))


class Noting(Emulator):
    """An emulated GPU that keeps the last arguments of each kernel, among which are the buffers of a tree."""

    arguments: dict = {}  # noqa: RUF012 - one for all, of the last launch

    def compile(self, stem, /, **constants):
        """Note them."""
        kernel = super().compile(stem, **constants)

        def noted(grid, threads, *arguments):
            self.arguments[stem] = arguments
            kernel(grid, threads, *arguments)

        return noted
