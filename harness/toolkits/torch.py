"""PyTorch: operations on whole arrays, compiled by TorchInductor."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import driver
from gravbench.toolkits.interface import CompiledError, FirstCall, GpuToolkit

ENTRY = Entry(
    place=5, title="PyTorch", module="torch", distributions=("torch",), extras=("torch",),
    companions=("triton",), probe="torch_compile",
    # Compile in this process and without caches, or the compile time would be that of a lookup or of another process.
    environment=(
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1"), ("TORCHINDUCTOR_COMPILE_THREADS", "1"),
        ("TRITON_ALWAYS_COMPILE", "1"),
    )
)  # fmt: skip


class TorchToolkit(GpuToolkit):
    """PyTorch on the current device."""

    name = "torch"
    refusal = "PyTorch cannot start"
    _ends: tuple[bool, ...] = ()
    """For each kernel, whether a launch that only compiles ends before anything is launched."""

    def start(self) -> None:
        ENTRY.load()
        import torch

        torch.cuda.init()
        driver.use_device()
        self.torch = torch

    def upload(self, values: NDArray[Any]) -> Any:
        return self._on_host(values).to("cuda")

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.copy_(self._on_host(values))

    def _on_host(self, values: NDArray[Any]) -> Any:
        # PyTorch shares the memory of what it is given, and warns where that may not be written.
        return self.torch.from_numpy(np.require(values, self.real, ["C", "W"]))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array.cpu().numpy())

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        with suppress(ImportError):  # what compiles is imported by the first launch otherwise, which holds the device
            importlib.import_module("torch._inductor.compile_fx")
        with self._ending_compilation():
            function = self.maker(stem)(self.torch, self.real, **constants)
        # A NumPy scalar would become an array on the host.
        return FirstCall(self, lambda *arguments: function(*map(plain, arguments)))

    @contextmanager
    def _ending_compilation(self) -> Iterator[None]:
        """Have what ``torch.compile`` makes end before its first launch where kernels are only compiled."""
        from torch._dynamo import lookup_backend

        def inductor(graph: Any, inputs: Any) -> Callable[..., Any]:
            made: Callable[..., Any] = lookup_backend("inductor")(graph, inputs)

            def run(*arguments: Any) -> Any:
                if self.only_compiles:
                    raise CompiledError
                return made(*arguments)

            return run

        def wrapped(*arguments: Any, **options: Any) -> Any:
            # A decorator calls this again, with all options there are.
            default = options.get("backend") in (None, "inductor", inductor)
            own.append(not default or any(options.get(name) is not None for name in ("mode", "options")))
            return compile_(*arguments, **(options if own[-1] else options | {"backend": inductor}))

        own: list[bool] = []
        compile_, self.torch.compile = self.torch.compile, wrapped
        try:
            yield
        finally:
            self.torch.compile = compile_
        # With options of one's own, compiling may launch.
        self._ends = (*self._ends, own != [] and not any(own))
        self.compiles_at_launch = all(self._ends)

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def release(self) -> None:
        self.torch.cuda.empty_cache()

    @property
    def current_stream(self) -> int:
        return int(self.torch.cuda.current_stream().cuda_stream)

    @property
    def compiler(self) -> str:
        return f"TorchInductor {self.torch.__version__}"


def passed(arguments: Sequence[Any], array_of_one: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Convert arguments for a language whose real numbers have no width: those become arrays of one element."""
    return tuple(array_of_one(one) if isinstance(one, np.floating) else plain(one) for one in arguments)


def plain(argument: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return anything else unchanged."""
    return argument.item() if isinstance(argument, np.generic) else argument
