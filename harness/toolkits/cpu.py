"""The host: NumPy arrays, and functions compiled by Numba."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.blocks import cores
from gravbench.model.device import CardKind, Device, Target
from gravbench.model.toolkits import Entry
from gravbench.model.variant import CPU, Kernel
from gravbench.toolkits.compile_cache import keep
from gravbench.toolkits.devices import processor
from gravbench.toolkits.family import Family
from gravbench.toolkits.interface import Ceiling, DeviceToolkit, compiling

ENTRY = Entry(
    place=14, family="cpu", title="Numba", module="numba", distributions=("numba",), extras=(),
    companions=("llvmlite", "numpy"), probe="numba_direct", in_force=True
)  # fmt: skip

NUMBA = "numba"

FASTEST_CORE = 6.5e9
"""Cycles per second."""
A_CLOCK = 4.0
"""More interactions per clock cycle than any core can compute.

An interaction takes some 12 instructions and an inverse square root; a core starts 32 of the former per cycle, with two
512-bit units.
"""


class HostFamily(Family):
    """The host's processor."""

    needs = "a processor"
    variables = ("NUMBA_", "OMP_")

    def devices(self) -> tuple[list[Device], str | None]:
        return [processor()], None

    def card(self) -> CardKind:
        """Return the processor, which has no compute capability."""
        return _processor_kind()

    def target(self, device: Device) -> Target:  # noqa: ARG002
        """Return that its functions are called once ahead, which compiles them."""
        return Target(CPU, 0)


FAMILY = HostFamily()


@cache
def _processor_kind() -> CardKind:
    return CardKind(processor().name)


@contextmanager
def counting_numba(toolkit: DeviceToolkit) -> Iterator[None]:
    """Count as compile time of ``toolkit`` what Numba compiles for the host meanwhile, in whichever function.

    Numba compiles a function when it is first called, and variants have functions beside their kernel, such as those
    that build a tree. Most have none, and to import Numba takes half a second, so that is left to them.
    """
    with ExitStack() as listening:

        def listen() -> None:
            from numba.core import event

            keep()
            listening.enter_context(event.install_listener("numba:compile", _listener(event, toolkit)))

        with when_numba_is_imported(listen):
            yield


def _listener(event: Any, toolkit: DeviceToolkit) -> Any:
    class Compilations(event.Listener):  # type: ignore[misc]
        """Counts the outermost of compilations that start others."""

        depth = 0
        counted = ExitStack()

        def on_start(self, _: Any) -> None:
            if not self.depth:
                self.counted.enter_context(compiling(toolkit))
            self.depth += 1

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if not self.depth:
                self.counted.close()

    return Compilations()


@contextmanager
def when_numba_is_imported(act: Callable[[], None]) -> Iterator[None]:
    """Act at once if Numba has been imported, otherwise as soon as that happens within the block."""
    if sys.modules.get(NUMBA):
        act()
        yield
        return
    finder = _Finder(act)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.act = None
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds Numba as those after it do, and has its module loaded by a loader that acts then."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act
        self._asks_others = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        if name != NUMBA or self._asks_others:
            return None
        self._asks_others = True
        try:
            spec = importlib.util.find_spec(NUMBA)
        finally:
            self._asks_others = False
        if spec and spec.loader:
            loader, load = spec.loader, spec.loader.exec_module

            def load_and_act(module: ModuleType) -> None:
                loader.exec_module = load  # type: ignore[method-assign]
                load(module)
                if self.act:
                    self.act()

            loader.exec_module = load_and_act  # type: ignore[method-assign]
        return spec


class CpuToolkit(DeviceToolkit):
    """The processor this runs on."""

    name = "cpu"

    def start(self) -> None:
        """Numba is imported when there is something to compile."""

    def upload(self, values: NDArray[Any]) -> Any:
        return np.array(values, dtype=self.real, order="C")

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        np.copyto(array, values, casting="same_kind")

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        import numba

        keep()
        kernel: Kernel = self.maker(stem)(numba, self.real, **constants)
        return kernel

    def synchronize(self) -> None:
        """Nothing is left running when a call returns."""

    @property
    def ceiling(self) -> Ceiling:
        return Ceiling(A_CLOCK * cores() * FASTEST_CORE, f"{cores()} cores")

    @property
    def compiler(self) -> str:
        return _compiler()


@cache
def _compiler() -> str:
    """Read the versions once per process: each is in a file."""
    return f"Numba {importlib.metadata.version('numba')}, llvmlite {importlib.metadata.version('llvmlite')}"
