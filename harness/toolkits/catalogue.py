"""Each toolkit by name: the library it needs, how to install it, its flags, and how to open it.

Imports no toolkit's library before ``open_toolkit``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from functools import lru_cache

from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.interaction_files import find
from gravbench.model.variant import Dtype, Source
from gravbench.toolkits.interface import FLAGS, DeviceToolkit


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a toolkit before it is opened.

    ``distributions`` are the packages on PyPI that bring it, any one of which is enough, ``extras`` the extras of
    gravbench that install it, ``flags`` what its compiler is always given, ``companions`` the packages beside it
    that decide what it compiles to.
    """

    title: str
    module: str
    distributions: tuple[str, ...]
    extras: tuple[str, ...]
    flags: tuple[str, ...]
    companions: tuple[str, ...]

    @property
    def version(self) -> str | None:
        """The installed version and those of its companions, None where it is not installed."""
        own = versions(self.distributions)
        return ", ".join([*own[:1], *versions(self.companions)]) if own else None

    @property
    def missing(self) -> str | None:
        """Say why it is not usable and how to mend that; None when its library is installed."""
        if _installed(self.module):
            return None
        return f"{self.title} is not installed; {self.mend}"

    @property
    def mend(self) -> str:
        """The command that installs it."""
        return "install it with: " + " or ".join(f"pip install 'gravbench[{extra}]'" for extra in self.extras)


@lru_cache
def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


# Once per process: a plan asks for every case, and each answer is read from a file.
@lru_cache
def versions(distributions: tuple[str, ...]) -> list[str]:
    """Name the installed ones of these packages with their versions."""
    found = []
    for distribution in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{distribution} {importlib.metadata.version(distribution)}")
    return found


NVRTC = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
NVVM = ("numba", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12")

CATALOGUE = {
    "cupy": Entry("CuPy", "cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), ("cuda13", "cuda12"), FLAGS, NVRTC),
    "pycuda": Entry("PyCUDA", "pycuda", ("pycuda",), ("pycuda",), FLAGS, ()),
    "numba": Entry("numba-cuda", "numba_cuda", ("numba-cuda",), ("cuda13", "cuda12"), ("fastmath=True",), NVVM),
    "torch": Entry("PyTorch", "torch", ("torch",), ("torch",), (), ("triton",)),
    "triton": Entry("Triton", "triton", ("triton",), ("triton",), (), ("torch",)),
    "jax": Entry("JAX", "jax", ("jax",), ("jax",), (), ("jaxlib", "jax-cuda13-plugin", "jax-cuda12-plugin")),
    "warp": Entry("NVIDIA Warp", "warp", ("warp-lang",), ("warp",), ("fast_math=True",), ()),
    "cpu": Entry("Numba", "numba", ("numba",), (), (), ("llvmlite", "numpy")),
}


def open_toolkit(name: str, variant: Source, dtype: Dtype, interaction: Interaction | None = None) -> DeviceToolkit:
    """Import the toolkit's library and open it on the current device for one variant; without an interaction, gravity.

    Raises:
        ToolkitMissingError: it cannot be used here, with the reason.
    """
    module = importlib.import_module(f"gravbench.toolkits.{name}")
    toolkit: DeviceToolkit = module.TOOLKIT(variant, dtype, interaction or find(GRAVITY))
    return toolkit
