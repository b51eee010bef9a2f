"""Which kernels a variant asks for, and how it launches them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Axes, Dtype, Variant
from gravbench.toolkits.recording import RecordedKernel, RecordingToolkit, extents


@dataclass(frozen=True, slots=True)
class Launches:
    """What one evaluation launches: ``count`` kernels, and of each, by its name, blocks and threads at first.

    ``kernels`` are those that were compiled; after ``cycle`` evaluations each pair was computed once.
    """

    kernels: tuple[RecordedKernel, ...]
    shapes: Mapping[str, tuple[int, int]]
    count: int
    cycle: int


def launches_of(
    variant: Variant, axes: Axes, dtype: Dtype, interaction: Interaction, bodies: Bodies, multiprocessors: int
) -> Launches:
    """Return what a variant launches with all of these axes on a device of so many multiprocessors."""
    toolkit = RecordingToolkit(dtype, interaction, multiprocessors)
    prepared = variant.prepare(toolkit, bodies, **axes)
    toolkit.launched.clear()
    with contextlib.suppress(Exception):  # what looks at results that were not computed
        prepared.launch()
    shapes = {
        stem: (prod(extents(grid)), prod(extents(block))) for stem, (grid, block, *_) in reversed(toolkit.launched)
    }
    count = max(len(toolkit.launched), prepared.kernels)
    return Launches(tuple(toolkit.kernels), shapes, count, prepared.cycle)


def asked_of(
    variant: Variant, axes: Axes, dtype: Dtype, interaction: Interaction, n: int = 65536, multiprocessors: int = 132
) -> list[RecordedKernel]:
    """Return the kernels that a variant asks for with these axes, for n bodies, in its order."""
    toolkit = RecordingToolkit(dtype, interaction, multiprocessors)
    prepared = variant.prepare(toolkit, generators.plummer(n, 1, 0.025), **variant.complete(axes))
    # P is the threads of a block, and Q those of a body. Where neither is said, one launch says it.
    if not toolkit.launched and not any("P" in dict(kernel.constants) for kernel in toolkit.kernels):
        prepared.launch()
    launched = {stem: prod(extents(block)) for stem, (_, block, *_) in toolkit.launched}
    return [
        replace(kernel, threads=launched.get(kernel.stem, _threads(dict(kernel.constants))))
        for kernel in toolkit.kernels
    ]


def _threads(constants: dict[str, int]) -> int | None:
    return constants["P"] * constants.get("Q", 1) if "P" in constants else None
