"""Run the project's own CUDA C in this process: by the headers of ``gravbench.emulation``, without its checks.

For kernels that Numba's simulator cannot stand in for (shuffles, votes, atomics). The threads run in the order of their
numbers, and in the opposite order in every second launch: what a kernel reads before the barrier that it lacks is then
there in one of the two launches at most.
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

from gravbench.emulation import programs
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
OPTIONS = ["-std=c++20", "-O1", "-w", "-fpermissive", "-fPIC", "-fno-gnu-unique", "-fno-semantic-interposition"]

HERE = Path(programs.__file__).parent
THREADS = (HERE / "threads.hpp").read_text().replace('#include "device.hpp"', (HERE / "device.hpp").read_text())
SHIM = (
    THREADS.replace("#pragma once", "")
    + r"""
static bool upwards = false;
template <class Kernel> bool launch(unsigned x, unsigned y, unsigned along_x, unsigned along_y, const Kernel& kernel) {
    static const Kernel* of_launch;
    of_launch = &kernel;
    upwards = !upwards;
    return emulated::launch({x, y, 1}, {along_x, along_y, 1}, upwards, [] { (*of_launch)(); });
}
void emulated::atomic(const volatile void*, int) {}
void emulated::fence() {}
int emulated::print(const char*, ...) { return 0; }
"""
)


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

struct Lanes { double of[32]; };
inline Lanes all_lanes(double value) {
    const emulated::Word* words = emulated::exchange("all_lanes", ~0u, emulated::word(value));
    Lanes found;
    for (int k = 0; k < 32; ++k) found.of[k] = emulated::value_of<double>(words[k]);
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
    const int g = emulated::lane() / 4, t = emulated::lane() % 4;
    unsigned result = 0;
    for (int k = 0; k < 2; ++k) {
        const unsigned word = all.of[4 * (2 * t + k) + g / 2];
        result |= (word >> (g % 2 * 16) & 0xffff) << 16 * k;
    }
    return result;
}
// Row and column of A, column of B.
template <int DEPTH, class A, class B> void add_products(float (&d)[4], A a, B b) {
    const int g = emulated::lane() / 4, t = emulated::lane() % 4;
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
    float32_to_float64 = 2

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
            f'extern "C" bool entry(int grid_x, int grid_y, int along_x, int along_y, {signature}) {{\n'
            f"    return launch(grid_x, grid_y, along_x, along_y, [=] {{ {stem}({names}); }});\n}}\n"
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
            along_x, along_y = threads if isinstance(threads, tuple) else (threads, 1)
            count = along_x * along_y
            assert count <= 1024, f"{stem}: {count} threads per block; CUDA has at most 1024"
            sizes = map(int, (grid_x, grid_y, along_x, along_y))
            ended = function(*sizes, *map(self._converted, arguments))
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
