"""Which kernels a variant asks for."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from gravbench.model import generators
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Axes, Dtype, Variant
from gravbench.toolkits.recording import RecordedKernel, RecordingToolkit


def asked_of(
    variant: Variant, axes: Axes, dtype: Dtype, interaction: Interaction, n: int = 65536, multiprocessors: int = 132
) -> list[RecordedKernel]:
    """Return the kernels that a variant asks for with these axes, for n bodies, in its order."""
    toolkit = RecordingToolkit(dtype, interaction, multiprocessors)
    prepared = variant.prepare(toolkit, generators.plummer(n, 1, 0.025), **variant.complete(axes))
    # P is the threads of a block, and Q those of a body. Where neither is said, one launch says it.
    if not toolkit.launched and not any("P" in dict(kernel.constants) for kernel in toolkit.kernels):
        prepared.launch()
    launched = {
        stem: prod(arguments[1]) if isinstance(arguments[1], tuple) else int(arguments[1])
        for stem, arguments in toolkit.launched
    }
    return [
        replace(kernel, threads=launched.get(kernel.stem, _threads(dict(kernel.constants))))
        for kernel in toolkit.kernels
    ]


def _threads(constants: dict[str, int]) -> int | None:
    return constants["P"] * constants.get("Q", 1) if "P" in constants else None
