"""Records as columns of a table in a page: every field but each sample's own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gravbench.model.record import Record
from gravbench.report.numbers import PLUS_MINUS, six_digits, times
from gravbench.report.provenance import NARROW, NARROW_NOTE, NOWHERE, Here, sign_notes, signs
from gravbench.verdicts import ranking
from gravbench.verdicts.uncertainty import SAMPLES_ALONE, Uncertainties

# Columns that a page shows; the rest of a record is behind them.
SHOWN: Mapping[str, str] = {
    "variant": "variant",
    # In view on a phone.
    "n": "n",
    "speed": "1e9 interactions/s",
    "ms": "ms",
    "signs": "signs",
    "toolkit": "toolkit",
    "configuration": "configuration",
    "dtype": "type",
    "timed": "timed",
    "untimed": "untimed, s",
    "half width": "± %",
    "gflops": "GFLOP/s",
    "occupancy %": "occupancy %",
    "error_max": "max error",
    "error_magnitude_max": "max error of contributions",
    "status": "status",
    "run": "run",
}

MAY_LACK = ("signs", "untimed", "error_magnitude_max")
"""Columns that a page shows only where a record has something there."""

# Headings of fields that a page has in another form: a median of readings, a list in words.
_HEADINGS: Mapping[str, str] = {
    "sm_clock_mhz": "SM clock, median MHz",
    "power_watts": "power, median W",
    "temperature_celsius": "temperature, median °C",
    "throttle_reasons": "throttle reasons",
    "error_max_of": "errors of each sum",
    "stages_seconds": "stages, seconds",
    "stages_bytes": "stages, bytes",
    "computed": "interactions per body",
}

_MADE: Mapping[str, Callable[[Record], Any]] = {
    "configuration": lambda record: record.configuration,
    "speed": lambda record: times(ranking.speed(record), 1e-9) if record.median_seconds else None,
    "ms": lambda record: times(record.median_seconds, 1e3),
    "occupancy %": lambda record: times(record.occupancy, 100),
    "samples": lambda record: len(record.samples_seconds),
    "processes": lambda record: len(set(record.processes)) or None,
    "flags": lambda record: " ".join(record.flags),
    "joules_per_interaction": lambda record: record.joules_per_interaction,
}

ELSEWHERE = {
    "axes": "configuration",
    "samples_seconds": "samples",
    "protocol": "command",
    "occupancy": "occupancy %",
    "untimed_seconds": "untimed",
}
"""Fields without a column of their own, and the column that has them."""


def columns(
    records: Sequence[Record],
    runs: Sequence[str],
    commands: Sequence[str],
    here: Here = NOWHERE,
    known: Uncertainties = SAMPLES_ALONE,
) -> dict[str, list[Any]]:
    """Return the columns that hold anything, by name; ``runs`` and ``commands`` have one word per record.

    ``source`` says whether it is the one that is ``here``, and ``signs`` has a sign where it is not.

    ``known`` are the records' uncertainties. Numbers have six digits, which is more than any interval is narrow.
    """
    made: dict[str, list[Any]] = {"run": list(runs), "command": list(commands)}
    made |= {
        _HEADINGS.get(field, field): [_in_words(getattr(record, field)) for record in records]
        for field in Record.model_fields
        if field not in ELSEWHERE
    }
    made |= {name: list(map(make, records)) for name, make in _MADE.items()}
    made |= {
        "half width": [times(known.half_width(record), 100) for record in records],
        "untimed": list(map(here.untimed, records)),
        "signs": [_signs(record, here, known) for record in records],
        "source": [here.origin(record).words for record in records],
    }
    holding = [name for name, values in made.items() if any(value not in (None, "") for value in values)]
    kept = dict.fromkeys([*(name for name in SHOWN if name not in MAY_LACK), *holding])
    return {name: list(map(_plain, made[name])) for name in kept}


def _signs(record: Record, here: Here, known: Uncertainties) -> str:
    return (NARROW * known.may_be_narrow(record) + signs(record)) * bool(record.median_seconds) + here.sign(record)


def notes(records: Sequence[Record], here: Here, known: Uncertainties = SAMPLES_ALONE) -> list[str]:
    """Say below the table what ± and the signs mean."""
    sentences = [PLUS_MINUS.removesuffix("."), *[NARROW_NOTE] * any(known.may_be_narrow(record) for record in records)]
    sentences += sign_notes(record for record in records if record.median_seconds)
    return sentences + here.notes(records, "record")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return six_digits(value) if math.isfinite(value) else str(value)
    return value


def _in_words(value: Any) -> Any:
    if isinstance(value, dict):
        shown = {name: part if isinstance(part, str) else f"{part:.4g}" for name, part in value.items()}
        return ", ".join(f"{name} {part}" for name, part in shown.items())
    if isinstance(value, list):
        words = any(isinstance(item, str) for item in value)
        return ", ".join(value) if words else statistics.median(value) if value else None
    return value
