"""PyTorch: operations on whole arrays, compiled by TorchInductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import driver
from gravbench.toolkits.interface import FirstCall, GpuToolkit

ENTRY = Entry(
    place=5, family="cuda", title="PyTorch", module="torch", distributions=("torch",), extras=("torch",),
    companions=("triton",), probe="torch_compile", variables=("TORCH",),
    # Compile in this process and without caches, or the compile time would be that of a lookup or of another process.
    environment=(
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1"), ("TORCHINDUCTOR_COMPILE_THREADS", "1"),
        ("TRITON_ALWAYS_COMPILE", "1"),
    ),
    parts=("torch._dynamo", "torch._inductor.compile_fx"),
)  # fmt: skip


class TorchToolkit(GpuToolkit):
    """PyTorch on the current device."""

    name = "torch"
    refusal = "PyTorch cannot start"

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
        function = self.maker(stem)(self.torch, self.real, **constants)
        # A NumPy scalar would become an array on the host.
        return FirstCall(self, lambda *arguments: function(*map(plain, arguments)))

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
    return tuple(array_of_one(each) if isinstance(each, np.floating) else plain(each) for each in arguments)


def plain(argument: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return anything else unchanged."""
    return argument.item() if isinstance(argument, np.generic) else argument
