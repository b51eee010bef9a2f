"""How the cards of one kind differ, as a table in a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from gravbench.model.record import Record
from gravbench.report.compared import comparison_json
from gravbench.report.names import compact, count
from gravbench.report.numbers import number, rough_percent
from gravbench.report.section import Column
from gravbench.report.terminal.comparison import (
    MOST_ROWS,
    Labels,
    anchor_words,
    change,
    counts_words,
    interval_words,
    letters_of,
)
from gravbench.report.terminal.printing import heading, say, say_lines, subsection
from gravbench.report.terminal.table import table
from gravbench.verdicts.across import Across
from gravbench.verdicts.compare import Pair, Verdict

READING = (
    "The same cases were measured on each card. ratio: the median time on the second card of a pair divided by that on "
    "the first; above 1, the second is slower. Intervals and verdicts are those of compare."
)


def render_across(found: Sequence[Across], console: Console, *, everything: bool = False) -> None:
    """Print for each kind of card one row per case and pair of cards, what changed most first, and a summary."""
    heading(console, "Comparison of cards of one kind")
    say(console, READING)
    for one in found:
        subsection(console, " with driver ".join(filter(None, [one.name, one.driver])))
        for place, (_, uuid) in enumerate(one.cards):
            say(console, f"card {place}: {uuid}")
        for places, comparison in one.comparisons.items():
            say(console, f"{_two(places)}, anchor: {anchor_words(comparison)}")
        _table(one, console, everything=everything)
        for place, records in sorted(_lost(one).items()):
            lost = count(len(records), "case")
            say_lines(console, f"card {place} has {lost} not ok, or not ok on another card", compact(records))
        console.print()
        for sentence in sentences(one):
            say(console, sentence, "bold")


def _lost(one: Across) -> dict[int, list[Record]]:
    """Return what was not compared of each card, by its place."""
    found: dict[int, dict[str, Record]] = {}
    for (first, second), comparison in one.comparisons.items():
        for place, records in (
            (first, comparison.not_ok_base + comparison.only_base),
            (second, comparison.not_ok_new + comparison.only_new),
        ):
            if records:
                found.setdefault(place, {}).update({record.key: record for record in records})
    return {place: list(records.values()) for place, records in found.items()}


def _two(places: tuple[int, int]) -> str:
    return f"{places[1]} over {places[0]}"


def _table(one: Across, console: Console, *, everything: bool) -> None:
    pairs = [(places, pair) for places, comparison in one.comparisons.items() for pair in comparison.pairs]
    if not pairs:
        return
    order = list(Verdict)
    pairs.sort(key=lambda own: (order.index(own[1].verdict), change(own[1])))
    shown = pairs if everything else pairs[:MOST_ROWS]
    labels = Labels([(pair.base, pair.new) for _, pair in pairs])
    letters = letters_of(pair for _, pair in shown)
    columns: list[Column[tuple[tuple[int, int], Pair]]] = [
        Column("verdict", lambda own: own[1].verdict, 0, text=True),
        Column("case", lambda own: labels.words(own[1].base, own[1].new), 0, text=True, breaks=True),
        Column("cards", lambda own: _two(own[0]), 0, text=True),
        Column("ratio", lambda own: number(own[1].interval.ratio), 0),
        Column("its\ninterval", lambda own: interval_words(own[1]), 0),
        Column("in\ncycles", lambda own: own[1].in_cycles or "", 1, text=True),
        Column("why", lambda own: " ".join(letters[reason] for reason in own[1].reasons), 1, text=True),
    ]
    say(console, f"all: {labels.shared}")
    console.print(table(console, columns, shown))
    for reason, letter in letters.items():
        say(console, f"{letter}: {reason}")
    if len(shown) < len(pairs):
        say(console, f"not shown: {len(pairs) - len(shown):,} more; --all shows them")


def sentences(one: Across) -> list[str]:
    """Say how many pairs have each verdict, and how far the cards differ."""
    pairs = sum(len(comparison.pairs) for comparison in one.comparisons.values())
    cards = f"{len(one.cards)} x {one.name}"
    if not pairs:
        return [f"{cards}: no case is ok on two of them, so nothing was compared."]
    return [
        f"{cards}: {count(pairs, 'pair')} of {count(len(one.differences), 'case')}, threshold "
        f"{rough_percent(one.threshold)} %: {counts_words(one.counts)}.",
        f"By their medians the cards differ by up to {rough_percent(max(one.differences))} % in one case, by "
        f"{rough_percent(one.middle)} % in the median case.",
    ]


def across_json(found: Sequence[Across]) -> dict[str, Any]:
    """Return the comparisons as what JSON can hold."""
    return {
        "kinds": [
            {
                "name": one.name,
                "driver": one.driver,
                "cards": [uuid for _, uuid in one.cards],
                "threshold": one.threshold,
                "counts": one.counts,
                "largest_difference": max(one.differences, default=None),
                "median_difference": one.middle if one.differences else None,
                "comparisons": list(map(comparison_json, one.comparisons.values())),
            }
            for one in found
        ]
    }
