"""Kernels below ``variants/parts`` that belong to no variant: the integrator, and the force between two sets of bodies.

A part has the files of a variant (``STEM.py``, ``STEM.cu``) and no axes, no parent and no place in the ladder.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gravbench.model.interaction import Interaction
from gravbench.model.stem_code import BUILT_IN, code_sha256, cuda_source
from gravbench.model.variant import Kernel
from gravbench.toolkits.interface import DeviceToolkit

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

    def code_sha256(self, toolkit: str, interaction: Interaction) -> str:
        """Hash what ``toolkit`` runs of it."""
        return code_sha256(self.path, toolkit, interaction)


def launch(toolkit: DeviceToolkit, kernel: Kernel, n: int, *arguments: Any) -> None:
    """Launch a part's kernel over n bodies, one thread each; a host has no threads to count."""
    if toolkit.launches_blocks:
        kernel(-(-n // BLOCK), BLOCK, *arguments)
    else:
        kernel(*arguments)
