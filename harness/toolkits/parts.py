"""Kernels below ``variants/parts`` that belong to no variant: the integrator, and the force between two sets of bodies.

A part has the files of a variant (``STEM.py``, ``STEM.cu``) and no axes, no parent and no place in the ladder.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gravbench.model.interaction import Interaction
from gravbench.model.variant import BUILT_IN, CUDA_C_TOOLKITS, Kernel, cuda_source
from gravbench.toolkits.interface import DeviceToolkit, GpuToolkit

BLOCK = 128
"""Threads per block of every part on a GPU."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part, by its stem."""

    name: str

    @property
    def path(self) -> Path:
        """Its Python file."""
        return BUILT_IN / "parts" / f"{self.name}.py"

    @property
    def module(self) -> ModuleType:
        """Its module, which makes the kernels that are no CUDA C."""
        return importlib.import_module(f"gravbench.variants.parts.{self.name}")

    def cuda_source(self, interaction: Interaction) -> str:
        """Join its CUDA C with the interaction and the header of ``variants/all_pairs``."""
        return cuda_source(self.path.with_suffix(".cu"), interaction)

    def source_sha256(self, toolkit: str, interaction: Interaction) -> str:
        """Hash everything that decides what ``toolkit`` runs."""
        digest = hashlib.sha256(self.path.read_bytes())
        if toolkit in CUDA_C_TOOLKITS:
            digest.update(self.cuda_source(interaction).encode())
        return digest.hexdigest()


def launch(toolkit: DeviceToolkit, kernel: Kernel, n: int, *arguments: Any) -> None:
    """Launch a part's kernel over n bodies, one thread each; a host has no threads to count."""
    if isinstance(toolkit, GpuToolkit):
        kernel(-(-n // BLOCK), BLOCK, *arguments)
    else:
        kernel(*arguments)
