"""Mojo: kernels in files of their own, compiled to PTX by Mojo's compiler, over arrays of CuPy."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from gravbench.model import files
from gravbench.model.toolkits import Entry, versions
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.images import ImageToolkit, compiled
from gravbench.toolkits.jobs import Image, Job

SUFFIX = ".mojo"

ENTRY = Entry(
    place=9, family="cuda", title="Mojo", module="mojo", distributions=("mojo-compiler",), extras=("mojo",),
    companions=("max-core", "max-mojo-libs", "cupy-cuda13x"), probe="mojo_tiles", suffix=SUFFIX
)  # fmt: skip

MAIN = """

from max.gpu.host.compile import get_gpu_target
from std.compile import compile_info


def main():
    print(compile_info[{kernel}, emission_kind="asm", target=get_gpu_target["{architecture}"]()]().asm)
"""
"""A program that prints a kernel of the text before it as PTX."""


def image(job: Job, architecture: str) -> Image:
    """Compile a kernel to PTX for an architecture such as ``sm_90``, without a GPU.

    Raises:
        RuntimeError: Mojo refuses it.
    """
    from mojo.run import subprocess_run_mojo

    text = _text(job) + MAIN.format(kernel=job.stem, architecture=architecture)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / f"{job.stem}{SUFFIX}"
        program.write_text(text, "utf-8")
        defined = [word for name, value in job.constants.items() for word in ("-D", f"{name}={value}")]
        done: subprocess.CompletedProcess[str] = subprocess_run_mojo(
            ["run", *defined, str(program)], capture_output=True, text=True
        )
    entry = re.search(r"\.entry (\w+)", done.stdout)
    if done.returncode or entry is None:
        raise RuntimeError("; ".join(line for line in done.stderr.splitlines() if "error:" in line))
    return Image(done.stdout.encode(), entry[1])


def _text(job: Job) -> str:
    return files.text(Path(str(job.source.module.__file__)).with_suffix(SUFFIX))


def _compiled(job: Job, architecture: str) -> tuple[Binary, bool]:
    return compiled(image, [_text(job)], versions(ENTRY.distributions + ENTRY.companions), job, architecture)


def build_ahead(job: Job, architecture: str) -> bool:
    """Compile a kernel without a device, for sessions that find it; return whether it was compiled now."""
    return _compiled(job, architecture)[1]


class MojoToolkit(ImageToolkit):
    """Mojo on CuPy's current device and stream."""

    name = "mojo"
    refusal = "Mojo cannot start"

    def compiled(self, job: Job) -> tuple[Binary, bool]:
        return _compiled(job, self.architecture)

    @property
    def compiler(self) -> str:
        """Mojo's, which makes PTX; the driver, whose version a record has too, makes machine code of it."""
        return versions(("mojo-compiler",))[0].replace("mojo-compiler", "Mojo")
