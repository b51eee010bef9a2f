"""The kernels of CUDA C that records ask for, compiled again in a process with limits.

The text of a kernel may be anybody's. It is compiled and never run. A text that is not this checkout's is refused if it
includes a file; the process that compiles has limits of time and memory, and no folder of headers for such a text.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from gravbench.explain.recorded_kernels import launches_of
from gravbench.explain.work import MOST_BODIES
from gravbench.model import generators
from gravbench.model.blocks import cores
from gravbench.model.identity import cuda_tokens
from gravbench.model.interaction_files import find
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record
from gravbench.model.toolkits import versions
from gravbench.model.variant import Axes, Dtype, Variant
from gravbench.sharing.compiling import MOST_MEMORY, MOST_SECONDS
from gravbench.sharing.run_checks import multiprocessors_of
from gravbench.toolkits import nvrtc
from gravbench.toolkits.interface import cuda_options

TOGETHER = 8
"""Kernels that one process compiles, where they are of this checkout."""
MOST_PROCESSES = 4
NO_CUDA_C = "its toolkit compiles no CUDA C"
INCLUDES = "its text includes a file"
UNKNOWN_MULTIPROCESSORS = 132
"""Of an H200, where a record does not tell; no constant of a kernel depends on it but the shape of its launch."""

Constants = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to be compiled: its text, and what it is compiled with."""

    source: str
    constants: Constants
    dtype: Dtype
    architecture: str

    @property
    def options(self) -> list[str]:
        """The compiler's options."""
        return [*cuda_options(dict(self.constants), self.dtype), f"-arch={self.architecture}"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a job: the machine code in hexadecimal digits, or why there is none."""

    cubin: str = ""
    refusal: str = ""

    @property
    def sha256(self) -> str:
        """The hash of the machine code."""
        return hashlib.sha256(bytes.fromhex(self.cubin)).hexdigest()


class Asked:
    """Says which kernels the cases of records ask for; each kind of case is prepared once, without a GPU."""

    def __init__(self, variants: Mapping[str, Variant]) -> None:
        """Know the variants of this checkout, and perhaps of one's own, by their names."""
        self.variants = variants
        self._known: dict[Hashable, tuple[tuple[str, Constants], ...] | str] = {}

    def by(self, record: Record) -> list[tuple[str, Constants]]:
        """Return the kernels that the case of a record asks for, with their constants.

        Raises:
            UnmodelledError: the variant cannot be prepared without a GPU.
        """
        multiprocessors = multiprocessors_of(record) or UNKNOWN_MULTIPROCESSORS
        axes = self.variants[record.variant].complete(record.axes)
        n = min(record.n, MOST_BODIES)
        key = record.variant, tuple(sorted(axes.items())), record.dtype, record.interaction, n, multiprocessors
        if key not in self._known:
            self._known[key] = self._prepared(record, axes, n, multiprocessors)
        known = self._known[key]
        if isinstance(known, str):
            raise UnmodelledError(known)
        return list(known)

    def _prepared(
        self, record: Record, axes: Axes, n: int, multiprocessors: int
    ) -> tuple[tuple[str, Constants], ...] | str:
        variant = self.variants[record.variant]
        try:
            interaction = find(record.interaction)
            launches = launches_of(variant, axes, number_type(record), interaction, _bodies(n), multiprocessors)
        except Exception:  # a variant may ask for what only a device has
            return f"{variant.name} cannot be prepared without a GPU"
        return tuple(dict.fromkeys((kernel.stem, kernel.constants) for kernel in launches.kernels))


def number_type(record: Record) -> Dtype:
    """Return what the real numbers of a record's kernels are: mixed precision has a kernel of single precision."""
    return "float64" if record.dtype == "float64" else "float32"


_bodies = lru_cache(maxsize=4)(lambda n: generators.plummer(n, 1, 0.025))


def includes_files(source: str) -> bool:
    """Tell whether a text of CUDA C may read a file while it is compiled, also in ways that no compiler still takes."""
    if "??=" in source or "%:" in source or "__has_" in source:
        return True
    directives = (token.lstrip("# ") for token in cuda_tokens(source) if token.startswith("#"))
    return any(words.startswith(("include", "embed", "import", "pragma include")) for words in directives)


def compiled(jobs: Sequence[Job], *, trusted: bool, seconds: float = MOST_SECONDS) -> list[Answer]:
    """Compile kernels in processes of their own; what one does not answer in ``seconds`` has a refusal.

    With ``trusted``, which is for texts of this checkout alone, CUDA's headers may be included, and several kernels
    share a process.
    """
    answers = {
        place: Answer(refusal=INCLUDES) for place, job in enumerate(jobs) if not trusted and includes_files(job.source)
    }
    todo = [place for place in range(len(jobs)) if place not in answers]
    size = TOGETHER if trusted else 1
    batches = [todo[first : first + size] for first in range(0, len(todo), size)]
    with ThreadPoolExecutor(min(MOST_PROCESSES, cores())) as pool:
        jobs_of_batches = [[jobs[place] for place in batch] for batch in batches]
        for batch, made in zip(
            batches, pool.map(partial(_batch, trusted=trusted, seconds=seconds), jobs_of_batches), strict=True
        ):
            answers |= zip(batch, made, strict=True)
    return [answers[place] for place in range(len(jobs))]


def _batch(jobs: Sequence[Job], *, trusted: bool, seconds: float) -> list[Answer]:
    lines = [{"source": job.source, "options": job.options, "trusted": trusted} for job in jobs]
    with tempfile.TemporaryDirectory() as folder:
        printed = _run("".join(json.dumps(line) + "\n" for line in lines), Path(folder), seconds)
    made = [Answer(**json.loads(line)) for line in printed.splitlines()]
    ended = Answer(refusal=f"compiling it takes more than {seconds:.0f} s or {MOST_MEMORY >> 30} GiB, or ends NVRTC")
    return [*made, *[ended] * (len(jobs) - len(made))]


def _run(lines: str, folder: Path, seconds: float) -> str:
    """Give a process its jobs, and return what it answered."""
    output = folder / "answers"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "gravbench.sharing.compiling"],
            stdin=subprocess.PIPE, stdout=file, stderr=subprocess.DEVNULL, cwd=folder, start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate(lines.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # A line without its end is of an answer that was cut off.
    return output.read_bytes().rpartition(b"\n")[0].decode(errors="replace")


def compiler() -> str:
    """Name NVRTC and its version, to the last digit where its package tells, and the machine that it is for."""
    packages = versions(("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"))
    return ", ".join([nvrtc.version(), *packages, platform.machine()])
