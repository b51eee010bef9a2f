"""The measuring protocol: warm-up, samples, when to stop, and what the samples say.

Knows no toolkit's library: it is given something that can time a batch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import numpy as np

from gravbench.config.settings import FEWEST_SAMPLES, Measure
from gravbench.model.device import HARMLESS, Reading
from gravbench.model.record import OUTRACED, Measurement
from gravbench.model.statistics import ends, interval_of, median_interval
from gravbench.model.variant import Lap
from gravbench.toolkits.interface import Timing
from gravbench.verdicts.racing import FIRST_LOOK, outraced

MOST_BATCH = 512
"""Launches in a row: the driver lets about a thousand wait before it blocks the host."""


STEADY = 4
"""Batches in a row that have to take the same time before the first sample."""

FAR = 1.25
"""Times as long as the fastest so far that a case takes which need not be at its steadiest to be told from it."""

ENERGY_SECONDS = 0.5
"""The energy counter of a GPU is updated a few times per second, so a shorter time says nothing."""

NARROW = "interval"
DIFFERENT = "each process has a narrow interval, but the processes differ by more"
"""Why sampling ended, beside the budget."""

READ = "sm_clock_mhz", "power_watts", "temperature_celsius"
"""What is kept of each reading of a device."""

STAGED = 7
"""Evaluations over which stages are timed."""


class Clock(Protocol):
    """What can time a batch of evaluations."""

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None]) -> Timing:
        """Time ``count`` evaluations in a row."""


def stage_seconds(synchronize: Callable[[], None], stages: Callable[[Lap], None]) -> dict[str, float]:
    """Time each stage of an evaluation, the next one begun when everything of the last has ended.

    ``synchronize`` waits for that. Returns the median of each over ``STAGED`` evaluations, after one that is not
    counted. A stage that an evaluation goes through several times counts as the sum of these.
    """
    evaluations: list[dict[str, float]] = []
    for _ in range(STAGED + 1):
        synchronize()
        last = perf_counter()
        seconds: dict[str, float] = defaultdict(float)

        def lap(name: str) -> None:
            nonlocal last
            synchronize()
            now = perf_counter()
            seconds[name] += now - last  # noqa: B023 - called before the next repetition
            last = now

        stages(lap)
        evaluations.append(seconds)
    return {name: float(np.median([each[name] for each in evaluations[1:]])) for name in evaluations[0]}


def measure(
    clock: Clock,
    launch: Callable[[], None],
    settings: Measure,
    read: Callable[[], Reading | None] = lambda: None,
    kernels: int = 1,
    look: Callable[[int], bool] = lambda _: False,
    *,
    behind: float | None = None,
    look_once: bool = False,
    warm: bool = False,
    least_seconds: float = 0.0,
) -> Measurement:
    """Warm up, then sample: ``warmed_up`` and ``sampled`` in a row. A device that is ``warm`` has just been used."""
    reads, limit = read if warm else None, behind if look_once else None
    batch = warmed_up(clock, launch, settings, kernels, reads, limit, least_seconds=least_seconds)
    return sampled(clock, launch, settings, batch, read, look, behind=behind, look_once=look_once)


def sampled(
    clock: Clock,
    launch: Callable[[], None],
    settings: Measure,
    batch: int,
    read: Callable[[], Reading | None] = lambda: None,
    look: Callable[[int], bool] = lambda _: False,
    *,
    behind: float | None = None,
    look_once: bool = False,
) -> Measurement:
    """Sample, ``batch`` evaluations at a time, until the median is known well enough or the budget is spent.

    ``read`` is called once per batch, while the device works. ``look`` is called before the first sample and after
    each, with the number of samples taken, and returns whether it did anything; that is not timed. Sampling also stops
    as soon as the median is known to be above ``behind`` seconds; with ``look_once`` after the first look at that.
    """
    taken = _Taken(batch)
    looked = look(0)
    began = perf_counter()
    while True:
        readings: list[Reading | None] = []
        timing = clock.time(launch, batch, lambda readings=readings: readings.append(read()))  # type: ignore[misc]
        # A repeated batch has several readings; the last one belongs to its time.
        taken.add(timing, readings[-1] if readings else None, follows_a_sample=not looked)
        paused = perf_counter()
        looked = look(len(taken.samples))
        began += perf_counter() - paused + timing.waking_seconds
        reason = _stops(taken.samples, settings, perf_counter() - began, behind, look_once=look_once)
        if reason:
            return taken.measurement(settings, reason)


def _stops(
    samples: Sequence[float], settings: Measure, spent: float, behind: float | None, *, look_once: bool
) -> str | None:
    """Say why no sample follows these, which took the ``spent`` seconds; None where one does."""
    if outraced(samples, behind):
        return OUTRACED
    if look_once and len(samples) == FIRST_LOOK:
        return _spent(settings, len(samples))
    if len(samples) >= max(settings.min_samples, FEWEST_SAMPLES):
        if median_interval(samples).half_width <= settings.half_width:
            return NARROW
    elif len(samples) < FEWEST_SAMPLES:
        return None
    return _spent(settings, len(samples)) if spent >= settings.budget_seconds else None


@dataclass(slots=True)
class _Taken:
    """The samples so far, ``batch`` evaluations each, and what was read beside them."""

    batch: int
    samples: list[float] = field(default_factory=list)
    launches: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    steady: list[bool] = field(default_factory=list)
    """Whether nothing but samples lies between a reading and the one before."""
    launch_bound: bool = False

    def add(self, timing: Timing, reading: Reading | None, *, follows_a_sample: bool) -> None:
        """Add a sample, and what was read while the device was busy with it."""
        self.samples.append(timing.seconds)
        self.launch_bound |= timing.launch_bound
        if timing.launch_seconds is not None:
            self.launches.append(timing.launch_seconds)
        if reading:
            self.readings.append(reading)
            self.moments.append(perf_counter())
            self.steady.append(follows_a_sample)

    def measurement(self, settings: Measure, stop_reason: str) -> Measurement:
        """Return what the samples say."""
        interval = median_interval(self.samples)
        low, high = ends(interval)
        throttles = [reading.throttle_reasons for reading in self.readings if reading.throttle_reasons is not None]
        reasons = sorted({reason for words in throttles for reason in words})
        read = {name: [getattr(reading, name) for reading in self.readings] for name in READ}
        return Measurement(
            samples_seconds=self.samples,
            batch=self.batch,
            median_seconds=interval.median,
            ci_low=low,
            ci_high=high,
            stop_reason=stop_reason,
            launch_seconds=float(np.median(self.launches)) if self.launches else None,
            **{name: [number for number in numbers if number is not None] for name, numbers in read.items()},
            throttle_reasons=reasons,
            throttled=bool(set(reasons) - HARMLESS) if throttles else None,
            launch_bound=self.launch_bound,
            joules=_joules(self.readings, self.moments, self.steady, self.batch),
            protocol=settings.model_dump(exclude_none=True),
        )


def warmed_up(
    clock: Clock,
    launch: Callable[[], None],
    settings: Measure,
    kernels: int = 1,
    read: Callable[[], Reading | None] | None = None,
    behind: float | None = None,
    *,
    least_seconds: float = 0.0,
) -> int:
    """Evaluate until the device is warm; return how many evaluations one sample needs to last ``sample_seconds``.

    It lasts ``least_seconds`` at least, which the clock can tell apart.

    ``kernels`` is how many of them one ``launch`` queues. It takes ``warm_up_seconds``. With ``read``, of a device that
    has just been used, it ends before when several batches in a row took the same time, to within ``half_width``, at
    the same clock. It also ends once two batches took ``FAR`` times as long as ``behind``: cold or warm, that is no
    difference which a clock makes.
    """
    batch, most_batch = 1, max(1, MOST_BATCH // kernels)
    took: list[float] = []
    clocks: list[int | None] = []
    began = perf_counter()
    while True:
        readings: list[Reading | None] = []

        def look(readings: list[Reading | None] = readings) -> None:
            readings.append(read() if read else None)

        timing = clock.time(launch, batch, look)
        if timing.blocked and batch > 1:
            # Each launch queues several kernels, and the host waits for the device once about a thousand of them wait.
            batch = most_batch = batch // 2
            took.clear()
            clocks.clear()
            continue
        wanted = math.ceil(max(settings.sample_seconds, least_seconds) / max(timing.seconds, 1e-9))
        if wanted > batch < most_batch:
            batch = min(wanted, most_batch)
            continue
        took.append(timing.seconds)
        clocks.append(readings[-1].sm_clock_mhz if readings and readings[-1] else None)
        last = took[-STEADY:]
        steady = (
            read is not None
            and len(last) == STEADY
            and max(last) - min(last) <= 2 * settings.half_width * min(last)
            and len(set(clocks[-STEADY:])) == 1
        )
        far = read is not None and behind is not None and len(took) > 1 and min(took) > FAR * behind
        if steady or far or perf_counter() - began >= settings.warm_up_seconds:
            return batch


def _spent(settings: Measure, samples: int) -> str:
    few = samples < max(settings.min_samples, FEWEST_SAMPLES)
    return f"budget of {settings.budget_seconds:g} s spent" + (f" after {samples} samples" if few else "")


def part_of(settings: Measure, processes: int, *, again: bool) -> Measure:
    """Return the settings by which each of so many processes measures its part of a case.

    ``again``: another has just done so, and the device is warm. A part of the warm-up is for what is the process's own.
    """
    update = {"budget_seconds": settings.budget_seconds / processes}
    if again:
        update["warm_up_seconds"] = settings.warm_up_seconds / processes
    return settings.model_copy(update=update)


def joined(parts: Mapping[int, Measurement], settings: Measure) -> Measurement:
    """Join what several processes measured of one case, by the number of each process; ``settings`` are of all.

    Sampling ended by the interval where that of all processes together is as narrow as asked.
    """
    measurements = list(parts.values())
    first = measurements[0]
    samples = [sample for part in measurements for sample in part.samples_seconds]
    update: dict[str, object] = {
        "samples_seconds": samples,
        "processes": [number for number, part in parts.items() for _ in part.samples_seconds],
        "protocol": settings.model_dump(exclude_none=True),
    }
    if len(measurements) > 1:
        interval = interval_of([part.samples_seconds for part in measurements])
        low, high = ends(interval)
        throttled = [part.throttled for part in measurements if part.throttled is not None]
        launches = [part.launch_seconds for part in measurements if part.launch_seconds is not None]
        joules = [part.joules for part in measurements if part.joules is not None]
        update |= {
            "median_seconds": interval.median,
            "ci_low": low,
            "ci_high": high,
            "launch_seconds": float(np.median(launches)) if launches else None,
            **{name: [number for part in measurements for number in getattr(part, name)] for name in READ},
            "throttle_reasons": sorted({reason for part in measurements for reason in part.throttle_reasons}),
            "throttled": any(throttled) if throttled else None,
            "launch_bound": any(part.launch_bound for part in measurements),
            "joules": float(np.mean(joules)) if joules else None,
            "stop_reason": NARROW if interval.half_width <= settings.half_width else DIFFERENT,
        }
    if any(part.outraced for part in measurements):
        update["stop_reason"] = OUTRACED
    elif any(part.stop_reason != NARROW for part in measurements) and update.get("stop_reason") != NARROW:
        update["stop_reason"] = _spent(settings, len(samples))
    return Measurement.model_validate(first.model_dump() | update)


def _joules(readings: Sequence[Reading], moments: Sequence[float], steady: Sequence[bool], batch: int) -> float | None:
    """Return the energy of one evaluation, over samples in a row: each reading stands at the same place of its own.

    ``steady`` has a value per reading, false where something else lies between it and the one before. Not every reading
    has the energy.
    """
    spent = passed = 0.0
    counted = 0
    last: int | None = None  # reading with the energy, since which there were samples alone
    for number, reading in enumerate(readings):
        if not steady[number]:
            last = None
        if reading.joules is None:
            continue
        if last is not None:
            before = readings[last].joules
            assert before is not None
            spent += reading.joules - before
            passed += moments[number] - moments[last]
            counted += number - last
        last = number
    return spent / (counted * batch) if counted and passed >= ENERGY_SECONDS else None
