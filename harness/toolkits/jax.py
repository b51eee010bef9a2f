"""JAX: functions over whole arrays, compiled by XLA.

JAX never writes into an array, so the harness holds a place for one, and a kernel returns the new arrays by the
names of its parameters. JAX gives no access to its streams: a batch is timed by the host's clock, from the first
launch until the last result is there.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import driver
from gravbench.toolkits.interface import DriverToolkit, Timing, compiling

ENTRY = Entry(
    place=10, family="cuda", title="JAX", module="jax", distributions=("jax",), extras=("jax",),
    companions=("jaxlib", "jax-cuda13-plugin", "jax-cuda12-plugin"), probe="jax_jit", variables=("JAX_", "XLA_"),
    # By default JAX takes three quarters of the memory at once.
    environment=(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),)
)  # fmt: skip


class _Array:
    """A place that holds the current JAX array."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)


class JaxKernel:
    """A function that is compiled at its first call, and puts what it returns by name into those of its arguments."""

    def __init__(self, toolkit: JaxToolkit, function: Callable[..., dict[str, Any]]) -> None:
        self.toolkit = toolkit
        self.function = function
        self.parameters = list(inspect.signature(function).parameters)
        self.compiled: Any = None

    def __call__(self, *arguments: Any) -> None:
        values = [argument.value if isinstance(argument, _Array) else argument for argument in arguments]
        if self.compiled is None:
            with compiling(self.toolkit):
                self.compiled = self.toolkit.jax.jit(self.function).lower(*values).compile()
        JaxToolkit.latest = changed = self.compiled(*values)
        for name, value in changed.items():
            arguments[self.parameters.index(name)].value = value


class JaxToolkit(DriverToolkit):
    """JAX on the first GPU that it sees."""

    name = "jax"
    refusal = "JAX cannot start on a GPU"
    latest: ClassVar[Any] = None
    """The result launched last by any instance: the device works in the order of the launches."""

    def start(self) -> None:
        ENTRY.load()
        import jax

        self.device = jax.devices("gpu")[0]
        driver.use_device()
        # Without this every float64 becomes a float32; with it, numbers without a type become float64.
        jax.config.update("jax_enable_x64", self.dtype == "float64")
        jax.config.update("jax_enable_compilation_cache", False)  # or a compile time would be that of a cache lookup
        self.jax = jax

    def upload(self, values: NDArray[Any]) -> Any:
        return _Array(self._put(values))

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.value = self._put(values)

    def _put(self, values: NDArray[Any]) -> Any:
        return self.jax.device_put(np.array(values, dtype=self.real, order="C"), self.device)

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array.value)

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return JaxKernel(self, self.maker(stem)(self.jax, self.real, **constants))

    def synchronize(self) -> None:
        self.jax.block_until_ready(JaxToolkit.latest)

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None] = lambda: None) -> Timing:
        """Time a batch by ``perf_counter``, results waited for; nothing is subtracted.

        ``while_busy`` is called right after it, because its own time would count where the device waits for the host.
        """
        self.synchronize()
        began = perf_counter()
        for _ in range(count):
            launch()
        launch_seconds = (perf_counter() - began) / count
        self.synchronize()
        seconds = (perf_counter() - began) / count
        while_busy()
        # Where one evaluation outlasts a launch, the device never waits for the host after the first.
        return Timing(seconds, launch_seconds, launch_bound=seconds <= 2 * launch_seconds)

    @property
    def compiler(self) -> str:
        return f"XLA of jaxlib {importlib.metadata.version('jaxlib')}"
