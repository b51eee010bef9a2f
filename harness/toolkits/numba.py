"""numba.cuda: kernels written in Python, compiled by NVVM, or run in Numba's simulator.

A kernel is compiled without a device, too, and kept on the disk under a hash of what it was compiled from. Its
dispatcher takes it from there, and launches it as one that it has compiled.
"""

from __future__ import annotations

import pickle
import re
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry, versions
from gravbench.model.variant import Kernel
from gravbench.toolkits import binaries, cuda_sums, driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.compile_cache import UnknownContentError, content
from gravbench.toolkits.interface import CudaToolkit, Timing, compiling, time_on_host
from gravbench.toolkits.jobs import Image, Job
from gravbench.toolkits.numba_ahead import link_time_code, without_device

ENTRY = Entry(
    place=3, family="cuda", title="numba-cuda", module="numba_cuda", distributions=("numba-cuda",),
    extras=("cuda13", "cuda12"),
    companions=("numba", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"),
    flags=("fastmath=True",), probe="naive", python=True, in_force=True, only_context=True,
    parts=("numba.cuda", "numba.cuda.libdevice"),
)  # fmt: skip

SECTION = re.compile(rb"\.text\.([\w$]+)")
"""Of machine code, with the name that Numba gives to a kernel."""


def image(job: Job, architecture: str) -> Image:
    """Compile a kernel for an architecture such as ``sm_90``, without a GPU, and link it as numba.cuda does.

    Raises:
        RuntimeError: numba.cuda is its simulator in this process.
    """
    from numba import cuda, typeof

    if is_simulated(cuda):
        raise RuntimeError("numba.cuda is its simulator, because NUMBA_ENABLE_CUDASIM is set")
    from numba.cuda.cudadrv.driver import _Linker

    capability = _capability(architecture)
    kernel = job.source.module.numba_kernel(cuda, job.real, job.interaction, **job.constants)
    code = link_time_code(kernel, [*map(typeof, job.arguments)], capability)
    linker = _Linker(cc=capability, lto=True)
    linker.add_ltoir(code)
    made = bytes(linker.complete().code)
    section = SECTION.search(made)
    assert section
    return Image(made, section[1].decode())


def is_simulated(cuda: Any) -> bool:
    """Tell whether ``numba.cuda`` is Numba's simulator."""
    # Numba's own module, where numba-cuda is not installed, has fewer names than numba-cuda's, but is no simulator.
    return "simulator" in cuda.jit.__module__


def build_ahead(job: Job, architecture: str) -> bool:
    """Compile a kernel without a device, for sessions that find it; return whether it was compiled now.

    Raises:
        RuntimeError: numba.cuda is its simulator in this process, or the kernel cannot be kept.
    """
    from numba import cuda

    if is_simulated(cuda):
        raise RuntimeError("numba.cuda is its simulator, because NUMBA_ENABLE_CUDASIM is set")
    from numba.cuda.dispatcher import _Kernel as Compiled

    dispatcher = job.source.module.numba_kernel(cuda, job.real, job.interaction, **job.constants)
    types = tuple(map(dispatcher.typeof_pyval, job.arguments))
    overloads = _Overloads(dispatcher, architecture)
    if overloads.stored(types):
        return False
    if not overloads.can_be_kept:
        raise RuntimeError(f"{job.stem} refers to something of which it is not known whether it changed")
    with without_device(_capability(architecture)):
        kernel = Compiled(dispatcher.py_func, types, **dispatcher.targetoptions)
        kernel.library.get_cubin()
    overloads.save_overload(types, kernel)
    if not overloads.stored(types):
        raise RuntimeError(f"{job.stem} by numba.cuda cannot be kept, and is compiled in the session")
    return True


def _capability(architecture: str) -> tuple[int, int]:
    number = architecture.removeprefix("sm_")
    return int(number[:-1]), int(number[-1])


class _Overloads:
    """The compiled forms of a kernel on the disk, as its dispatcher asks for them; see ``numba.cuda.core.caching``.

    ``loaded`` is the one that was there, and ``seconds`` what compiling a new one took.
    """

    def __init__(self, dispatcher: Any, architecture: str) -> None:
        self.loaded: Binary | None = None
        self._began = binaries.working_seconds()
        self._key: list[str] | None = None
        with suppress(UnknownContentError):  # such a kernel is compiled in every process
            self._key = [*content(dispatcher), architecture, *cuda_sums.compiler()]

    @property
    def can_be_kept(self) -> bool:
        """Tell whether all is known that decides what the kernel does."""
        return self._key is not None

    def stored(self, types: Sequence[Any]) -> Binary | None:
        """Return the compiled form for such arguments; None where there is none."""
        return binaries.stored([*self._key, *map(repr, types)]) if self._key else None

    def load_overload(self, types: Sequence[Any], target: Any) -> Any:
        """Return the compiled kernel, or None where it has to be compiled."""
        from numba.cuda.dispatcher import _Kernel as Compiled

        target.refresh()
        with suppress(Exception):  # of what reads it: it is compiled instead
            if binary := self.stored(types):
                kernel = Compiled._rebuild(**pickle.loads(binary.code))
                self.loaded = binary
                return kernel
        return None

    def save_overload(self, types: Sequence[Any], kernel: Any) -> None:
        """Keep a compiled kernel, where it can be."""
        from numba.cuda.serialize import dumps

        if self._key is None or getattr(kernel, "launch_config_sensitive", False):
            return
        with suppress(Exception):  # it refers to arrays on the device, or to files
            code = dumps(kernel._reduce_states())
            made = Binary(code, kernel.entry_name, binaries.working_seconds() - self._began)
            binaries.store([*self._key, *map(repr, types)], made)


class _Kernel:
    """A dispatcher that is compiled at its first launch, when the types of the arguments are known."""

    def __init__(self, toolkit: NumbaToolkit, dispatcher: Any) -> None:
        self.toolkit = toolkit
        self.dispatcher = dispatcher
        self.compiled: Any = None
        self.configured: Any = None
        self.launch = driver.Launch(0, 0)
        self.stream: Any = None

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any, stream: Any = None) -> None:
        launch = driver.Launch(grid, block)
        if self.compiled is None:
            self.compiled = self.toolkit.specialized(self.dispatcher, arguments)
        if (launch, stream) != (self.launch, self.stream):
            self.launch, self.stream = launch, stream
            with warnings.catch_warnings():
                # A grid too small for the device is something the record states, not a mistake to warn about.
                warnings.simplefilter("ignore")
                self.configured = self.compiled[grid, launch.extents, stream or 0]
        self.configured(*arguments)


class _Simulator:
    """The simulator's ``cuda`` for kernels that hold it in a closure.

    Inside a running kernel the simulator replaces the *global* name ``cuda`` by one that knows the thread; this
    does the same for a name that is not global.
    """

    def __init__(self, cuda: Any) -> None:
        from numba.cuda.simulator import kernel

        self._cuda = cuda
        self._running = kernel._get_kernel_context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._running() or self._cuda, name)


class NumbaToolkit(CudaToolkit):
    """numba.cuda on the current device, or in the simulator when ``NUMBA_ENABLE_CUDASIM=1``."""

    name = "numba"
    refusal = "numba.cuda cannot start"

    def start(self) -> None:
        from numba import cuda

        self.simulated = is_simulated(cuda)
        if not self.simulated:
            cuda.current_context()
        self.cuda = _Simulator(cuda) if self.simulated else cuda

    def upload(self, values: NDArray[Any]) -> Any:
        return self.cuda.to_device(np.ascontiguousarray(values, dtype=self.real))

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.copy_to_device(np.ascontiguousarray(values, dtype=self.real))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array.copy_to_host())

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return _Kernel(self, self.maker(stem)(self.cuda, self.real, self.interaction, **constants))

    def specialized(self, dispatcher: Any, arguments: Sequence[Any]) -> Any:
        """Return a dispatcher for arguments of one kind, compiled now or ahead; see its ``specialize``."""
        if self.simulated:
            with compiling(self):
                return dispatcher.specialize(*arguments)
        from numba.cuda.dispatcher import CUDADispatcher

        overloads = _Overloads(dispatcher, self.architecture)
        specialized = CUDADispatcher(dispatcher.py_func, targetoptions=dispatcher.targetoptions)
        specialized._cache = overloads
        began = binaries.working_seconds()
        specialized.compile(tuple(map(dispatcher.typeof_pyval, arguments)))
        specialized.disable_compile()
        specialized._specialized = True
        seconds = overloads.loaded.seconds if overloads.loaded else binaries.working_seconds() - began
        self.count(seconds, compiled_now=overloads.loaded is None)
        return specialized

    def synchronize(self) -> None:
        self.cuda.synchronize()

    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:
        # The simulator's pinned array is a plain one.
        return np.asarray(self.cuda.pinned_array(shape, dtype)) if pinned else np.empty(shape, dtype)

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        return self.cuda.device_array(shape, dtype)

    def stream(self) -> Any:
        if self.simulated:
            return self.cuda.stream()
        # Numba's own streams wait for the default one.
        handle = driver.new_stream()
        stream = self.cuda.external_stream(handle)
        weakref.finalize(stream, driver.end_stream, handle).atexit = False
        return stream

    def send(self, array: Any, values: NDArray[Any], stream: Any) -> None:
        _front(array, values).copy_to_device(values, stream=stream)

    def fetch(self, values: NDArray[Any], array: Any, stream: Any) -> None:
        _front(array, values).copy_to_host(values, stream=stream)

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None] = lambda: None) -> Timing:
        """On the host's clock in the simulator."""
        return (time_on_host if self.simulated else super().time)(launch, count, while_busy)

    def resources(self, kernel: Any) -> Resources:
        if self.simulated:
            return Resources()
        overload = next(iter(kernel.compiled.overloads.values()))
        return driver.resources(self.function(int(overload._codelibrary.get_cufunc().handle)), kernel.launch)

    def function(self, handle: int) -> int:
        """Return the driver's function of a handle that the library has."""
        return driver.function_of_kernel(handle)

    @property
    def multiprocessors(self) -> int:
        return 1 if self.simulated else super().multiprocessors

    @property
    def compute_capability(self) -> str | None:
        return None if self.simulated else super().compute_capability

    @property
    def compiler(self) -> str:
        if self.simulated:
            return "Numba's simulator"
        installed = versions(("nvidia-nvvm",))
        return installed[0].replace("nvidia-nvvm", "NVVM") if installed else "NVVM of the installed CUDA toolkit"


def _front(array: Any, values: NDArray[Any]) -> Any:
    return array if array.shape == values.shape else array[: len(values)]
