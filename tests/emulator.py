"""Run CUDA C on a CPU, slowly: every thread of a block a thread of the host, warps and blocks met by barriers.

For kernels that Numba's simulator cannot stand in for (shuffles, votes, atomics). Blocks run one after the other.
"""

import ctypes
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

from harness.interaction import GRAVITY, find
from harness.variant import cuda_source

COMPILER = shutil.which("g++")

SHIM = r"""
#include <algorithm>
#include <barrier>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
using std::max;
using std::min;
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct Place { int x = 0, y = 0; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct Warp {
    std::barrier<> together{32};
    double numbers[32];
};
static thread_local Place threadIdx, blockIdx;
static Place gridDim, blockDim;
static std::mutex one_at_a_time;
static std::vector<std::unique_ptr<Warp>> warps;
static std::unique_ptr<std::barrier<>> block;

inline int lane() { return threadIdx.x % 32; }
inline Warp& own_warp() { return *warps[threadIdx.x / 32]; }
inline void __syncthreads() { block->arrive_and_wait(); }
inline void __syncwarp() { own_warp().together.arrive_and_wait(); }
inline void __threadfence() {}
inline float rsqrtf(float value) { return 1 / std::sqrt(value); }
inline double rsqrt(double value) { return 1 / std::sqrt(value); }

template <class T> T __shfl_sync(unsigned, T value, int from) {
    own_warp().numbers[lane()] = value;
    __syncwarp();
    const T found = static_cast<T>(own_warp().numbers[from & 31]);
    __syncwarp();
    return found;
}
inline bool __all_sync(unsigned, bool value) {
    own_warp().numbers[lane()] = value;
    __syncwarp();
    bool all = true;
    for (double number : own_warp().numbers) all = all && number != 0;
    __syncwarp();
    return all;
}
template <class T> T atomicAdd(T* to, T value) {
    std::lock_guard<std::mutex> guard(one_at_a_time);
    const T before = *to;
    *to += value;
    return before;
}
template <class Kernel> void launch(int grid_x, int grid_y, int threads, Kernel kernel) {
    gridDim = {grid_x, grid_y};
    blockDim = {threads, 1};
    for (int y = 0; y < grid_y; ++y)
        for (int x = 0; x < grid_x; ++x) {
            warps.clear();
            for (int warp = 0; warp < (threads + 31) / 32; ++warp) warps.push_back(std::make_unique<Warp>());
            block = std::make_unique<std::barrier<>>(threads);
            std::vector<std::thread> running;
            for (int thread = 0; thread < threads; ++thread)
                running.emplace_back([=] {
                    threadIdx = {thread, 0};
                    blockIdx = {x, y};
                    kernel();
                });
            for (auto& one : running) one.join();
        }
}
"""


class Emulator:
    """What a variant asks of a toolkit, on the host."""

    multiprocessors = 4

    def __init__(self, variant, dtype, folder):
        """Compile into ``folder``, what is not there yet."""
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

    def device_array(self, shape, dtype):
        """Return an array that is not filled."""
        return np.empty(shape, dtype)

    def stream(self):
        """Return nothing: everything has ended when it returns."""

    def wait(self, stream):
        """Nothing to wait for."""

    def send(self, array, values, stream):  # noqa: ARG002
        """Copy."""
        array[...] = values

    def compile(self, stem, /, **constants):
        """Compile one kernel by g++."""
        text = re.sub(r"#line.*|asm volatile\(.*", "", cuda_source(self.path, self.interaction))
        signature = re.search(rf"\b{stem}\((.*?)\)\s*\{{", text, re.DOTALL).group(1)
        names = ", ".join(one.split()[-1].lstrip("*") for one in signature.split(","))
        entry = (
            f'extern "C" void entry(int grid_x, int grid_y, int threads, {signature}) {{\n'
            f"    launch(grid_x, grid_y, threads, [=] {{ {stem}({names}); }});\n}}\n"
        )
        defines = [f"-D{name}={value}" for name, value in constants.items()]
        defines += ["-DFLOAT64=1"] if self.real is np.float64 else []
        name = hashlib.sha256("".join([text, stem, *defines]).encode()).hexdigest()[:16]
        source, library = (Path(self.folder) / f"{stem}_{name}{ending}" for ending in (".cpp", ".so"))
        if not library.exists():
            source.write_text(SHIM + text + entry)
            options = ["-std=c++20", "-O1", "-w", "-fpermissive", "-shared", "-fPIC", "-pthread"]
            subprocess.run([COMPILER, *options, *defines, "-o", library, source], check=True)
        function = ctypes.CDLL(str(library)).entry
        function.restype = None

        def kernel(grid, threads, *arguments):
            grid_x, grid_y = grid if isinstance(grid, tuple) else (grid, 1)
            along_x = threads[0] * threads[1] if isinstance(threads, tuple) else threads
            function(int(grid_x), int(grid_y), int(along_x), *map(self._converted, arguments))

        return kernel

    def _converted(self, value):
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        if isinstance(value, np.int32):
            return ctypes.c_int(int(value))
        return (ctypes.c_float if self.real is np.float32 else ctypes.c_double)(float(value))
