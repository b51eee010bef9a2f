"""How fast an entry is, and where it stands on the ladder of its device, as a section and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gravbench.judging.standing import Standing
from gravbench.judging.timing import Timed
from gravbench.model.record import Record
from gravbench.report.numbers import number, percent, times
from gravbench.report.section import Column, Part, Section, Table
from gravbench.verdicts.ranking import named, seconds


def section(timings: Sequence[Timed], standings: Mapping[int, Standing], ladder: str) -> Section:
    """Show what was timed: speed, its interval, and the place among the rungs of a ``ladder``, if there is one."""
    reading = (
        "The median time of one evaluation with everything that it launches; every launch has bodies and a softening "
        "of its own, of some the accelerations were judged. ± is half the 95 % confidence interval of the median, in "
        "this process. An interaction is one of n * n directed pairs."
    )
    lines = [f"n = {timed.n:,}: {timed.wrong}" for timed in timings if timed.wrong]
    columns: list[Column[Timed]] = [
        Column("n", lambda timed: f"{timed.n:,}"),
        Column("ms", lambda timed: number(times(timed.seconds, 1e3))),
        Column("± %", lambda timed: percent(half_width(timed)), 1),
        Column("1e9 inter-\nactions/s", lambda timed: number(timed.seconds and 1e-9 * timed.n**2 / timed.seconds)),
        Column("place", lambda timed: _place(standings.get(timed.n)), 1, text=True),
        Column("next faster", lambda timed: _rung(standings.get(timed.n), "faster"), 2, text=True),
        Column("next slower", lambda timed: _rung(standings.get(timed.n), "slower"), 2, text=True),
    ]
    known = f"Places and rungs are those of {ladder}: with errors up to those that are accepted here."
    without = "No ladder of this device is known, so there is no place on it: gravbench run ladder measures one."
    table = Table(columns, [timed for timed in timings if timed.measurement])
    return Section("speed", "How fast it is", reading, [Part(table=table, lines=lines)], [known if ladder else without])


def half_width(timed: Timed) -> float | None:
    """Return half of the 95 % confidence interval of the median, relative to it."""
    measurement = timed.measurement
    if measurement is None or not timed.seconds or measurement.ci_low is None or measurement.ci_high is None:
        return None
    return (measurement.ci_high - measurement.ci_low) / 2 / timed.seconds


def _place(standing: Standing | None) -> str:
    return f"{standing.place} of {standing.of}" if standing else ""


def _rung(standing: Standing | None, side: Literal["faster", "slower"]) -> str:
    record: Record | None = getattr(standing, side) if standing else None
    return f"{named(record)} {record.toolkit} {number(1e3 * seconds(record))} ms" if record else ""


def as_json(timed: Timed, standing: Standing | None) -> dict[str, Any]:
    """Return all that is known of one size, for programs."""

    def rung(record: Record | None) -> dict[str, Any] | None:
        if record is None:
            return None
        return {"variant": record.variant, "toolkit": record.toolkit, "seconds": seconds(record)}

    return {
        "n": timed.n,
        "wrong": timed.wrong,
        "measurement": timed.measurement.model_dump(exclude_none=True) if timed.measurement else None,
        "place": standing and {"place": standing.place, "of": standing.of},
        "next_faster": rung(standing.faster) if standing else None,
        "next_slower": rung(standing.slower) if standing else None,
    }
