"""What a change of a kernel is predicted to bring, and what it brings: counterfactuals, measured beside the original.

Each change is compiled from the variant's own text and measured in turns with the original, by the protocol of every
record. Its results are wrong and are not looked at; so nothing of this is a record of the variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gravbench.config.settings import Measure
from gravbench.errors import InputError, shortened
from gravbench.explain.changes import CHANGING_RESULTS, Change, changes
from gravbench.explain.model import Problem, costs_of, predict_launch
from gravbench.explain.peaks import Peaks
from gravbench.explain.shape import Shape, shape_of
from gravbench.explain.work import work_of_text
from gravbench.measuring.protocol import measure
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.device import Reading
from gravbench.model.interaction import Interaction
from gravbench.model.kernel_parts import Evaluation, UnmodelledError
from gravbench.model.limits import Amount, Moment, Name, Prose, Text
from gravbench.model.regular import read_bytes, write_whole
from gravbench.model.statistics import interval_of
from gravbench.model.variant import Axes, AxisValue, Dtype, Prepared, Variant
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.interface import CudaToolkit
from gravbench.toolkits.recording import RecordedKernel

FILE = "knock_outs.json"
ORIGINAL = "original"
ROUNDS = 5
SETTINGS = Measure(
    half_width=0.005, min_samples=6, budget_seconds=0.25, warm_up_seconds=0.05, sample_seconds=0.004
)  # fmt: skip
"""Of each change in each round."""


class Outcome(BaseModel, frozen=True):
    """One change: seconds of an evaluation, predicted and measured, with the interval of the median.

    A gain is the time of the original over that of the change, above 1 where it is faster. What could not be predicted
    or measured is None, and ``reason`` says why.
    """

    model_config = ConfigDict(extra="ignore")

    name: Text
    what: Text
    predicted_seconds: Amount | None = None
    measured_seconds: Amount | None = None
    low_seconds: Amount | None = None
    high_seconds: Amount | None = None
    predicted_gain: Amount | None = None
    measured_gain: Amount | None = None
    registers: int | None = None
    sm_clock_mhz: float | None = None
    reason: Prose | None = None


class Ablations(BaseModel, frozen=True):
    """All changes of one kernel; ``left`` are those that do not apply to it, with the reason."""

    model_config = ConfigDict(extra="ignore")

    variant: Name
    axes: dict[Name, Any]
    n: Annotated[int, Field(ge=1)]
    dtype: Text
    device: Text | None = None
    started: Moment | None = None
    outcomes: list[Outcome] = Field(default_factory=list)
    left: dict[Text, Prose] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)

    @property
    def differences(self) -> list[float]:
        """How far each predicted gain is from the measured one, relative to it."""
        return [
            abs(outcome.predicted_gain / outcome.measured_gain - 1)
            for outcome in self.outcomes
            if outcome.name != ORIGINAL and outcome.predicted_gain and outcome.measured_gain
        ]


@dataclass(frozen=True, slots=True)
class Changed:
    """A variant whose text is another, as a toolkit compiles it."""

    variant: Variant
    text: str

    @property
    def module(self) -> ModuleType:
        """That of the variant."""
        return self.variant.module

    def cuda_source(self, interaction: Interaction) -> str:  # noqa: ARG002
        """Return the changed text, which has the interaction in it."""
        return self.text


Opens = Callable[[Changed, tuple[str, ...]], CudaToolkit]
"""Opens a toolkit for a changed text, with options of the compiler beside its own."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a prediction is about, whatever is changed: a variant with its ``axes``, on a device with peak ``rates``."""

    variant: Variant
    dtype: Dtype
    axes: Axes
    bodies: Bodies
    problem: Problem
    rates: Peaks


@dataclass(frozen=True, slots=True)
class Made:
    """What a change became on a device: the kernels that were asked for, and the shape in which they were launched.

    ``kernels`` are the launches of an evaluation.
    """

    compiled: tuple[RecordedKernel, ...]
    shape: Shape
    kernels: int
    architecture: str
    megahertz: float


@dataclass(slots=True)
class _Candidate:
    change: Change
    toolkit: CudaToolkit | None = None
    prepared: Prepared | None = None
    shape: Shape | None = None
    registers: int | None = None
    reason: str | None = None
    predicted: float | None = None
    compiled: tuple[RecordedKernel, ...] = ()
    rounds: list[list[float]] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)


def ablate(
    variant: Variant,
    axes: dict[str, AxisValue],
    n: int,
    dtype: Dtype,
    interaction: Interaction,
    rates: Peaks,
    opens: Opens,
    read: Callable[[], Reading | None],
    say: Callable[[str], None],
    rounds: int = ROUNDS,
    settings: Measure = SETTINGS,
) -> Ablations:
    """Make every change that applies to the kernel of a variant, predict its time and measure it beside the original.

    ``say`` is told what begins. A change that fails does not end the others.

    Raises:
        InputError: the original cannot be prepared here.
    """
    source = variant.cuda_source(interaction)
    bodies = generators.plummer(n, 1, 0.025)
    original = _Candidate(Change(ORIGINAL, "the kernel as it is", source))
    say(ORIGINAL)
    _prepare(original, variant, axes, bodies, opens)
    if original.prepared is None:
        raise InputError(f"{variant.name}: {original.reason}")
    todo, left = changes(variant, axes, interaction, original.registers or 0)
    if original.prepared.insight is not None:  # what is computed depends on results
        left |= dict.fromkeys(CHANGING_RESULTS, "its results determine what it computes next")
        todo = [change for change in todo if change.name not in CHANGING_RESULTS]
    candidates = [original, *map(_Candidate, todo)]
    for candidate in candidates[1:]:
        say(candidate.change.name)
        _prepare(candidate, variant, axes, bodies, opens)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        # Each round begins with another, so that none always follows the same.
        for candidate in candidates[number % len(candidates) :] + candidates[: number % len(candidates)]:
            _sample(candidate, settings, read)
    assert original.prepared is not None
    problem = Problem(n, n * n / original.prepared.cycle)
    subject = Predicted(variant, dtype, axes, bodies, problem, rates)
    for candidate in candidates:
        _predict(candidate, subject, known=original.prepared.insight is None)
    return Ablations(
        variant=variant.name,
        axes=dict(variant.complete(axes)),
        n=n,
        dtype=dtype,
        outcomes=[_outcome(candidate, original) for candidate in candidates],
        left=left,
    )


def _prepare(candidate: _Candidate, variant: Variant, axes: dict[str, AxisValue], bodies: Any, opens: Opens) -> None:
    try:
        toolkit = opens(Changed(variant, candidate.change.text), candidate.change.options)
        kernels: list[RecordedKernel] = []
        compile_one = toolkit.compile

        def noting(stem: str, /, **constants: int) -> Any:
            kernels.append(RecordedKernel(stem, tuple(constants.items())))
            return compile_one(stem, **constants)

        toolkit.compile = noting  # type: ignore[method-assign]
        prepared = variant.prepare(toolkit, bodies, **variant.complete({**axes, **candidate.change.axes}))
        prepared.launch()
        toolkit.synchronize()
        resources = toolkit.resources(prepared.kernel) if prepared.kernel is not None else None
        if resources is not None:
            candidate.registers = resources.registers
            try:
                candidate.shape = shape_of(resources)
            except UnmodelledError as error:
                candidate.reason = str(error)
        candidate.compiled, candidate.toolkit, candidate.prepared = tuple(kernels), toolkit, prepared
    except Exception as error:  # it does not compile, or does not run
        candidate.reason = shortened(f"{type(error).__name__}: {error}", 600)


def _sample(candidate: _Candidate, settings: Measure, read: Callable[[], Reading | None]) -> None:
    if candidate.toolkit is None or candidate.prepared is None:
        return
    try:
        measured = measure(candidate.toolkit, candidate.prepared.launch, settings, read, candidate.prepared.kernels)
    except Exception as error:
        candidate.prepared, candidate.reason = None, shortened(f"{type(error).__name__}: {error}", 600)
        return
    candidate.rounds.append(list(measured.samples_seconds))
    candidate.clocks += measured.sm_clock_mhz


def _predict(candidate: _Candidate, subject: Predicted, *, known: bool) -> None:
    if candidate.shape is None or candidate.toolkit is None or candidate.prepared is None:
        return
    if not known:
        candidate.reason = "not predicted: the trip counts of its loops depend on the data"
        return
    architecture = f"sm_{(candidate.toolkit.compute_capability or '9.0').replace('.', '')}"
    megahertz = float(np.median(candidate.clocks)) if candidate.clocks else subject.rates.clock
    made = Made(candidate.compiled, candidate.shape, candidate.prepared.kernels, architecture, megahertz)
    try:
        candidate.predicted = seconds_of(candidate.change, made, subject)
    except Exception as error:
        candidate.reason = shortened(f"not predicted: {error}", 600)
        return
    if candidate.predicted is None:
        candidate.reason = "not predicted: it has no recognizable loop over interactions"


def seconds_of(change: Change, made: Made, subject: Predicted) -> float | None:
    """Predict the seconds of an evaluation after a change; None where no kernel of it has a loop over interactions.

    Raises:
        InputError: it cannot be compiled or read here.
        UnmodelledError: there is no model of it.
    """
    variant, rates = subject.variant, subject.rates
    for kernel in made.compiled:
        axes = variant.complete({**subject.axes, **change.axes})
        evaluation = Evaluation(axes, subject.problem.n, made.shape.blocks * made.shape.warps, lambda: subject.bodies)
        work = work_of_text(
            variant, change.text, kernel, made.architecture, subject.dtype, made.kernels, evaluation, change.options,
            change.rsqrts,
        )  # fmt: skip
        if work is not None:
            costs = costs_of(rates)
            return predict_launch(work, made.shape, subject.problem, made.megahertz, rates, costs).seconds
    return None


def _outcome(candidate: _Candidate, original: _Candidate) -> Outcome:
    outcome = Outcome(
        name=candidate.change.name,
        what=candidate.change.what,
        predicted_seconds=candidate.predicted,
        registers=candidate.registers,
        sm_clock_mhz=float(np.median(candidate.clocks)) if candidate.clocks else None,
        reason=candidate.reason,
    )
    update: dict[str, float] = {}
    if candidate.predicted and original.predicted:
        update["predicted_gain"] = original.predicted / candidate.predicted
    if candidate.rounds and original.rounds:
        interval, first = interval_of(candidate.rounds), interval_of(original.rounds)
        update |= {"measured_seconds": interval.median, "measured_gain": first.median / interval.median}
        update |= {"low_seconds": interval.low} | (
            {"high_seconds": interval.high} if np.isfinite(interval.high) else {}
        )
    return outcome.model_copy(update=update)


def opened(dtype: Dtype, interaction: Interaction) -> Opens:
    """Return what opens CuPy on the current device for a changed text.

    It raises ``ToolkitMissingError`` where CuPy cannot be used.
    """

    def opens(changed: Changed, options: tuple[str, ...]) -> CudaToolkit:
        class Toolkit(CupyToolkit):
            def options(self, constants: Mapping[str, int]) -> list[str]:
                return [*super().options(constants), *options]

        return Toolkit(changed, dtype, interaction)

    return opens


def write(results: Sequence[Ablations], folder: Path) -> Path:
    """Add to the file of a folder, which is written at once: what it has of the same case is replaced.

    Raises:
        InputError: it cannot be read or written.
    """
    path = folder / FILE
    new = {(result.variant, str(result.axes), result.n, result.dtype): result for result in results}
    kept = {(result.variant, str(result.axes), result.n, result.dtype): result for result in read_all(folder)} | new
    content = "[\n" + ",\n".join(result.model_dump_json(indent=1) for result in kept.values()) + "\n]\n"
    write_whole(path, content.encode())
    return path


def read_all(folder: Path) -> list[Ablations]:
    """Read what was measured in a folder; nothing where it has no such file.

    Raises:
        InputError: the file is not what ``gravbench ablate`` writes.
    """
    path = folder / FILE
    try:
        return TypeAdapter(list[Ablations]).validate_json(read_bytes(path))
    except FileNotFoundError:
        return []
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise InputError(f"{path}: {why}; accepted: what `gravbench ablate` writes") from None
