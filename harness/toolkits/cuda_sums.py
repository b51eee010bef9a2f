"""Reference sums on a GPU of NVIDIA's, by a kernel that numba.cuda compiles and the driver launches.

What was compiled is kept on the disk: to import numba.cuda and to compile takes two seconds, of which a process that
finds the kernel spends none.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.variant import Dtype
from gravbench.toolkits import binaries, compile_cache, driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.device_sums import Texts, made

ROWS_AT_ONCE = 1 << 18
"""Rows per launch: enough to fill a GPU, and few enough not to hold one that also draws a screen for long."""

BLOCK = 128
FEW_ROWS = 1 << 13
"""Rows up to which each has several threads, in blocks of a warp, so that they spread over the device."""
WARP = 32
PARTS = 32
"""Threads that share the exact sum of such a row; its plain sum has a warp of its own."""
LEAST_PART = 256
"""Bodies that one of them adds up, at least."""

# The first blocks compute plain sums, which take longest. Of few rows each has a warp: all its lanes compute terms, and
# one lane per sum adds these in the order of the bodies. Part by part, the exact sums of all rows follow one another.
KERNEL = """
def {name}(bodies, eps2, rounded, small, rows, parts, sums, magnitudes, plain):
    terms = cuda.shared.array(({warp}, {sums}), real)
    n = bodies.shape[1]
    width = cuda.blockDim.x
    thread = cuda.threadIdx.x
    groups = (rows.size + width - 1) // width
    few = width == {warp}
    block = cuda.blockIdx.x
    plain_blocks = rows.size if few else groups
    if block >= plain_blocks:
        part = (block - plain_blocks) // groups
        row = (block - plain_blocks) % groups * width + thread
        if row < rows.size:
            first, last = part * n // parts, (part + 1) * n // parts
            exact_row(bodies, eps2, rows[row], first, last, part * rows.size + row, sums, magnitudes)
    elif few:
        total = real(0.0)
        for first in range(0, n, {warp}):
            if first + thread < n:
                plain_terms(rounded, small, rows[block], first + thread, thread, terms)
            else:
                for place in range({sums}):
                    terms[thread, place] = real(0.0)
            cuda.syncthreads()
            if thread < {sums}:
                for lane in range({warp}):
                    total += terms[lane, thread]
            cuda.syncthreads()
        if thread < {sums}:
            plain[block, thread] = total
    elif block * width + thread < rows.size:
        row = block * width + thread
        plain_row(rounded, small, rows[row], 0, n, row, plain)
"""


Launch = Callable[[int, int, tuple[Any, ...], int], None]
"""Launches blocks of so many threads with arguments, of which the last so many are results, and waits for it."""


def sum_rows(texts: Texts, sums: int, dtype: Dtype) -> Callable[..., None]:
    """Return what adds up rows: of ``sums`` sums, on the GPU of the current context."""
    launch = launcher(texts, sums, dtype)

    def summed(bodies: Any, eps2: float, rounded: Any, small: Any, rows: NDArray[np.int64], *results: Any) -> None:
        parts = parts_of(rows.size, bodies.shape[1], sums)
        block = WARP if parts else BLOCK
        parts = max(1, parts)
        for first in range(0, rows.size, ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            some_rows = np.ascontiguousarray(rows[part])
            size = some_rows.size
            groups = -(-size // block)
            blocks = (size if block == WARP else groups) + parts * groups
            exact, magnitudes = np.empty((2, parts * size, sums))
            plain = np.empty((size, sums), results[2].dtype)
            launch(blocks, block, (bodies, eps2, rounded, small, some_rows, parts, exact, magnitudes, plain), 3)
            # In more digits than float64 has: a kernel's sum in float64 is judged by this one.
            results[0][part] = exact.reshape(parts, size, -1).sum(axis=0, dtype=np.longdouble) if parts > 1 else exact
            results[1][part] = magnitudes.reshape(parts, size, -1).sum(axis=0) if parts > 1 else magnitudes
            results[2][part] = plain

    return summed


def parts_of(rows: int, n: int, sums: int) -> int:
    """Return the number of threads that share the exact sum of a row; 0 where one has all, and the plain sum too."""
    return 0 if rows > FEW_ROWS or sums > WARP else max(1, min(PARTS, n // LEAST_PART))


def function(texts: Texts, sums: int, dtype: Dtype, cuda: Any, libdevice: Any) -> Callable[..., None]:
    """Make the kernel's function, for ``cuda.jit``; ``cuda`` and ``libdevice`` are numba.cuda's."""
    real = np.dtype(dtype).type
    inverse_sqrt = libdevice.rsqrtf if dtype == "float32" else libdevice.rsqrt

    def device(text: str, **known: Any) -> Any:
        return cuda.jit(device=True)(made(text, **known))

    known = {
        "exact_row": device(texts.exact, inverse_sqrt=libdevice.rsqrt),
        "plain_row": device(texts.plain, inverse_sqrt=inverse_sqrt, real=real),
        "plain_terms": device(texts.terms, inverse_sqrt=inverse_sqrt, real=real),
    }
    text = KERNEL.format(name="sum_rows", warp=WARP, sums=sums)
    return made(text, cuda=cuda, real=real, **known)


def launcher(texts: Texts, sums: int, dtype: Dtype) -> Launch:
    """Return what launches the kernel; it is compiled, or loaded, at the first launch."""
    images: list[Binary] = []

    def launch(blocks: int, block: int, arguments: tuple[Any, ...], results: int) -> None:
        if not images:
            key = _key(texts, sums, dtype)
            images.append(binaries.binary(key, lambda: _compiled(texts, sums, dtype, arguments))[0])
        kernel = driver.load_function(images[0].code, images[0].kernel)
        _launch(kernel, blocks, block, arguments, results)

    return launch


def parameters(arguments: Iterable[Any], places: Mapping[int, int]) -> list[Any]:
    """Return a kernel's parameters as numba.cuda lays them out, in the types of ``ctypes``.

    ``places`` has the device's address of each array, by its ``id``. The driver copies as many bytes of each as the
    kernel says.
    """
    laid_out: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            numbers = (0, 0, argument.size, argument.itemsize, places[id(argument)], *argument.shape, *argument.strides)
            laid_out += map(ctypes.c_int64, numbers)
        elif isinstance(argument, np.float32):
            laid_out.append(ctypes.c_float(float(argument)))
        elif isinstance(argument, float):
            laid_out.append(ctypes.c_double(argument))
        else:
            laid_out.append(ctypes.c_int64(argument))
    return laid_out


def _launch(kernel: int, blocks: int, block: int, arguments: tuple[Any, ...], results: int) -> None:
    """Copy the arrays to the device in one piece, launch, and copy the last ``results`` of them back in one."""
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    starts = driver.starts_of(arrays)
    taken = starts[len(arrays) - results]
    host = np.empty(starts[-1], np.uint8)
    # A view of each array's place.
    views = [
        host[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
        for array, first in zip(arrays, starts, strict=False)
    ]
    for view, array in zip(views[:-results], arrays, strict=False):
        view[...] = array
    with driver.allocated(host.nbytes) as memory:
        driver.copy_in(memory, host[:taken])
        places = {id(array): memory + first for array, first in zip(arrays, starts, strict=False)}
        driver.launch(kernel, blocks, block, parameters(arguments, places))
        driver.copy_out(host[taken:], memory + taken)
    for view, array in zip(views[-results:], arrays[-results:], strict=True):
        array[...] = view


def _compiled(texts: Texts, sums: int, dtype: Dtype, arguments: tuple[Any, ...]) -> tuple[bytes, str]:
    from numba import cuda, typeof
    from numba.cuda import libdevice

    kernel = cuda.jit(function(texts, sums, dtype, cuda, libdevice)).compile(tuple(map(typeof, arguments)))
    image = kernel.library.get_cubin()
    return bytes(getattr(image, "code", image)), kernel.entry_name


def is_usable(texts: Texts, sums: int, dtype: Dtype) -> bool:
    """Tell whether the kernel has been compiled before, for the GPU of the current context, or numba.cuda is there."""
    if is_kept(texts, sums, dtype):
        return True
    if not importlib.util.find_spec("numba"):
        return False
    try:
        from numba import cuda
    except ImportError:
        return False
    return bool(cuda.is_available())


def is_kept(texts: Texts, sums: int, dtype: Dtype) -> bool:
    """Tell whether the kernel has been compiled before, for the GPU of the current context."""
    with suppress(OSError, driver.DriverError):  # there is no driver, or no context
        return binaries.stored(_key(texts, sums, dtype)) is not None
    return False


def _key(texts: Texts, sums: int, dtype: Dtype) -> list[str]:
    return [*texts, KERNEL, str((WARP, sums, dtype)), driver.compute_capability(), *compiler()]


def compiler() -> tuple[str, ...]:
    """Name all that decides what numba.cuda makes of a kernel; packages for CUDA 12 have other names."""
    linkers = "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"
    return compile_cache.surroundings(
        "numba", "numba-cuda", "llvmlite", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12", *linkers
    )
