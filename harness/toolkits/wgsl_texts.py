"""The complete WGSL of the kernels that a variant launches, without a device and without a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from gravbench.errors import InputError
from gravbench.model import generators, wgsl
from gravbench.model.interaction import Interaction
from gravbench.model.variant import AxisValue, Variant
from gravbench.toolkits.recording import RecordingToolkit

TOOLKIT = "wgpu"
BODIES = 65536
"""For so many, where nothing else is said: some variants choose bodies per thread by their number."""


@dataclass(frozen=True, slots=True)
class Text:
    """The WGSL of one kernel, for blocks of so many ``threads``; a launch runs the ``entry_points`` in their order."""

    kernel: str
    text: str
    threads: int
    entry_points: tuple[str, ...]


def texts(variant: Variant, axes: Mapping[str, AxisValue], interaction: Interaction, n: int = BODIES) -> list[Text]:
    """Return the text of each kernel that an evaluation of n bodies launches, in the order of the first launches.

    ``axes`` may be some of the variant's; the others have their defaults on WebGPU.

    Raises:
        InputError: the variant has no kernel in WGSL.
    """
    path = variant.path.with_suffix(wgsl.SUFFIX)
    if TOOLKIT not in variant.toolkits:
        raise InputError(f"{variant.name} has no kernel in WGSL: there is no {path.name}")
    recorder = RecordingToolkit("float32", interaction)
    chosen = variant.adapted(variant.complete(axes), TOOLKIT, axes)
    variant.prepare(recorder, generators.plummer(n, 1, 0.025), **chosen).launch()
    constants = {kernel.stem: dict(kernel.constants) for kernel in recorder.kernels}
    blocks = {kernel: arguments[1] for kernel, arguments in reversed(recorder.launched)}
    made = []
    for kernel in dict.fromkeys(kernel for kernel, _ in recorder.launched):
        threads = prod(blocks[kernel]) if isinstance(blocks[kernel], tuple) else blocks[kernel]
        text = wgsl.kernel_text(path, interaction, {**constants[kernel], wgsl.THREADS: threads})
        made.append(Text(kernel, text, threads, tuple(wgsl.entry_points(text, kernel))))
    return made
