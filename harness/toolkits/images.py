"""Kernels that a compiler of their own language turns into machine code, and that CuPy loads and launches.

Such a compiler needs no GPU. The file of its toolkit has a function ``image``, which compiles one kernel for an
architecture; what prints machine code calls the same function.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gravbench.model.record import Resources
from gravbench.model.variant import Kernel, Source
from gravbench.toolkits import driver
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.interface import CompiledError, compiling


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to be compiled: its stem, its constants, and the launch that it is compiled for.

    ``arguments`` are those of the launch: arrays, of which only the type of the elements counts, and numbers of NumPy.
    ``threads`` are those of a block.
    """

    source: Source
    stem: str
    constants: Mapping[str, int]
    real: type[np.floating[Any]]
    threads: int
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Image:
    """A compiled kernel: a cubin or a text of PTX, and the name that the kernel has in it."""

    code: bytes
    kernel: str


class _Kernel:
    """Compiled at its first launch, when the types of the arguments are known."""

    def __init__(self, toolkit: ImageToolkit, stem: str, constants: Mapping[str, int]) -> None:
        self.toolkit = toolkit
        self.stem = stem
        self.constants = constants
        self.function: Any = None
        self.launch = driver.Launch(0, 0)

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any) -> None:
        launch = driver.Launch(grid, block)
        if self.function is None:
            with compiling(self.toolkit):
                own = self.toolkit
                job = Job(own.variant, self.stem, self.constants, own.real, prod(launch.extents), arguments)
                self.function = own.load(own.image(job))
        if self.toolkit.only_compiles:
            raise CompiledError
        self.launch = launch
        self.function((grid,), launch.extents, arguments)


class ImageToolkit(CupyToolkit):
    """A compiler beside CuPy, on CuPy's current device and stream."""

    compiles_at_launch = True

    @abstractmethod
    def image(self, job: Job) -> Image:
        """Compile a kernel for the current device."""

    @property
    def architecture(self) -> str:
        """The current device's, such as ``sm_90``."""
        return f"sm_{driver.compute_capability().replace('.', '')}"

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return _Kernel(self, stem, constants)

    def load(self, image: Image) -> Any:
        """Load a kernel into the current context; what is returned is launched as CuPy launches a function."""
        module = self.cupy.cuda.function.Module()
        module.load(image.code)
        return module.get_function(image.kernel)

    def resources(self, kernel: Any) -> Resources:
        return driver.resources(int(kernel.function.ptr), kernel.launch)
