"""What a compiler is given and what it makes, where it needs no device.

The file of such a toolkit has a function ``image``, which compiles one kernel for an architecture, or ``build_ahead``,
which compiles one into the cache that sessions look into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gravbench.model.interaction import Interaction
from gravbench.model.variant import Dtype, Source


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to be compiled: its stem, its constants, and the launch that it is compiled for.

    ``arguments`` are those of the launch: arrays, of which only the type of the elements and the layout count, and
    numbers of NumPy. ``threads`` are those of a block. CUDA C needs neither.
    """

    source: Source
    stem: str
    constants: Mapping[str, int]
    real: type[np.floating[Any]]
    interaction: Interaction
    threads: int
    arguments: Sequence[Any]

    @property
    def dtype(self) -> Dtype:
        """The type of every real number in the kernel."""
        return "float32" if self.real is np.float32 else "float64"


@dataclass(frozen=True, slots=True)
class Image:
    """A compiled kernel: a cubin or a text of PTX, and the name that the kernel has in it."""

    code: bytes
    kernel: str
