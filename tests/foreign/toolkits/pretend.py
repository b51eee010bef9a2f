"""Pretended devices that compute on the host, with memory and a clock of their own, and no sensor.

All that a toolkit for other devices than CUDA's has to have: an ``ENTRY``, a ``FAMILY`` and the toolkit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.device import Device
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits.family import Family
from gravbench.toolkits.interface import DeviceToolkit, Timing, compiling

ENTRY = Entry(
    place=15, family="pretend", title="Pretended", module="numpy", distributions=("numpy",), extras=("pretend",),
    probe="pretend_tiles",
)  # fmt: skip


class PretendFamily(Family):
    """Two of them, of different kinds."""

    needs = "a pretended device"

    def devices(self) -> tuple[list[Device], str | None]:
        return [Device(f"pretend:{number}", f"Pretended {number}", driver="1.0") for number in range(2)], None


FAMILY = PretendFamily()


@dataclass(slots=True)
class Memory:
    """An array in the device's memory, which no function of NumPy reads."""

    values: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array."""
        return self.values.shape


class PretendToolkit(DeviceToolkit):
    """A queue in which every launch ends at once."""

    name = "pretend"
    refusal = "the pretended device cannot start"
    has_own_clock = True

    def start(self) -> None:
        """There is nothing to open."""

    def upload(self, values: NDArray[Any]) -> Any:
        return Memory(np.array(values, dtype=self.real, order="C"))

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        np.copyto(array.values, values, casting="same_kind")

    def download(self, array: Any) -> NDArray[Any]:
        return np.array(array.values)

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        with compiling(self):
            kernel = self.maker(stem)(np, self.real, **constants)

        def launch(*arguments: Any) -> None:
            kernel(*(one.values if isinstance(one, Memory) else one for one in arguments))

        return launch

    def synchronize(self) -> None:
        """Nothing is left in the queue."""

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None] = lambda: None) -> Timing:
        _, seconds = self.time_by_both(launch, count)
        while_busy()
        return Timing(seconds, 1e-6)

    def time_by_both(self, launch: Callable[[], None], count: int) -> tuple[float, float]:
        began = perf_counter()
        for _ in range(count):
            launch()
        seconds = (perf_counter() - began) / count
        return seconds, seconds

    @property
    def compiler(self) -> str:
        return "none"
