"""cuTile: kernels written for tiles of arrays, compiled by NVIDIA's tileiras, over arrays of CuPy."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np

from gravbench.model.toolkits import Entry, versions
from gravbench.model.variant import Kernel
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.interface import FirstCall
from gravbench.toolkits.jobs import Image, Job
from gravbench.toolkits.torch import passed

COMPILER = "nvidia-cuda-tileiras"

ENTRY = Entry(
    place=7, family="cuda", title="cuTile", module="cuda.tile", distributions=("cuda-tile",), extras=("cutile",),
    companions=(COMPILER, "cupy-cuda13x"), probe="cutile_tiles"
)  # fmt: skip


def image(job: Job, architecture: str) -> Image:
    """Compile a kernel for an architecture such as ``sm_90``, without a GPU."""
    from cuda import tile
    from cuda.tile import compilation

    kernel = job.source.module.cutile_kernel(tile, job.real, **job.constants)
    array = compilation.ArrayConstraint(
        tile.float32,
        1,
        index_dtype=tile.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=(1,),
        base_addr_divisible_by=16,
    )
    # A real number is passed as an array of one element.
    constraints = [
        compilation.ScalarConstraint(tile.int32) if isinstance(each, np.integer) else array for each in job.arguments
    ]
    signature = compilation.KernelSignature(constraints, compilation.CallingConvention.cutile_python_v1(), job.stem)
    built = BytesIO()
    compilation.export_kernel(kernel, [signature], built, gpu_code=architecture, output_format="cubin")
    return Image(built.getvalue(), job.stem)


class CutileToolkit(CupyToolkit):
    """cuTile on CuPy's current device and stream."""

    name = "cutile"
    refusal = "cuTile cannot start"

    def start(self) -> None:
        super().start()
        import cuda.tile

        self.tile = cuda.tile

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        kernel = self.maker(stem)(self.tile, self.real, **constants)
        # A Python float has no width of its own, so a real number is passed as an array of one element.
        array_of_one = lru_cache(lambda value: self.upload(np.array([value])))

        def launch(grid: int, *arguments: Any) -> None:
            stream = self.cupy.cuda.get_current_stream()
            self.tile.launch(stream, (grid,), kernel, passed(arguments, array_of_one))

        return FirstCall(self, launch)

    @property
    def compiler(self) -> str:
        return ", ".join(versions((COMPILER,))) or "tileiras"
