"""numba-cuda-mlir: the kernels of numba.cuda, compiled through MLIR by the designated successor of numba-cuda."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gravbench.errors import InputError
from gravbench.model.interaction import Interaction
from gravbench.model.toolkits import Entry, versions
from gravbench.model.variant import Kernel
from gravbench.toolkits.interface import compiling
from gravbench.toolkits.jobs import Image, Job
from gravbench.toolkits.numba import NumbaToolkit

DISTRIBUTIONS = ("numba-cuda-mlir",)

ENTRY = Entry(
    place=4, family="cuda", title="numba-cuda-mlir", module="numba_cuda_mlir", distributions=DISTRIBUTIONS,
    extras=("mlir",),
    companions=("nvidia-nvvm", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"), flags=("fastmath=True",), probe="naive",
    python=True, by_name=True, only_context=True
)  # fmt: skip


def _check(interaction: Interaction) -> None:
    """Raise an InputError for an interaction of one sum: a tuple of one number cannot be carried through a loop."""
    if len(interaction.sums) == 1:
        raise InputError(
            f"{interaction.name} has one sum; accepted by numba-cuda-mlir 0.6: interactions of two sums or more"
        )


def image(job: Job, architecture: str) -> Image:
    """Compile a kernel for an architecture such as ``sm_90``, without a GPU."""
    _check(job.interaction)
    from numba_cuda_mlir import cuda, tools

    kernel = job.source.module.mlir_kernel(cuda, job.real, job.interaction, **job.constants)
    kernel.targetoptions["chip"] = architecture
    device = tools._cached_cc
    # Even when it is told an architecture it asks for that of the device, to link for it.
    tools._cached_cc = tools.parse_compute_capability(architecture)
    try:
        compiled = kernel.compile_for(*job.arguments)
    finally:
        tools._cached_cc = device
    return Image(compiled.metadata["cubin"], compiled.metadata["func_name"])


class MlirToolkit(NumbaToolkit):
    """numba-cuda-mlir on the current device. It has no simulator, and its interface is that of numba.cuda."""

    name = "mlir"
    refusal = "numba-cuda-mlir cannot start"
    simulated = False

    def start(self) -> None:
        from numba_cuda_mlir import cuda

        cuda.current_context()
        self.cuda = cuda

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        _check(self.interaction)
        return super().build(stem, constants)

    def specialized(self, dispatcher: Any, arguments: Sequence[Any]) -> Any:
        with compiling(self):
            return dispatcher.specialize(*arguments)

    def function(self, handle: int) -> int:
        return handle

    @property
    def compiler(self) -> str:
        return ", ".join(versions(DISTRIBUTIONS))
