"""A variant as an entry: its CUDA C in one file, and in its head how it is launched, read off recorded launches.

The head has expressions of n. A variant is launched for several n by a toolkit that only records, and an expression is
looked for that gives every recorded number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.explain.standalone import naming_parts
from gravbench.judging.entry import BEGIN, END, EPS2, INPUTS, MOST_KERNELS, OUTPUTS
from gravbench.judging.expressions import ceil_div
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import Axes, AxisValue, Prepared, Variant
from gravbench.toolkits.buffers import several
from gravbench.toolkits.recording import RecordingToolkit, extents

LARGE = 65536
"""For so many bodies an entry has the values that a variant would choose for n."""
SIZES = (1, 2, 31, 33, 64, 127, 129, 256, 1000, 1025, 4097, 5003, LARGE)
EPS = 0.0317
"""A softening length whose square is no other number of a launch."""
POWERS = tuple(2**k for k in range(1, 13))


class NoEntryError(InputError):
    """A variant cannot be an entry; the message says why."""

    def __init__(self, variant: Variant, why: str) -> None:
        super().__init__(f"--entry: {variant.name} {why}; accepted: a variant whose launches depend on n alone")


class _Recorder(RecordingToolkit):
    """Records launches as they are; a sort by a library is no launch of a kernel."""

    sorts = 0

    def argsort(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Count it."""
        self.sorts += 1
        return super().argsort(keys)


class _Call(NamedTuple):
    """A launch: in the place of an array its name, and in that of the softening length squared ``EPS2``."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[str | int, ...]


@dataclass(frozen=True)
class _Recorded:
    """The launches of one evaluation, the constants, and of each array its layout and of scratch its bytes.

    ``zeros`` are the names of those that begin with zeros.
    """

    constants: Mapping[str, int]
    calls: Sequence[_Call]
    layouts: Mapping[str, str]
    scratch: Mapping[str, int]
    zeros: Collection[str]

    @property
    def shape(self) -> list[tuple[str, int, int, int]]:
        """Of each launch the kernel, and how many extents and arguments it has."""
        return [(call.kernel, len(call.grid), len(call.block), len(call.arguments)) for call in self.calls]

    @property
    def numbers(self) -> list[int]:
        """All numbers by which kernels are compiled and launched."""
        arguments = [number for call in self.calls for number in call.arguments if isinstance(number, int)]
        return [*self.constants.values(), *(number for call in self.calls for number in call.grid), *arguments]


def exported(variant: Variant) -> str:
    """Return the text of an entry: float32, with the default of each axis, or what is chosen for 65,536 bodies.

    Raises:
        NoEntryError: the variant has no CUDA C, approximates, or does more than launch kernels by what follows from n.
    """
    if not variant.has_cuda_c:
        raise NoEntryError(variant, "has no CUDA C")
    if variant.approximates:
        raise NoEntryError(variant, f"approximates: {variant.approximates}")
    axes = _chosen(variant)
    records = [_recorded(variant, axes, n) for n in SIZES]
    head = _head(variant, records)
    text = naming_parts(variant.cuda_source(find(GRAVITY)))
    written = yaml.safe_dump(head, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    settings = " ".join(f"{axis}={value}" for axis, value in axes.items())
    return f"{BEGIN}\n# {variant.name} {settings}\n{written}{END}\n// {variant.summary}\n\n{text}"


def _chosen(variant: Variant) -> dict[str, AxisValue]:
    """Complete the axes: in the place of a zero that stands for a choice by n, the value nearest to what is chosen."""
    axes = variant.complete({})
    zeros = [
        axis
        for axis, value in axes.items()
        if value == 0 and axis in variant.ranges and variant.ranges[axis].find(0) is None
    ]
    for axis in zeros:
        wanted = _recorded(variant, axes, LARGE).numbers
        values = [value for value in variant.axes[axis] if value != 0]
        recorded = {value: _recorded(variant, {**axes, axis: value}, LARGE).numbers for value in values}
        axes[axis] = min(values, key=lambda value: _distance(recorded[value], wanted))
    return axes


def _distance(numbers: Sequence[int], wanted: Sequence[int]) -> tuple[bool, float]:
    apart = sum(abs(math.log(max(a, 1) / max(b, 1))) for a, b in zip(numbers, wanted, strict=False))
    return len(numbers) != len(wanted), apart


def _recorded(variant: Variant, axes: Axes, n: int) -> _Recorded:
    toolkit = _Recorder("float32", find(GRAVITY))
    prepared = variant.prepare(toolkit, generators.plummer(n, 1, EPS), **axes)
    toolkit.launched.clear()
    if prepared.on_host:
        raise NoEntryError(variant, "works on the host in each launch")
    prepared.launch()
    if toolkit.sorts:
        raise NoEntryError(variant, "has a library sort the bodies in each launch")
    if len(toolkit.launched) > MOST_KERNELS:
        raise NoEntryError(variant, f"launches {len(toolkit.launched)} kernels")
    constants: dict[str, int] = {}
    for kernel in toolkit.kernels:
        for name, value in kernel.constants:
            if constants.setdefault(name, int(value)) != value:
                raise NoEntryError(variant, f"compiles its kernels with several values of {name}")
    arrays = _Arrays(variant, prepared)
    calls = [
        _Call(stem, extents(grid), extents(block), tuple(map(arrays.written, arguments)))
        for stem, (grid, block, *arguments) in toolkit.launched
    ]
    return _Recorded(constants, calls, arrays.layouts, arrays.scratch, arrays.zeros)


class _Arrays:
    """Names the arrays of launches: those of bodies and accelerations by their layouts, others as scratch."""

    def __init__(self, variant: Variant, prepared: Prepared) -> None:
        self.variant = variant
        self.scratch: dict[str, int] = {}
        self.zeros: set[str] = set()
        self._names: dict[int, str] = {}
        for arrays, choices in ((prepared.bodies, INPUTS), (prepared.accelerations, OUTPUTS)):
            each = several(arrays)
            layouts = next(choice for choice in choices if len(choice) == len(each))
            self._names |= {id(array): layout for array, layout in zip(each, layouts, strict=True)}
        self.layouts = {name: name for name in self._names.values()}

    def written(self, argument: Any) -> str | int:
        """Return what stands for an argument in the head."""
        if isinstance(argument, np.floating):
            if argument != np.float32(EPS**2):
                raise NoEntryError(self.variant, f"has the argument {argument}")
            return EPS2
        if not isinstance(argument, np.ndarray):
            return int(argument)
        if id(argument) not in self._names:
            self._names[id(argument)] = name = f"scratch_{len(self.scratch) + 1}"
            self.scratch[name] = argument.nbytes
            if not np.isnan(argument).all():
                if argument.any():
                    raise NoEntryError(self.variant, "has the host compute more than the bodies")
                self.zeros.add(name)
        return self._names[id(argument)]


def _head(variant: Variant, records: Sequence[_Recorded]) -> dict[str, Any]:
    """Return what the head says, as plain data."""
    last = records[-1]
    if any(record.constants != last.constants or record.shape != last.shape for record in records):
        raise NoEntryError(variant, "compiles or launches other kernels for other n")
    forms = _Forms(last.constants)

    def written(each: Sequence[Sequence[str | int]]) -> list[str | int]:
        """Write what was recorded for each n, a list each time, as one list that holds for all n."""
        return [_written(variant, forms, values) for values in zip(*each, strict=True)]

    kernels = []
    for place, call in enumerate(last.calls):
        calls = [record.calls[place] for record in records]
        grid, block = written([call.grid for call in calls]), written([call.block for call in calls])
        arguments = written([call.arguments for call in calls])
        kernels.append({"name": call.kernel, "grid": _alone(grid), "block": _alone(block), "arguments": arguments})
    arrays: dict[str, Any] = dict(last.layouts)
    for name in last.scratch:
        size = forms.at_least([record.scratch[name] for record in records])
        arrays[name] = {"layout": "scratch", "bytes": size, **({"zeros": True} if name in last.zeros else {})}
    constants = {"constants": dict(last.constants)} if last.constants else {}
    mutual = {"mutual": True} if variant.mutual is True else {}
    return {"kernels": kernels, **constants, "arrays": arrays, "rung": variant.name, **mutual}


def _written(variant: Variant, forms: _Forms, values: Sequence[str | int]) -> str | int:
    numbers = [value for value in values if isinstance(value, int)]
    expression = forms.expression(numbers) if numbers else values[0]
    if expression is None:
        raise NoEntryError(variant, f"launches with {values[-1]} for n = {LARGE}, for which no expression is known")
    return expression


def _alone(extents: list[str | int]) -> str | int | list[str | int]:
    return extents[0] if len(extents) == 1 else extents


class _Forms:
    """Expressions of n that launches are made of, and the numbers that they give for each of ``SIZES``."""

    def __init__(self, constants: Mapping[str, int]) -> None:
        self.constants = {value: name for name, value in reversed(list(constants.items())) if value > 1}
        self.divisors = dict(self.constants)
        factors = [(name, value) for name, value in constants.items() if 1 < value <= max(POWERS)]
        for offered in (factors, [*factors, ("32", 32)]):
            for (name, value), (other, by) in combinations(offered, 2):
                self.divisors.setdefault(value * by, f"{name} * {other}")
        self.divisors |= {power: str(power) for power in POWERS if power not in self.divisors}
        self.atoms: dict[tuple[int, ...], str] = {SIZES: "n"}
        for divisor, text in self.divisors.items():
            counts = tuple(ceil_div(n, divisor) for n in SIZES)
            self.atoms.setdefault(counts, f"ceil_div(n, {text})")
            for most in POWERS[:8]:
                self.atoms.setdefault(tuple(min(most, count) for count in counts), f"min({most}, ceil_div(n, {text}))")

    def expression(self, values: Sequence[int]) -> str | int | None:
        """Return an expression that gives these numbers; None where none is known."""
        if len(set(values)) == 1:
            return self.constants.get(values[0], values[0])
        wanted = np.array(values, np.int64)
        for counts, text in self.atoms.items():
            atom = np.array(counts, np.int64)
            times = wanted // atom
            if (wanted == times[0] * atom).all():
                return text if times[0] == 1 else f"{times[0]} * {text}"
            if (wanted == times * atom).all() and (other := self.atoms.get(tuple(map(int, times)))):
                return f"{text} * {other}"
            # What only whole pairs of blocks have.
            each = (wanted[-1] - wanted[0]) // max(1, atom[-1] // 2)
            if (wanted == wanted[0] + each * (atom // 2)).all():
                return f"{wanted[0]} + {each} * ({text} // 2)"
        return None

    def at_least(self, sizes: Sequence[int]) -> str | int:
        """Return an expression that gives these bytes or more."""
        if (exact := self.expression(sizes)) is not None:
            return exact
        each = -(-sizes[-1] // LARGE // 8) * 8
        most = max(max(size - each * n for size, n in zip(sizes, SIZES, strict=True)), 0)
        return f"{each} * n + {most}" if most else f"{each} * n"
