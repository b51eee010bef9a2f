"""What a record derives from its samples, and whether the values that it states are those.

A run computes these fields once, when a case ends. They are computed again whenever the record is read: a median that
is not that of its samples is no measurement, whoever wrote it.
"""

from __future__ import annotations

import math
import statistics

from gravbench.model.generated_bodies import is_generated
from gravbench.model.quantities import QUANTITIES
from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE, Interval, bounds, central, ends, interval_of
from gravbench.model.variant import CPU

ROUNDING = 1e-9
"""Relative difference of two computations of one number by different versions of a library of mathematics."""

SOURCES = {
    "median_seconds": "samples",
    "ci_low": "samples",
    "ci_high": "samples",
    "interactions_per_second": "interactions and median_seconds",
    "gflops": "interactions, flops_per_interaction and median_seconds",
    "steps_per_second": "samples",
    "error_max": "error_max_of",
}
"""What each field is computed from."""

INCREASING = (
    ("error_rms", "error_max"),
    ("error_median", "error_p90"),
    ("error_median", "error_p99"),
    ("error_p90", "error_p99"),
    ("error_p99", "error_max"),
    ("error_magnitude_max", "error_max"),
    ("error_magnitude_rms", "error_rms"),
    ("error_magnitude_rms", "error_magnitude_max"),
    ("error_cycle_rms", "error_cycle_max"),
)
"""Pairs of errors of which the second is never the smaller. A magnitude is at least as long as the acceleration."""

NEEDED = ("samples_seconds", "median_seconds", "error_max", "bodies_sha256", "device")
"""What every result that is ok has."""
NEEDED_WITH_METHOD = (*NEEDED, "processes")
"""What it has if it says by which method it was measured: older ones do not tell their processes."""
OF_GPUS = ("device_uuid", "driver")
"""What no processor has."""

MANY_ROWS = 1024
"""Bodies that a float64 sum does not compute without any error, however carefully it adds; it does for two."""


class ContradictionError(ValueError):
    """A record states what its samples do not give; the message has the field, its value and what it should be."""


def interval(record: Record) -> Interval:
    """Return the median of a record that has samples and what bounds it, in seconds, as the run computed them.

    Records without ``processes`` are from before samples counted as possibly dependent: all of them bound the median.
    """
    if record.processes:
        return interval_of(record.groups)
    low, high = bounds(record.samples_seconds, CONFIDENCE) or (0.0, math.inf)
    return Interval(central(record.groups), low, high)


def speeds(record: Record) -> dict[str, float | None]:
    """Return the fields that follow from ``median_seconds`` of a record that has it: rates per second, and GFLOP/s."""
    assert record.median_seconds is not None
    speed = None if record.uncounted else record.evaluated / record.median_seconds
    return {
        "interactions_per_second": speed,
        "gflops": None if speed is None else speed * record.flops_per_interaction / 1e9,
        "steps_per_second": 1 / record.median_seconds if QUANTITIES[record.timed].steps else None,
    }


def check(record: Record, *, intervals: bool = False) -> None:
    """Make sure that a record states what follows from its samples, and nothing that no measurement gives.

    A field that is None states nothing, unless every result has it. ``intervals`` checks the confidence interval too,
    which takes about as long as reading the record and imports SciPy.

    Raises:
        ContradictionError: it does not.
    """
    stored = record.__dict__
    samples, processes = stored["samples_seconds"], stored["processes"]
    _check_parts(record)
    expected: dict[str, float | None] = {}
    if samples:
        several = processes and processes[0] != processes[-1]
        expected["median_seconds"] = central(record.groups) if several else statistics.median(samples)
        if intervals:
            computed = interval(record)
            for name, end in zip(("ci_low", "ci_high"), ends(computed), strict=True):
                if stored[name] is None and stored["method"] is not None and end is not None:
                    raise ContradictionError(f"{name}: none, but its samples give {end!r}")
            expected |= {"ci_low": computed.low, "ci_high": computed.high}
    if stored["status"] == "ok":
        expected |= speeds(record)
        if stored["error_max_of"]:
            expected["error_max"] = max(stored["error_max_of"].values())
        if stored["error_max"] == 0 and _rounds(record):
            raise ContradictionError(
                f"error_max: 0; accepted: more, because {record.dtype} rounds sums of {record.n:,} bodies"
            )
        for name, other in INCREASING:
            less, more = stored[name], stored[other]
            # A NaN is neither larger nor smaller.
            if less is not None and more is not None and less > more * (1 + ROUNDING):
                raise ContradictionError(f"{other}: {more!r}, but {name} is {less!r}; accepted: no less than that")
    # Written out: a function of its own would be called for every record.
    for name, value in expected.items():
        stated = stored[name]
        if stated is None or stated == value:
            continue
        if value is None or not math.isclose(stated, value, rel_tol=ROUNDING):
            gives = "nothing gives one" if value is None else f"its {SOURCES[name]} give {value!r}"
            raise ContradictionError(f"{name}: {stated!r}, but {gives}")


def _check_parts(record: Record) -> None:
    """Make sure that a record has what its status and its toolkit need, and nothing that these exclude."""
    fields = record.__dict__
    samples, processes, status = fields["samples_seconds"], fields["processes"], fields["status"]
    if fields["toolkit"] == CPU:
        for name in OF_GPUS:
            if fields[name] is not None:
                raise ContradictionError(f"{name}: {fields[name]!r}, but the toolkit is {CPU}; accepted: none")
    if processes and len(processes) != len(samples):
        raise ContradictionError(
            f"processes: {len(processes):,} for {len(samples):,} samples; accepted: one for each sample"
        )
    if status == "skipped" and samples:
        raise ContradictionError(f"samples_seconds: {len(samples):,}, but the status is skipped; accepted: none")
    if status == "ok":
        for name in NEEDED if fields["method"] is None else NEEDED_WITH_METHOD:
            if fields[name] is None or fields[name] == []:
                raise ContradictionError(f"{name}: none, but the status is ok")


def _rounds(record: Record) -> bool:
    """Tell whether some acceleration is rounded, so that not all errors can be zero.

    One body has no acceleration, and two may have one that float64 computes exactly. Of a user's bodies and
    interactions nothing is known.
    """
    if not is_generated(record.bodies) or record.bodies_file_sha256 or record.interaction_sha256:
        return False
    return record.n > 1 if record.dtype == "float32" else (record.error_rows or 0) >= MANY_ROWS
