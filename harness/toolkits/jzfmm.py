"""JZ-FMM: a fast multipole method on the GPU, called through JAX."""

from __future__ import annotations

import importlib.metadata

from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits.jax import JaxKernel, JaxToolkit

ENTRY = Entry(
    place=12, family="cuda", title="JZ-FMM", module="jzfmm", distributions=("jzfmm",), extras=("jzfmm",),
    companions=("jzfmm-cu13", "jzfmm-cu12", "jztree", "jax", "jaxlib"), probe="jzfmm_multipoles"
)  # fmt: skip


class JzfmmToolkit(JaxToolkit):
    """JZ-FMM on the GPU that JAX uses."""

    name = "jzfmm"
    refusal = "JZ-FMM cannot start"

    def start(self) -> None:
        super().start()
        import jzfmm

        self.jzfmm = jzfmm

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return JaxKernel(self, self.maker(stem)(self.jzfmm, self.real, **constants))

    @property
    def compiler(self) -> str:
        return f"{super().compiler}, kernels of jzfmm {importlib.metadata.version('jzfmm')}"
