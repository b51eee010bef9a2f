"""The measuring protocol: warm-up, samples, when to stop, and what the samples say.

Knows no toolkit's library: it is given something that can time a batch.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from gravbench.config.settings import FEWEST_SAMPLES, Measure
from gravbench.model.device import Reading
from gravbench.model.record import Measurement
from gravbench.model.statistics import median_interval
from gravbench.model.variant import Lap
from gravbench.toolkits.devices import HARMLESS
from gravbench.toolkits.interface import Timing

MOST_BATCH = 512
"""Launches in a row: the driver lets about a thousand wait before it blocks the host."""


ENERGY_SECONDS = 0.5
"""The energy counter of a GPU is updated a few times per second, so a shorter time says nothing."""

STAGED = 7
"""Evaluations over which stages are timed."""


class Device(Protocol):
    """What can be waited for."""

    def synchronize(self) -> None:
        """Wait until everything launched has run."""


class Clock(Protocol):
    """What can time a batch of evaluations."""

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None]) -> Timing:
        """Time ``count`` evaluations in a row."""


def stage_seconds(device: Device, stages: Callable[[Lap], None]) -> dict[str, float]:
    """Time each stage of an evaluation, the next one begun when everything of the last has ended.

    Returns the median of each over ``STAGED`` evaluations, after one that is not counted.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for repetition in range(STAGED + 1):
        device.synchronize()
        last = time.perf_counter()

        def lap(name: str) -> None:
            nonlocal last
            device.synchronize()
            now = time.perf_counter()
            if repetition:  # noqa: B023 - called before the next repetition
                found[name].append(now - last)
            last = now

        stages(lap)
    return {name: float(np.median(times)) for name, times in found.items()}


def measure(
    clock: Clock,
    launch: Callable[[], None],
    settings: Measure,
    read: Callable[[], Reading | None] = lambda: None,
    kernels: int = 1,
) -> Measurement:
    """Warm up, then sample until the median is known well enough or the budget is spent.

    Warm-up goes on for ``warm_up_seconds``; its last batch says how many evaluations one sample needs to last
    ``sample_seconds``. ``read`` is called once per sample, while the device works.
    ``kernels`` is how many of them one ``launch`` queues.
    """
    batch = 1
    most_batch = max(1, MOST_BATCH // kernels)
    began = time.perf_counter()
    while True:
        timing = clock.time(launch, batch, lambda: None)
        spent = time.perf_counter() - began
        wanted = math.ceil(settings.sample_seconds / max(timing.seconds, 1e-9))
        settled = wanted <= batch or batch == most_batch
        batch = min(max(wanted, 1), most_batch) if not settled else batch
        if spent >= settings.warm_up_seconds and settled:
            break

    samples: list[float] = []
    launches: list[float] = []
    readings: list[Reading] = []
    moments: list[float] = []
    launch_bound = False

    began = time.perf_counter()
    while True:
        own: list[Reading | None] = []
        timing = clock.time(launch, batch, lambda own=own: own.append(read()))  # type: ignore[misc]
        samples.append(timing.seconds)
        # A repeated batch has several readings; the last one belongs to its time.
        readings += [reading for reading in own[-1:] if reading]
        moments += [time.perf_counter()] * bool(own[-1:] and own[-1])
        launch_bound |= timing.launch_bound
        if timing.launch_seconds is not None:
            launches.append(timing.launch_seconds)
        spent = time.perf_counter() - began
        over_budget = spent >= settings.budget_seconds
        if len(samples) >= max(settings.min_samples, FEWEST_SAMPLES):
            interval = median_interval(samples)
            if interval.half_width <= settings.half_width:
                stop_reason = "interval"
                break
            if over_budget:
                stop_reason = f"budget of {settings.budget_seconds:g} s spent"
                break
        elif over_budget and len(samples) >= FEWEST_SAMPLES:
            interval = median_interval(samples)
            stop_reason = f"budget of {settings.budget_seconds:g} s spent after {len(samples)} samples"
            break

    bounded = math.isfinite(interval.half_width)
    told = [reading.throttle_reasons for reading in readings if reading.throttle_reasons is not None]
    reasons = sorted({reason for words in told for reason in words})
    return Measurement(
        samples_seconds=samples,
        batch=batch,
        median_seconds=interval.median,
        ci_low=interval.low if bounded else None,
        ci_high=interval.high if bounded else None,
        stop_reason=stop_reason,
        launch_seconds=float(np.median(launches)) if launches else None,
        sm_clock_mhz=[reading.sm_clock_mhz for reading in readings if reading.sm_clock_mhz is not None],
        power_watts=[reading.power_watts for reading in readings if reading.power_watts is not None],
        temperature_celsius=[
            reading.temperature_celsius for reading in readings if reading.temperature_celsius is not None
        ],
        throttle_reasons=reasons,
        throttled=bool(set(reasons) - HARMLESS) if told else None,
        launch_bound=launch_bound,
        joules=_joules(readings, moments, batch),
        protocol=settings.model_dump(),
    )


def _joules(readings: Sequence[Reading], moments: Sequence[float], batch: int) -> float | None:
    """Return the energy of one evaluation: each reading is taken at the same place of its sample."""
    if len(readings) < 2 or moments[-1] - moments[0] < ENERGY_SECONDS:
        return None
    first, last = readings[0].joules, readings[-1].joules
    return None if first is None or last is None else (last - first) / ((len(readings) - 1) * batch)
