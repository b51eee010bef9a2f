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


def render_across(groups: Sequence[Across], console: Console, *, everything: bool = False) -> None:
    """Print for each kind of card one row per case and pair of cards, what changed most first, and a summary."""
    heading(console, "Comparison of cards of one kind")
    say(console, READING)
    for group in groups:
        subsection(console, " with driver ".join(filter(None, [group.name, group.driver])))
        for place, (_, uuid) in enumerate(group.cards):
            say(console, f"card {place}: {uuid}")
        for places, comparison in group.comparisons.items():
            say(console, f"{_two(places)}, anchor: {anchor_words(comparison)}")
        _table(group, console, everything=everything)
        for place, records in sorted(_lost(group).items()):
            lost = count(len(records), "case")
            say_lines(console, f"card {place} has {lost} not ok, or not ok on another card", compact(records))
        console.print()
        for sentence in sentences(group):
            say(console, sentence, "bold")


def _lost(group: Across) -> dict[int, list[Record]]:
    """Return what was not compared of each card, by its place."""
    lost: dict[int, dict[str, Record]] = {}
    for (first, second), comparison in group.comparisons.items():
        for place, records in (
            (first, comparison.not_ok_base + comparison.only_base),
            (second, comparison.not_ok_new + comparison.only_new),
        ):
            if records:
                lost.setdefault(place, {}).update({record.key: record for record in records})
    return {place: list(records.values()) for place, records in lost.items()}


def _two(places: tuple[int, int]) -> str:
    return f"{places[1]} over {places[0]}"


def _table(group: Across, console: Console, *, everything: bool) -> None:
    pairs = [(places, pair) for places, comparison in group.comparisons.items() for pair in comparison.pairs]
    if not pairs:
        return
    order = list(Verdict)
    pairs.sort(key=lambda numbered: (order.index(numbered[1].verdict), change(numbered[1])))
    shown = pairs if everything else pairs[:MOST_ROWS]
    labels = Labels([(pair.base, pair.new) for _, pair in pairs])
    letters = letters_of(pair for _, pair in shown)
    columns: list[Column[tuple[tuple[int, int], Pair]]] = [
        Column("verdict", lambda numbered: numbered[1].verdict, 0, text=True),
        Column("case", lambda numbered: labels.words(numbered[1].base, numbered[1].new), 0, text=True, breaks=True),
        Column("cards", lambda numbered: _two(numbered[0]), 0, text=True),
        Column("ratio", lambda numbered: number(numbered[1].interval.ratio), 0),
        Column("95 %\nCI", lambda numbered: interval_words(numbered[1]), 0),
        Column("verdict\n(cycles)", lambda numbered: numbered[1].in_cycles or "", 1, text=True),
        Column("why", lambda numbered: " ".join(letters[reason] for reason in numbered[1].reasons), 1, text=True),
    ]
    say(console, f"all: {labels.shared}")
    console.print(table(console, columns, shown))
    for reason, letter in letters.items():
        say(console, f"{letter}: {reason}")
    if len(shown) < len(pairs):
        say(console, f"not shown: {len(pairs) - len(shown):,} more; --all shows them")


def sentences(group: Across) -> list[str]:
    """Say how many pairs have each verdict, and how far the cards differ."""
    pairs = sum(len(comparison.pairs) for comparison in group.comparisons.values())
    cards = f"{len(group.cards)} x {group.name}"
    if not pairs:
        return [f"{cards}: no case is ok on two of them, so nothing was compared."]
    return [
        f"{cards}: {count(pairs, 'pair')} of {count(len(group.differences), 'case')}, threshold "
        f"{rough_percent(group.threshold)} %: {counts_words(group.counts)}.",
        f"By their medians the cards differ by up to {rough_percent(max(group.differences))} % in one case, by "
        f"{rough_percent(group.middle)} % in the median case.",
    ]


def across_json(groups: Sequence[Across]) -> dict[str, Any]:
    """Return the comparisons as what JSON can hold."""
    return {
        "kinds": [
            {
                "name": group.name,
                "driver": group.driver,
                "cards": [uuid for _, uuid in group.cards],
                "threshold": group.threshold,
                "counts": group.counts,
                "largest_difference": max(group.differences, default=None),
                "median_difference": group.middle if group.differences else None,
                "comparisons": list(map(comparison_json, group.comparisons.values())),
            }
            for group in groups
        ]
    }
