"""A toolkit that compiles and computes nothing: it notes which kernels a variant asks for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model import generators
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Axes, Dtype, Kernel, Variant


@dataclass(frozen=True, slots=True)
class Asked:
    """A kernel that a variant asks for: the function's name and the constants that it is compiled with.

    ``threads`` are those of a block, None where it was not launched.
    """

    stem: str
    constants: tuple[tuple[str, int], ...]
    threads: int | None = None


class Asking:
    """Stands in for a toolkit with CUDA C, on a device of ``multiprocessors``; ``asked`` is what it was asked for."""

    def __init__(self, dtype: Dtype, interaction: Interaction, multiprocessors: int = 132) -> None:
        """Nothing has been asked for yet."""
        self.real: type[np.floating[Any]] = np.float32 if dtype == "float32" else np.float64
        self.interaction = interaction
        self.multiprocessors = multiprocessors
        self.asked: list[Asked] = []
        self.launched: list[tuple[str, tuple[Any, ...]]] = []

    def upload(self, values: Any) -> NDArray[Any]:
        """Return them on the host, as ``real``."""
        return np.asarray(values, self.real)

    def empty(self, *shape: int) -> NDArray[Any]:
        """Make an array filled with NaN."""
        return np.full(shape, np.nan, self.real)

    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:  # noqa: ARG002
        """Make an array that is not filled."""
        return np.empty(shape, dtype)

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Make an array that is not filled."""
        return np.empty(shape, dtype)

    def stream(self) -> None:
        """There are no queues."""

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def wait(self, stream: None = None) -> None:
        """There is nothing to wait for."""

    def send(self, array: Any, values: NDArray[Any], stream: None) -> None:
        """Copy nothing: what computes is not there."""

    def fetch(self, values: NDArray[Any], array: Any, stream: None) -> None:  # noqa: ARG002
        """Fill with zeros."""
        values[...] = 0

    def argsort(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Return places that are all the first."""
        return np.zeros(len(keys), np.int64)

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Launch once, and then each time anew."""
        launch()
        return launch

    def devices(self, count: int) -> list[Asking]:
        """Let this one stand for all GPUs."""
        return [self] * count

    def current(self) -> AbstractContextManager[None]:
        """Change nothing: there is one."""
        return nullcontext()

    def mark(self) -> Asking:
        """Stand for a mark in a stream, too."""
        return self

    def record(self) -> None:
        """There are no queues."""

    def reaches(self, other: Any) -> bool:  # noqa: ARG002
        """There is one, which reaches itself."""
        return True

    def compile(self, stem: str, /, **constants: int) -> Kernel:
        """Note the kernel; what is returned notes its launches."""
        self.asked.append(Asked(stem, tuple(constants.items())))
        return lambda *arguments, **_: self.launched.append((stem, arguments))


def asked_of(
    variant: Variant, axes: Axes, dtype: Dtype, interaction: Interaction, n: int = 65536, multiprocessors: int = 132
) -> list[Asked]:
    """Return the kernels that a variant asks for with these axes, for n bodies, in its order."""
    toolkit = Asking(dtype, interaction, multiprocessors)
    prepared = variant.prepare(toolkit, generators.plummer(n, 1, 0.025), **variant.complete(axes))
    # P is the threads of a block, and Q those of a body. Where neither is said, one launch says it.
    if not toolkit.launched and not any("P" in dict(one.constants) for one in toolkit.asked):
        prepared.launch()
    launched = {
        stem: prod(arguments[1]) if isinstance(arguments[1], tuple) else int(arguments[1])
        for stem, arguments in toolkit.launched
    }
    return [replace(one, threads=launched.get(one.stem, _threads(dict(one.constants)))) for one in toolkit.asked]


def _threads(constants: dict[str, int]) -> int | None:
    return constants["P"] * constants.get("Q", 1) if "P" in constants else None
