"""What to use for each n, as a table in a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from gravbench.model.case import PARTS
from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE
from gravbench.report.here import NOWHERE, PARTIAL, PARTIAL_NOTE, Here
from gravbench.report.numbers import number, percent, relative_error
from gravbench.report.terminal.printing import heading, say, subsection
from gravbench.report.terminal.table import Column, table
from gravbench.verdicts import ranking
from gravbench.verdicts.best import EQUAL_MASS, Choice, Selection

CHANGED = "*"
READING = (
    "use: the simplest of the configurations that cannot be told from the fastest. as good: how many others there are. "
    f"behind: how much longer it takes than the fastest, by their medians. "
    f"{CHANGED} another choice than at the n before."
)
EQUAL = f"{EQUAL_MASS}=1 was measured on bodies that all weigh the same, and is as fast for such bodies only."


def render_choices(
    selections: Sequence[Selection],
    console: Console,
    error: float,
    threshold: float,
    *,
    everything: bool = False,
    here: Here = NOWHERE,
) -> None:
    """Print one table per device and task: what to use for each n; with ``everything``, all that is as good.

    Rows whose source is not the one that is ``here`` are marked.
    """
    heading(console, "The best")
    say(
        console,
        f"Of what is right within a largest relative error of {error:g} of one evaluation. Told from the fastest "
        f"is what takes more than {100 * threshold:g} % longer with {100 * CONFIDENCE:g} % confidence. " + READING,
    )
    columns: list[Column[Choice]] = [
        Column("n", lambda choice: f"{choice.n:,}", 0),
        Column("", lambda choice: CHANGED * choice.changed + _signs(choice.chosen, here), 0, text=True),
        Column("use", lambda choice: ranking.named(choice.chosen), 0, text=True, breaks=True),
        Column("toolkit", lambda choice: choice.chosen.toolkit, 0, text=True),
        Column("axes", lambda choice: choice.chosen.configuration, 0, text=True, breaks=True),
        Column("ms", lambda choice: number(1e3 * ranking.seconds(choice.chosen)), 0),
        Column("untimed\ns", lambda choice: here.untimed(choice.chosen), 1, text=True),
        Column("1e9 inter-\nactions/s", lambda choice: number(ranking.speed(choice.chosen) / 1e9), 5),
        Column("max\nerror", lambda choice: relative_error(choice.chosen.error_max), 4),
        Column("behind\n%", lambda choice: percent(choice.behind), 6),
        Column("as\ngood", lambda choice: f"{len(choice.as_good) - 1:,}", 3),
        Column("of", lambda choice: f"{choice.compared:,}", 7),
    ]
    dtype: Column[Choice] = Column("dtype", lambda choice: choice.chosen.dtype, 0, text=True)
    for selection in selections:
        types = sorted({choice.chosen.dtype for choice in selection.choices})
        task = [
            str(value) if name in PARTS and PARTS[name].bare else f"{name} {value}"
            for name, value in selection.task.items()
        ]
        subsection(console, ", ".join([selection.device, *task, " and ".join(types)]))
        own = [*columns[:4], dtype, *columns[4:]] if len(types) > 1 else columns
        console.print(table(console, own, selection.choices))
        chosen = [choice.chosen for choice in selection.choices]
        if any(map(ranking.is_partial, chosen)):
            say(console, PARTIAL_NOTE)
        for note in here.notes(chosen):
            say(console, note)
        if any(choice.chosen.axes.get(EQUAL_MASS) == 1 for choice in selection.choices):
            say(console, EQUAL)
        for n, least in selection.missed.items():
            say(console, f"n = {n:,}: nothing is right enough; the least error is {least:.1e}")
        others = [(choice.n, one) for choice in selection.choices for one in choice.as_good[1:]] if everything else []
        for n, record in others:
            words = filter(None, [record.variant, record.toolkit, record.dtype, record.configuration])
            say(console, f"n = {n:,}, as good: {' '.join(words)}")


def _signs(record: Record, here: Here) -> str:
    return PARTIAL * ranking.is_partial(record) + here.sign(record)


def choices_json(
    selections: Sequence[Selection], error: float, threshold: float, here: Here = NOWHERE
) -> dict[str, Any]:
    """Return the choices as what JSON can hold, with all that is as good; ``source`` as ``here`` says it in words."""
    return {
        "error": error,
        "threshold": threshold,
        "confidence": CONFIDENCE,
        "selections": [
            {
                "device": selection.device,
                **selection.task,
                "choices": [
                    {
                        "n": choice.n,
                        "changed": choice.changed,
                        "compared": choice.compared,
                        "use": _json(choice.chosen, here),
                        "fastest": _json(choice.fastest, here),
                        "as_good": [_json(one, here) for one in choice.as_good[1:]],
                    }
                    for choice in selection.choices
                ],
                "missed": [{"n": n, "least_error": least} for n, least in selection.missed.items()],
            }
            for selection in selections
        ],
    }


def _json(record: Record, here: Here) -> dict[str, Any]:
    names = ("variant", "toolkit", "dtype", "axes", "median_seconds", "untimed_seconds", "error_max")
    return {name: getattr(record, name) for name in names} | {"source": here.origin(record).words}
