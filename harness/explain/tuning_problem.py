"""The search space of a variant for other autotuners: a T1 file, its kernel, and the times of its configurations.

T1 is the form in which the community's benchmark hub describes a tuning problem, and Kernel Tuner reads it. Its
parameters are the constants that the kernel is compiled with, as the variant asks for them, because no other tool knows
what the axes of a variant mean. The cache file has the times of the records, by the same parameters: with it, Kernel
Tuner searches without a GPU.

A kernel tuner launches one kernel with the same arguments in every configuration. A variant whose axes change more than
that is refused. What a record times is the whole evaluation, with the other kernels that the variant launches.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gravbench.errors import InputError, listed
from gravbench.explain.shape import shape_of
from gravbench.explain.standalone import naming_parts
from gravbench.model import generators, interaction_files
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record
from gravbench.model.regular import check_unchanged
from gravbench.model.runs import latest
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import Variant
from gravbench.report import tuning_results
from gravbench.report.chosen import Chosen
from gravbench.toolkits.interface import FLAGS
from gravbench.toolkits.recording import RecordingToolkit, extents

ENDING = ".t1.json"
BLOCK_X, BLOCK_Y = "block_size_x", "block_size_y"
"""What Kernel Tuner calls the threads of a block."""
FAILED = "RuntimeFailedConfig"
"""What a cache file has in the place of the time of a configuration that failed or was wrong."""


@dataclass(frozen=True, slots=True)
class Launched:
    """How a record launches the main kernel of its variant: its name, constants, blocks, threads and arguments."""

    record: Record
    kernel: str
    constants: dict[str, int]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A tuning problem: the T1 file, the CUDA C, and the times, each to be written beside the others."""

    name: str
    specification: dict[str, Any]
    kernel: str
    times: dict[str, Any]


def problem_of(runs: Sequence[Sequence[Record]], chosen: Chosen, variants: Mapping[str, Variant]) -> Problem:
    """Return the tuning problem that the chosen records are of.

    Raises:
        InputError: they are not of one variant with CUDA C, one device and one setting, or the variant's
            configurations differ in more than the constants and the launch of one kernel.
    """
    records = _of_one_problem([record for run in runs for record in chosen.shown(latest(run))], variants)
    variant = variants[records[0].variant]
    launched = [_launched(record, variant) for record in records]
    first = launched[0]
    if any(other.kernel != first.kernel or not _same(other.arguments, first.arguments) for other in launched):
        raise _refused(variant.name, "launch other kernels or the same with other arguments")
    space = _Space(variant.name, launched)
    text = variant.cuda_source(interaction_files.find(first.record.interaction))
    arguments = _arguments(variant.name, first, text)
    specification = {
        "General": {"BenchmarkName": variant.name, "OutputFormat": "JSON"},
        "ConfigurationSpace": {"TuningParameters": space.parameters(), "Conditions": space.conditions()},
        "Search": {"Name": "brute_force"},
        "KernelSpecification": {
            "Language": "CUDA",
            "CompilerOptions": list(FLAGS),
            "BenchmarkName": variant.name,
            "Device": {"Name": first.record.device or "unknown"},
            "KernelName": first.kernel,
            "KernelFile": f"{variant.name}.cu",
            "GlobalSizeType": "CUDA",
            **space.sizes(first.record.n),
            "SharedMemory": 0,
            "Arguments": arguments,
        },
    }
    return Problem(variant.name, specification, space.head() + naming_parts(text), _times(space, specification))


def write(problem: Problem, path: Path) -> list[Path]:
    """Write the T1 file to ``path``, and beside it the kernel and the times (``NAME.cache.json``).

    Returns the three files.

    Raises:
        InputError: a kernel of that name is there, and is another one.
    """
    base = path.name.removesuffix(ENDING)
    kernel, times = path.with_name(f"{base}.cu"), path.with_name(f"{base}.cache.json")
    check_unchanged(kernel, problem.kernel)
    problem.specification["KernelSpecification"]["KernelFile"] = kernel.name
    kernel.write_text(problem.kernel, "utf-8")
    times.write_text(json.dumps(problem.times) + "\n", "utf-8")
    path.write_text(json.dumps(problem.specification, indent=2) + "\n", "utf-8")
    return [path, kernel, times]


def _of_one_problem(records: Sequence[Record], variants: Mapping[str, Variant]) -> list[Record]:
    """Return the records of the toolkit that compiles CUDA C and has most of them."""
    compiled = [record for record in records if record.toolkit in catalogue() and catalogue()[record.toolkit].cuda_c]
    if not compiled:
        raise InputError("a search space (.t1.json) needs records of CUDA C; accepted: --variant of one that has it")
    names = sorted({record.variant for record in compiled})
    if len(names) > 1:
        raise InputError(
            f"a search space (.t1.json) is of one variant; accepted: --variant with one of {listed(names)}"
        )
    if names[0] not in variants or any(record.interaction_sha256 for record in compiled):
        raise InputError(f"{names[0]}: a search space needs a variant and an interaction that this checkout has")
    toolkit = Counter(record.toolkit for record in compiled).most_common(1)[0][0]
    computes = variants[names[0]].computes
    kept = [
        record
        for record in compiled
        if record.toolkit == toolkit and record.status != "skipped" and computes(record.axes)
    ]
    settings = {(record.n, tuple(record.conditions.items()), record.device) for record in kept}
    if len(settings) != 1:
        sizes = sorted({record.n for record in kept})
        raise InputError(
            f"{names[0]}: a search space (.t1.json) is of one n, one setting and one device, and the records have "
            f"{len(settings)}; accepted: --n with one of {listed(map(str, sizes))}, and --device"
        )
    return kept


def _launched(record: Record, variant: Variant) -> Launched:
    try:
        multiprocessors = shape_of(record).multiprocessors
    except UnmodelledError:
        multiprocessors = RecordingToolkit("float32", interaction_files.find(record.interaction)).multiprocessors
    toolkit = RecordingToolkit(record.dtype, interaction_files.find(record.interaction), multiprocessors)
    bodies = generators.plummer(record.n, record.seed, record.eps)
    variant.prepare(toolkit, bodies, **variant.complete(record.axes)).launch()
    kernels = [kernel for kernel in toolkit.kernels if kernel.launch]
    main = next((kernel for kernel in kernels if variant.name.startswith(kernel.stem)), None)
    if main is None:
        raise _refused(variant.name, "launch no kernel of the variant's name")
    grid, block, *arguments = main.launch
    return Launched(record, main.stem, dict(main.constants), _three(grid), _three(block), tuple(arguments))


def _three(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return (*extents(given), 1, 1)[:3]


class _Space:
    """The parameters of a problem: constants that vary, those that are always equal being one, and the block."""

    def __init__(self, variant: str, launched: Sequence[Launched]) -> None:
        self.variant = variant
        self.launched = launched
        self.values: dict[str, list[int]] = {BLOCK_X: [launch.block[0] for launch in launched]}
        if any(launch.block[1] > 1 for launch in launched):
            self.values[BLOCK_Y] = [launch.block[1] for launch in launched]
        self.defined: dict[str, str] = {}
        """What each constant of the kernel is: a number, or a parameter."""
        for name in launched[0].constants:
            values = [launch.constants.get(name) for launch in launched]
            numbers = [value for value in values if value is not None]
            if len(numbers) < len(values):
                raise _refused(variant, f"are not all compiled with {name}")
            if len(set(numbers)) == 1:
                self.defined[name] = str(numbers[0])
            elif equal := next((other for other, known in self.values.items() if known == numbers), None):
                self.defined[name] = equal
            else:
                self.values[name] = numbers
        self.points = list(zip(*self.values.values(), strict=True))
        if len(set(self.points)) < len(self.points):
            raise _refused(variant, "differ in what is no constant of the kernel")

    def parameters(self) -> list[dict[str, Any]]:
        """Return the parameters with their values."""
        return [
            {"Name": name, "Type": "int", "Values": str(sorted(set(values))), "Default": values[0]}
            for name, values in self.values.items()
        ]

    def conditions(self) -> list[dict[str, Any]]:
        """Return which combinations there are; nothing where there are all."""
        if len(self.points) == math.prod(len(set(values)) for values in self.values.values()):
            return []
        names = list(self.values)
        return [{"Expression": f"({', '.join(names)}) in {sorted(self.points)}", "Parameters": names}]

    def sizes(self, n: int) -> dict[str, Any]:
        """Return how many blocks and threads there are, as expressions of the parameters."""
        grids = [launch.grid for launch in self.launched]
        if any(grid[1:] != (1, 1) for grid in grids) or any(launch.block[2] != 1 for launch in self.launched):
            raise _refused(self.variant, "have blocks or grids of several dimensions")
        local = {"X": BLOCK_X, "Y": BLOCK_Y if BLOCK_Y in self.values else "1", "Z": "1"}
        blocks = [grid[0] for grid in grids]
        if len(set(blocks)) == 1:
            problem, divisor, total = blocks[0], "1", str(blocks[0])
        else:
            divisor = next(
                (name for name, values in self.values.items() if [-(-n // value) for value in values] == blocks), ""
            )
            if not divisor:
                raise _refused(self.variant, "launch blocks whose number is not n over one parameter")
            problem, total = n, f"({n} + {divisor} - 1) // {divisor}"
        return {
            "LocalSize": local,
            "GlobalSize": {"X": total, "Y": "1", "Z": "1"},
            "ProblemSize": [problem, 1],
            "GridDivX": [divisor],
            "GridDivY": ["1"],
        }

    def head(self) -> str:
        """Return what stands before the kernel: its constants, of which a tuner defines the parameters."""
        lines = [f"// {self.variant}: a tuner defines {', '.join(self.values)}."]
        return "\n".join([*lines, *(f"#define {name} {value}" for name, value in self.defined.items()), "", ""])


def _arguments(variant: str, launched: Launched, text: str) -> list[dict[str, Any]]:
    """Describe what the kernel is called with: arrays of float that are read or written, and numbers."""
    match = re.search(rf"\b{launched.kernel}\(([^)]*)\)", text)
    names = [part.split()[-1].lstrip("*&") for part in match[1].split(",")] if match else []
    if len(names) != len(launched.arguments):
        raise _refused(variant, "call a kernel whose parameters cannot be read")
    return [_argument(variant, name, value) for name, value in zip(names, launched.arguments, strict=True)]


def _argument(variant: str, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        written = bool(np.isnan(value).all())
        kind = {"AccessType": "ReadWrite", "FillType": "Constant", "FillValue": 0.0, "Output": 1}
        if not written:
            kind = {"AccessType": "ReadOnly", "FillType": "Random", "FillValue": 1.0}
        return {"Name": name, "Type": "float", "MemoryType": "Vector", "Size": value.size} | kind
    scalars: dict[type, str] = {np.int32: "int32", np.float32: "float"}
    if type(value) not in scalars:
        raise _refused(variant, f"call a kernel with {name}, which is neither an array of float32 nor a number")
    kind = {"AccessType": "ReadOnly", "FillType": "Constant", "FillValue": value.item()}
    return {"Name": name, "Type": scalars[type(value)], "MemoryType": "Scalar"} | kind


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    def shape(value: Any) -> object:
        return value.shape if isinstance(value, np.ndarray) else value

    return list(map(shape, some)) == list(map(shape, others))


def _times(space: _Space, specification: Mapping[str, Any]) -> dict[str, Any]:
    kernel = specification["KernelSpecification"]
    about = {
        "device_name": kernel["Device"]["Name"],
        "kernel_name": kernel["KernelName"],
        "problem_size": kernel["ProblemSize"],
    }
    values = {name: sorted(set(values)) for name, values in space.values.items()}
    rows = {point: launched.record for point, launched in zip(space.points, space.launched, strict=True)}
    return tuning_results.cache(about, values, rows, FAILED)


def _refused(variant: str, why: str) -> InputError:
    return InputError(
        f"{variant}: its configurations {why}, which a search space (.t1.json) cannot say; accepted: a variant whose "
        "configurations differ in the constants of one kernel"
    )
