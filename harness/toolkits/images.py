"""Kernels that a compiler of their own language turns into machine code, and that CuPy loads and launches.

Such a compiler needs no GPU. The file of its toolkit has a function ``image``, which compiles one kernel for an
architecture; what prints machine code calls the same function.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from gravbench.model.variant import Kernel
from gravbench.toolkits import binaries, driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.compile_cache import surroundings
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.jobs import Image, Job


def compiled(
    image: Callable[[Job, str], Image], content: Sequence[str], versions: Sequence[str], job: Job, architecture: str
) -> tuple[Binary, bool]:
    """Return what ``image`` makes of a job, and whether it was compiled now.

    ``content`` is the text that it compiles, or a description of it, and ``versions`` name the compiler.
    """
    launch = [str(job.threads), *(_kind(argument) for argument in job.arguments)]
    constants = sorted(f"{name}={value}" for name, value in job.constants.items())
    key = [*content, job.stem, *constants, job.dtype, *launch, architecture, *versions, *surroundings()]

    def compile_image() -> tuple[bytes, str]:
        made = image(job, architecture)
        return made.code, made.kernel

    return binaries.binary(key, compile_image)


def _kind(argument: Any) -> str:
    return f"{'number' if isinstance(argument, np.generic) else 'array'} {np.dtype(argument.dtype).name}"


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
            toolkit = self.toolkit
            job = Job(
                toolkit.variant, self.stem, self.constants, toolkit.real, toolkit.interaction, prod(launch.extents),
                arguments,
            )  # fmt: skip
            binary, compiled_now = toolkit.compiled(job)
            toolkit.count_binary(binary, compiled_now=compiled_now)
            self.function = toolkit.load(binary.code, binary.kernel)
        self.launch = launch
        self.function((grid,), launch.extents, arguments)


class ImageToolkit(CupyToolkit):
    """A compiler beside CuPy, on CuPy's current device and stream."""

    @abstractmethod
    def compiled(self, job: Job) -> tuple[Binary, bool]:
        """Return a kernel compiled for the current device, and whether it was compiled now."""

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return _Kernel(self, stem, constants)
