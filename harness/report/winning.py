"""The winners in words: what is fastest at each n and error, by how much, and the sentence that a report ends with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from gravbench.model.case import CONDITIONS, PARTS, Value
from gravbench.model.record import LARGEST, QUANTILES, Record
from gravbench.report.names import count
from gravbench.report.numbers import UNBOUNDED, number, relative_error
from gravbench.report.provenance import NARROW, NARROW_BRIEF, NOWHERE, Here
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Rung
from gravbench.verdicts.question import Behind, Question
from gravbench.verdicts.ranking import Parents
from gravbench.verdicts.ratios import Interval
from gravbench.verdicts.seeds import slowest_seconds
from gravbench.verdicts.winners import Field, Win

Thing = TypeVar("Thing")

PRESUPPOSED: Mapping[str, str] = {
    "equal_mass": "equal_mass=1 needs equal masses",
    "gpus": "gpus=N shares an evaluation among N GPUs",
    "terms": "terms=1 rounds distant contributions to FP16",
}
"""What the values beside a name ask for, or give up."""

WIDE = 0.25
"""The half width of an interval, as a part of the ratio, above which both of its ends are written."""


def limit_words(limit: float) -> str:
    """Write the limit of an error: ``1e-3``."""
    if not 0 < limit < math.inf:
        return f"{limit:g}"
    mantissa, _, exponent = f"{limit:.5e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def bodies_words(quantile: float) -> str:
    """Say for which of the bodies an error is: ``99 % of bodies``."""
    return "all bodies" if quantile == LARGEST else f"{100 * quantile:g} % of bodies"


def within_words(question: Question) -> str:
    """Say what error is asked for, and for which of the bodies: ``99 % of bodies within 1e-3``."""
    return f"{bodies_words(question.quantile)} within {limit_words(question.error)}"


def quantile_words(quantile: float) -> str:
    """Name an error in the header of a column: ``99 %``."""
    return "max" if quantile == LARGEST else "median" if quantile == 0.5 else f"{100 * quantile:g} %"


def quantile_notes(records: Iterable[Record], quantile: float) -> list[str]:
    """Say where records lack the quantile of the errors, so that a larger one counts."""
    lacking = sum(getattr(record, QUANTILES[quantile]) is None for record in records)
    if not lacking:
        return []
    return [f"{count(lacking, 'record')} without the error of {bodies_words(quantile)}: a larger quantile counts"]


def first_label(names: Iterable[str | None]) -> str:
    """Name the column of speed-ups over the first step of the ladder, by the first steps that there are."""
    known = set(filter(None, names))
    return f"speed-up over {known.pop()}" if len(known) == 1 else "speed-up over the first step"


def first_label_of(rungs: Iterable[Rung], parents: Parents) -> str:
    """Name that column of a table of rungs."""
    return first_label(ranking.root(rung.best.variant, parents) for rung in rungs if rung.over_first is not None)


def times(interval: Interval, *, sure: bool = True) -> str:
    """Write a ratio with half its interval: ``1.65 ± 0.01``; with a question mark where nothing bounds it."""
    ratio = interval.ratio
    if not (sure and interval.bounded):
        return f"{number(ratio, 3)} {UNBOUNDED}"
    if interval.half_width > WIDE:
        return f"{number(ratio, 3)} ({number(interval.low, 3)} to {number(interval.high, 3)})"
    half = max(interval.high - ratio, ratio - interval.low)
    digits = 2 if ratio < 100 else 0
    return f"{ratio:,.{digits}f} ± {max(half, 10.0**-digits):,.{digits}f}"


def ratio_words(behind: Behind) -> str:
    """Write how many times as long a record takes, with the sign of an interval that may be too narrow."""
    return times(behind.interval, sure=behind.sure) + NARROW * (behind.narrow and behind.sure)


def narrow_notes(behind: Iterable[Behind | None]) -> list[str]:
    """Say in a line what that sign means, where one of these has it."""
    return [NARROW_BRIEF] * any(interval is not None and interval.narrow and interval.sure for interval in behind)


def name_of(record: Record) -> str:
    """Name a configuration as a sentence does: ``symmetric (cupy)``."""
    return f"{ranking.named(record)} ({record.toolkit})"


def presupposed(records: Iterable[Record], here: Here = NOWHERE) -> str:
    """Say what the names of these records presuppose, and what was prepared for them and not timed; empty if nothing.

    A time alone hides that it is only for some bodies, or for some GPUs.
    """
    there = list(records)
    names = {word.partition("=")[0] for record in there for word in ranking.named(record).split()[1:]}
    presuppositions = [text for axis, text in PRESUPPOSED.items() if axis in names]
    prepared = dict.fromkeys(
        f"{ranking.named(needed)} ({here.untimed(needed)})" for needed in there if here.untimed(needed)
    )
    presuppositions += [f"preparation that is not timed, in s: {', '.join(prepared)}"] if prepared else []
    return f"{'; '.join(presuppositions)}." if presuppositions else ""


def lead_words(win: Win) -> str:
    """Say the speed-up of the winner over the runner-up, and whether the two cannot be distinguished."""
    if win.next is None:
        return ""
    return ratio_words(win.next) + " UNCLEAR" * win.tied


def task_words(task: Mapping[str, Value]) -> str:
    """Name what was computed, without what is usual: ``plummer, timed: force``."""
    phrases = [
        CONDITIONS[name].title.format(**{**dict.fromkeys(PARTS, ""), **task})
        for name, value in task.items()
        if CONDITIONS[name].title and (CONDITIONS[name].said == "always" or value != CONDITIONS[name].usual)
    ]
    return ", ".join(phrases)


def title(field: Field) -> str:
    """Name the device and the task."""
    return f"{field.device}, {task_words(field.task)}"


def sentence(win: Win) -> str:
    """Say how much faster the winner is than the next variant and than the first step of its ladder."""
    beaten = [behind for behind in (win.next, win.first) if behind is not None]
    if win.next and win.first and win.next.record is win.first.record:
        beaten = beaten[:1]
    first = f"At n = {win.n:,} with {within_words(win.question)}"
    if not beaten:
        took = f"{name_of(win.record)} takes {number(1e3 * ranking.seconds(win.record), 3)} ms"
        return f"At n = {win.n:,}, {took}; no other variant has {within_words(win.question)}."
    parts = [f"{ratio_words(behind)} times as fast as {name_of(behind.record)}" for behind in beaten]
    return f"{first}, {name_of(win.record)} is {' and '.join(parts)}{_why_unclear(win)}."


def _why_unclear(win: Win) -> str:
    if win.next is None or not win.tied:
        return ""
    bounded = win.next.sure and win.next.interval.bounded
    return f"; UNCLEAR: {'the interval includes 1' if bounded else 'there are too few samples for an interval'}"


def spread(things: Sequence[Thing], most: int) -> list[Thing]:
    """Keep at most so many, the first and the last among them, evenly."""
    if len(things) <= most:
        return list(things)
    return [things[round(i * (len(things) - 1) / (most - 1))] for i in range(most)]


def winners_json(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Return the winners as what JSON can hold; bounds are None where the samples are too few for them.

    They lack the scatter between processes where ``interval_includes_processes`` is false.
    """
    return [
        {
            "device": field.device,
            **field.task,
            "wins": [
                {
                    "n": win.n,
                    "error": win.question.error,
                    "quantile": win.question.quantile,
                    "variants": win.variants,
                    "fastest": _record(win.record, win.question),
                    "next": _behind(win.next, win.question),
                    "first": _behind(win.first, win.question),
                }
                for win in field.wins
            ],
        }
        for field in fields
    ]


def _record(record: Record, question: Question) -> dict[str, Any]:
    names = ("variant", "toolkit", "dtype", "axes", "median_seconds")
    plain = {name: getattr(record, name) for name in names} | {"error": question.error_of(record)}
    return plain | over_seeds_json(record)


def over_seeds_json(record: Record) -> dict[str, Any]:
    """Return the time of the slowest seed; nothing of a record of a single seed."""
    slowest = slowest_seconds(record)
    return {} if slowest is None else {"slowest_seed_seconds": slowest}


def _behind(behind: Behind | None, question: Question) -> dict[str, Any] | None:
    return None if behind is None else _record(behind.record, question) | behind_json(behind)


def behind_json(behind: Behind) -> dict[str, Any]:
    """Return the ratio of a record behind the fastest; bounds are None where the samples are too few for them."""
    interval, bounded = behind.interval, behind.sure and behind.interval.bounded
    return {
        "ratio": interval.ratio,
        "low": interval.low if bounded else None,
        "high": interval.high if bounded else None,
        "interval_includes_processes": not behind.narrow,
    }


def error_words(win: Win) -> str:
    """Write the error of the winner."""
    return relative_error(win.question.error_of(win.record))
