"""Checks of what was measured: samples, times beside readings, and rates beside what a device can issue."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from gravbench.model.derived import speeds
from gravbench.model.record import Record
from gravbench.model.toolkits import catalogue
from gravbench.sharing.bundle import Bundle
from gravbench.sharing.outcome import Outcome, at, counted, why_not
from gravbench.sharing.run_checks import multiprocessors_of
from gravbench.toolkits.interface import A_CLOCK

WINDOW = 6
"""Samples in a row that two cases do not share by chance."""
FEW_DIGITS = 6
"""Significant digits at which samples are rounded by hand: a clock's reading over a number of evaluations has more."""
FEWEST = 5
"""Samples of which one can tell."""
SHORT_SAMPLE = 0.5
"""Of ``sample_seconds``: on a GPU, a single evaluation is a sample only if it lasted as long when it was warmed up."""
COARSE = 1e-6
"""Seconds that a clock does not tell apart, from which on samples are few different numbers by themselves."""
LEAST_ENERGY = 0.3
"""Of median power times time: less than the counter of any device tells, even averaged over idle time."""
MOST_MHZ = 5000
"""Above the clock of any GPU."""
MOST_ABOVE_MEDIAN = 1.5
"""Times the median clock of its readings that the highest one of a case may be: they are taken while it is busy."""
A_DAY = 86_400


def samples(bundle: Bundle) -> Outcome:
    """Look for samples that no clock gives: all equal, with few digits, or another case's."""
    findings = []
    taken_by = {number: record for number, record in bundle.records.items() if record.samples_seconds}
    measured = {
        number: record for number, record in taken_by.items() if (record.clock_resolution_seconds or 0) < COARSE
    }
    for number, record in measured.items():
        taken = record.samples_seconds
        if len(taken) >= FEWEST and len(set(taken)) == 1:
            findings.append(f"{at(number, record)}: all {len(taken)} samples are {taken[0]!r}")
        elif len(taken) >= FEWEST and fmean(map(digits, taken)) <= FEW_DIGITS:
            findings.append(f"{at(number, record)}: samples such as {taken[0]!r} have few digits")
    coarse = ["its clock is coarse, so its samples may be alike"] * (len(taken_by) - len(measured))
    return Outcome(findings + _copied(measured), why_not(coarse, "record"), counted(len(measured), "record"))


def digits(seconds: float) -> int:
    """Count the significant digits that a number needs."""
    return len(repr(seconds).partition("e")[0].replace(".", "").strip("0"))


def _copied(measured: dict[int, Record]) -> list[str]:
    """Say which case has samples of another one: in their order or in another one, also by a factor."""
    findings = []
    known: dict[tuple[object, ...], tuple[int, Record]] = {}
    for number, record in measured.items():
        for mark in _marks(record.samples_seconds):
            first, other = known.setdefault(mark, (number, record))
            # Counters are added to a record later, in a line of its own.
            same = other.identity == record.identity and other.started == record.started
            if first != number and not same:
                findings.append(f"{at(number, record)}: has samples of {at(first, other)}")
                break
    return findings


def _marks(taken: Sequence[float]) -> Iterator[tuple[object, ...]]:
    """Return what two lists of samples have in common only if one was made of the other."""
    if len(taken) < WINDOW or len(set(taken)) < WINDOW - 1:
        return
    ordered = sorted(taken)
    yield ("sorted and scaled", *(f"{sample / ordered[0]:.10f}" for sample in ordered))
    for first in range(len(taken) - WINDOW + 1):
        window = taken[first : first + WINDOW]
        if len(set(window)) >= WINDOW - 1:
            yield ("scaled", *(f"{sample / window[0]:.10f}" for sample in window))


def times(bundle: Bundle) -> Outcome:
    """Compare times with the protocol, the readings, the energy counter, and the moments at which cases began."""
    findings = []
    latest = datetime.datetime.now(datetime.UTC).timestamp() + A_DAY
    for number, record in bundle.records.items():
        findings += [f"{at(number, record)}: {what}" for what in _time_mistakes(record)]
        if moment(record) > latest:
            findings.append(f"{at(number, record)}: began at {record.started}, which is yet to come")
    return Outcome(findings + _overlaps(bundle))


def moment(record: Record) -> float:
    """Return when a record began, in seconds since 1970."""
    return datetime.datetime.fromisoformat(record.started).timestamp()


def _time_mistakes(record: Record) -> Iterator[str]:
    taken, protocol = record.samples_seconds, record.protocol or {}
    for name in ("sm_clock_mhz", "power_watts", "temperature_celsius"):
        if (readings := len(getattr(record, name))) not in (0, len(taken)):
            yield f"{readings} readings of {name} for {len(taken)} samples; accepted: one for each, or none"
    if not taken or record.batch is None or record.median_seconds is None:
        return
    target = protocol.get("sample_seconds")
    lasted = record.batch * record.median_seconds
    # A host that other programs keep busy may have been slower before than it is later.
    alone = record.device_uuid is not None and len(set(record.processes)) <= 1
    if alone and isinstance(target, int | float) and record.batch == 1 and lasted < SHORT_SAMPLE * target:
        yield f"samples of one evaluation last {lasted:.3g} s, but {target:g} s were asked for"
    clocks = record.sm_clock_mhz
    most = min(MOST_MHZ, MOST_ABOVE_MEDIAN * median(clocks)) if len(clocks) >= FEWEST else MOST_MHZ
    if clocks and max(clocks) > most:
        yield f"a clock of {max(clocks):,} MHz; accepted: up to {most:,.0f} MHz beside the other readings"
    power = median(record.power_watts) if record.power_watts else 0.0
    if record.joules is not None and power and record.joules < LEAST_ENERGY * power * record.median_seconds:
        yield f"{record.joules:.3g} J an evaluation, but {power:.0f} W for {record.median_seconds:.3g} s"


def _overlaps(bundle: Bundle) -> list[str]:
    """Say which records of one device were measured at the same time: a device has one session."""
    of_device: dict[str, list[tuple[float, int, Record]]] = defaultdict(list)
    for number, record in bundle.records.items():
        device = record.device_uuid or record.device
        if record.samples_seconds and device and (record.device_uuid or _is_one(device, bundle)):
            of_device[device].append((moment(record), number, record))
    findings = []
    for rows in of_device.values():
        # Of two that began in the same second, the shorter one may have been the first.
        rows.sort(key=lambda row: (row[0], _busy(row[2])))
        for (began, number, record), (next_began, next_number, following) in pairwise(rows):
            # The line of a record to which counters were added later tells of the same moment.
            again = following.identity == record.identity and following.started == record.started
            # Moments are whole seconds.
            if not again and began + _busy(record) > next_began + 1:
                findings.append(f"{at(number, record)}: lasted beyond {at(next_number, following)} on the same device")
    return findings


def _is_one(name: str, bundle: Bundle) -> bool:
    """Tell whether one device alone has this name, in a run that was started once: without UUIDs, hosts look alike."""
    named = [device for start in bundle.starts for device in start.devices if device.name == name]
    return len(bundle.starts) == 1 and len(named) == 1


def _busy(record: Record) -> float:
    """Return the seconds that the samples of the first process took, at least."""
    return sum(record.groups[0]) * (record.batch or 1)


def rates(bundle: Bundle) -> Outcome:
    """Compare rates with more interactions per clock than any multiprocessor can compute."""
    findings, reasons, looked = [], [], 0
    for number, record in bundle.records.items():
        speed = rate_of(record)
        if speed is None:
            continue
        most = most_per_second(record, A_CLOCK)
        if most is None:
            gpu = record.toolkit in catalogue() and record.device_uuid is not None
            reasons.append("its launch or its clock is not recorded" if gpu else "it is of no GPU")
            continue
        looked += 1
        if speed > most:
            findings.append(
                f"{at(number, record)}: {speed:.3g} interactions/s, more than {most:.3g}, "
                f"which is {A_CLOCK:g} per clock of each multiprocessor"
            )
    return Outcome(findings, why_not(reasons, "record"), counted(looked, "record"))


def rate_of(record: Record) -> float | None:
    """Return the interactions/s that follow from the samples of a result, whether or not it states them."""
    is_result = record.status == "ok" and record.median_seconds is not None
    return speeds(record)["interactions_per_second"] if is_result else None


def most_per_second(record: Record, a_clock: float) -> float | None:
    """Return the rate of a device on which each multiprocessor does so much in a clock; None where it is not known."""
    multiprocessors = multiprocessors_of(record)
    if multiprocessors is None or not record.sm_clock_mhz:
        return None
    return math.prod((a_clock, multiprocessors, record.gpus, max(record.sm_clock_mhz) * 1e6))
