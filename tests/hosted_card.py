"""A device that is the processor: it runs entries in CUDA C by g++, thread by thread, and keeps their memory.

So what a judgement on a device sees can be tested without one, with kernels that need no barrier.
"""

import ctypes
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from gravbench.judging import worker

GRID = ctypes.c_uint * 2
HEAD = """
#include "device.hpp"
uint3 here, there, of_block, of_grid;
#define threadIdx here
#define blockIdx there
#define blockDim of_block
#define gridDim of_grid
#define clock64 ticks
#define printf(...)
#define __trap() __builtin_trap()
#define __syncthreads()
extern "C" int clock_gettime(int, long*);
inline long long ticks() {
    long moment[2];
    clock_gettime(1, moment);
    return 2000000000ll * moment[0] + 2 * moment[1];
}
"""
TAIL = """
extern "C" void launch_{kernel}(const unsigned* grid, const unsigned* block, void** arguments) {{
    of_grid = {{grid[0], grid[1], 1}};
    of_block = {{block[0], block[1], 1}};
    for (there.y = 0; there.y < grid[1]; ++there.y)
        for (there.x = 0; there.x < grid[0]; ++there.x)
            for (here.y = 0; here.y < block[1]; ++here.y)
                for (here.x = 0; here.x < block[0]; ++here.x) call({kernel}, arguments);
}}
"""
CALL = """
#include <utility>
template <class... Types, std::size_t... places>
void call_with(void (*kernel)(Types...), void** arguments, std::index_sequence<places...>) {
    kernel(*static_cast<std::remove_cv_t<Types>*>(arguments[places])...);
}
template <class... Types> void call(void (*kernel)(Types...), void** arguments) {
    call_with(kernel, arguments, std::index_sequence_for<Types...>());
}
"""


def built(entry, folder):
    """Return a library of an entry's kernels."""
    kernels = dict.fromkeys(kernel.name for kernel in entry.head.kernels)
    constants = "".join(f"#define {name} {value}\n" for name, value in entry.defines.items())
    text = HEAD + CALL + constants + entry.text + "".join(TAIL.format(kernel=kernel) for kernel in kernels)
    headers = Path(worker.__file__).parent.parent / "emulation"
    command = ["g++", "-std=c++20", "-O2", "-w", "-fpermissive", "-shared", "-fPIC", f"-I{headers}"]
    subprocess.run([*command, "-o", folder / "kernels.so", "-x", "c++", "-"], input=text.encode(), check=True)
    return (folder / "kernels.so").read_bytes()


class Host:
    """See ``gravbench.judging.calls.Device``."""

    def load(self, code, kernels, precision):
        """Load a library; the card that it pretends to be is fast enough for all that is measured."""
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(code)
            file.flush()
            self.library = ctypes.CDLL(file.name)
        self.real = ctypes.c_float if precision == "float32" else ctypes.c_double
        return {"multiprocessors": 132, "hertz": 2e9, "parameters": dict.fromkeys(kernels)}

    def allocate(self, sizes, guard):
        """Make arrays."""
        self.guard = guard
        self.arrays = {name: np.zeros(size + 2 * guard + 64, np.uint8) for name, size in sizes.items()}
        for name, array in self.arrays.items():
            begin = -array.ctypes.data % 64
            self.arrays[name] = array[begin : begin + sizes[name] + 2 * guard]

    def write(self, name, content):
        """Fill an array."""
        self.arrays[name][:] = np.frombuffer(content, np.uint8)

    def read(self, name):
        """Return an array."""
        return self.arrays[name].tobytes()

    def run(self, calls):
        """Launch."""
        for call in calls:
            values = [self.value(argument) for argument in call.arguments]
            pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            getattr(self.library, f"launch_{call.kernel}")(GRID(*call.grid), GRID(*call.block), pointers)

    def value(self, argument):
        """Return what is passed."""
        if isinstance(argument, str):
            return ctypes.c_uint64(self.arrays[argument].ctypes.data + self.guard)
        return self.real(argument) if isinstance(argument, float) else ctypes.c_int(argument)

    def time(self, calls, hold_microseconds):  # noqa: ARG002
        """Launch, by the clock of the host."""
        began = time.perf_counter()
        self.run(calls)
        return {"seconds": time.perf_counter() - began, "launch_seconds": 0.0, "held": True}


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    worker.opened = lambda _: Host()
    worker.main()
