"""What to use for each n, as a table in a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from gravbench.model.case import PARTS, word
from gravbench.model.record import LARGEST, QUANTILES, Record
from gravbench.model.statistics import CONFIDENCE
from gravbench.report.names import (
    SLOWEST_SEED,
    count,
    drift_notes,
    drift_sentence,
    drift_signs,
    seed_notes,
    slowest_seed,
)
from gravbench.report.numbers import number, percent, relative_error, rough_percent, times
from gravbench.report.provenance import NOWHERE, Here, sign_notes, signs
from gravbench.report.section import Column
from gravbench.report.terminal.printing import heading, say, say_all, subsection
from gravbench.report.terminal.table import table
from gravbench.report.winning import behind_json, over_seeds_json, quantile_notes, quantile_words, within_words
from gravbench.verdicts import fastest, ranking
from gravbench.verdicts.best import Choice, Selection
from gravbench.verdicts.cards import card_kind
from gravbench.verdicts.compare import Defaults, Verdict, away
from gravbench.verdicts.question import EQUAL_MASS, USUAL, Behind, Question

CHANGED = "*"
READING = (
    "use: the simplest configuration that is as good as the fastest. ties: the number of others that are. "
    f"{Verdict.UNCLEAR}: the number that have slower medians but cannot be distinguished from the fastest. "
    "behind: how much longer the recommended configuration takes than the fastest, by their medians. "
    f"{CHANGED} the choice differs from that at the previous n."
)
MEASURE = "gravbench run SWEEP --search all --resume --out FOLDER measures them in full."
EQUAL = f"{EQUAL_MASS}=1 is this fast only for bodies of equal mass; --unequal-masses leaves it out."


def render_choices(
    selections: Sequence[Selection],
    console: Console,
    threshold: float,
    question: Question = USUAL,
    *,
    full: bool = True,
    everything: bool = False,
    here: Here = NOWHERE,
    defaults: Defaults | None = None,
) -> None:
    """Print one table per device and task: what to use for each n; with ``everything``, all that is as good.

    Unless it is ``full``, what is UNCLEAR is one sentence per table, and the columns are not explained.

    They answer the ``question``. Rows whose source is not the one that is ``here`` are marked. With ``defaults`` a row
    has the axes that differ from those of its variant.
    """
    heading(console, "The best")
    say(console, f"Among configurations with {within_words(question)} (relative errors of one evaluation).")
    for place, selection in enumerate(selections):
        _say_selection(selection, console, question, here, defaults, full=full)
        notes = drift_notes(selection.drifts)
        if not any(drift_notes(later.drifts) == notes for later in selections[place + 1 :]):
            say_all(console, notes, "bold yellow")
        _say_unclear(selection, console, full=full)
        for n, least in selection.missed.items():
            say(console, f"n = {n:,}: nothing is accurate enough; the smallest error is {least:.1e}")
        others = (
            [(choice.n, equal) for choice in selection.choices for equal in choice.as_good[1:]] if everything else []
        )
        for n, record in others:
            say(console, f"n = {n:,}, equally good: {_name(record)}")
        if sentence := closing_sentence(selection):
            say(console, sentence, "bold")
    for sentence in table_sentences(selections):
        say(console, sentence)
    if note := here.method_note([choice.chosen for selection in selections for choice in selection.choices]):
        say(console, note)
    if not full:
        marked = any(choice.changed for selection in selections for choice in selection.choices)
        sign = f"{CHANGED} differs from the row above. " * marked
        say(console, f"{sign}--full explains columns and names what is {Verdict.UNCLEAR}.", "dim")
        return
    console.print()
    axes = "axes: those that differ from the variant's defaults. " if defaults is not None else ""
    say(
        console,
        f"A configuration is as good as the fastest if its median is at most {100 * threshold:g} % longer. It is "
        f"distinguished from the fastest if it takes longer than that with {100 * CONFIDENCE:g} % confidence. "
        + axes
        + READING,
        "dim",
    )


def _say_selection(
    selection: Selection, console: Console, question: Question, here: Here, defaults: Defaults | None, *, full: bool
) -> None:
    """Print the table of one device and task, and what its names and signs mean."""
    types = sorted({choice.chosen.dtype for choice in selection.choices})
    task = [
        str(value) if name in PARTS and PARTS[name].bare else f"{name} {value}"
        for name, value in selection.task.items()
    ]
    title = ", ".join(filter(None, [selection.device, *task, " and ".join(types)]))
    subsection(console, title + drift_signs(selection.drifts))
    chosen = [choice.chosen for choice in selection.choices]
    if chosen:
        console.print(table(console, _columns(selection, question, here, defaults, full=full), selection.choices))
    for note in sign_notes(chosen) + seed_notes(chosen) + here.source_notes([record] for record in chosen):
        say(console, note)
    if any(record.axes.get(EQUAL_MASS) == 1 for record in chosen):
        say(console, EQUAL)
    say_all(console, quantile_notes(chosen, question.quantile))


def _columns(
    selection: Selection, question: Question, here: Here, defaults: Defaults | None, *, full: bool
) -> list[Column[Choice]]:
    several_types = len({choice.chosen.dtype for choice in selection.choices}) > 1
    axes: Column[Choice] = Column("axes", lambda choice: _axes(choice.chosen, defaults), 0, text=True, breaks=True)
    of_largest: Column[Choice] = Column("max\nerror", lambda choice: relative_error(choice.chosen.error_max), 4)
    dtype: Column[Choice] = Column("dtype", lambda choice: choice.chosen.dtype, 0, text=True)
    return [
        Column("n", lambda choice: f"{choice.n:,}", 0),
        Column("", lambda choice: CHANGED * choice.changed + _signs(choice.chosen, here), 0, text=True),
        Column("use", lambda choice: ranking.named(choice.chosen), 0, text=True, breaks=True),
        Column("toolkit", lambda choice: choice.chosen.toolkit, 0, text=True),
        *[dtype] * several_types,
        *[axes] * any(axes.cell(choice) for choice in selection.choices),
        Column("", _unclear, 0, text=True, style="yellow"),
        Column("ms", lambda choice: _ms(choice.chosen), 0),
        Column(SLOWEST_SEED, lambda choice: slowest_seed(choice.chosen), 1),
        Column("fastest\nms", lambda choice: _ms(choice.fastest) if choice.behind or choice.unclear else "", 2),
        Column("untimed,\ns", lambda choice: here.untimed(choice.chosen), 1, text=True),
        Column("1e9 inter-\nactions/s", lambda choice: number(times(ranking.speed(choice.chosen), 1e-9)), 5),
        Column(
            f"{quantile_words(question.quantile)}\nerror",
            lambda choice: relative_error(question.error_of(choice.chosen)),
            2,
        ),
        *[of_largest] * (full and question.quantile != LARGEST),
        Column("behind\n%", _behind, 6),
        Column("ties", lambda choice: f"{len(choice.as_good) - 1:,}", 3),
        Column("of", lambda choice: f"{choice.compared:,}", 7),
    ]


def _say_unclear(selection: Selection, console: Console, *, full: bool) -> None:
    """Say what cannot be told from the fastest, and what was outraced."""
    unclear = [choice for choice in selection.choices if choice.unclear]
    if full:
        say_all(console, [f"n = {choice.n:,}, {_uncertainty(choice)}" for choice in unclear], "yellow")
    elif unclear:
        say(console, _uncertainties(unclear), "yellow")
    if late := {choice.n: choice.outraced for choice in selection.choices if choice.outraced}:
        say(console, _left_out(late, sum(choice.less for choice in selection.choices)), "yellow")
    for n, outraced in selection.unmeasured.items():
        lost = f"every configuration that is accurate enough was outraced ({outraced:,})"
        say(console, f"n = {n:,}: {lost}. {MEASURE}", "yellow")


def table_sentences(selections: Sequence[Selection]) -> list[str]:
    """Say which table that comes with gravbench ``gravbench.force`` uses on each device of the chosen records."""
    sentences = []
    by_device = ranking.grouped(
        [choice.chosen for selection in selections for choice in selection.choices], lambda record: record.device
    )
    for records in by_device.values():
        card = card_kind(records)
        cards = {measured.card for record in records if (measured := fastest.of_nearest(record.toolkit, card))}
        for other in sorted(cards, key=str):
            table = "its own table" if other.name == card.name else f"the table of {other}, which is the most like it"
            sentences.append(f"gravbench.force uses {table} on {card.name}.")
    return sentences


def closing_sentence(selection: Selection) -> str:
    """Say from which n on what is to be used; empty where nothing is."""
    parts: list[tuple[str, int, int]] = []
    for choice in selection.choices:
        name = f"{ranking.named(choice.chosen)} ({choice.chosen.toolkit})"
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1], choice.n)
        else:
            parts.append((name, choice.n, choice.n))
    phrases = [f"{name} {_sizes(first, last)}" for name, first, last in parts]
    return f"Use {', '.join(phrases)}." if phrases else ""


def _sizes(first: int, last: int) -> str:
    return f"at n = {first:,}" if first == last else f"from n = {first:,} to {last:,}"


def _axes(record: Record, defaults: Defaults | None) -> str:
    """Write the axes that are not at their defaults; all where these are not known."""
    if defaults is None or record.variant not in defaults:
        return record.configuration
    named = ranking.named(record).split()  # some stand beside the name
    words = [word(name, value) for name, value in away(record, defaults).items()]
    return " ".join(text for text in words if text not in named)


def _name(record: Record) -> str:
    return " ".join(filter(None, [record.variant, record.toolkit, record.dtype, record.configuration]))


def _ms(record: Record) -> str:
    return number(1e3 * ranking.seconds(record))


def _unclear(choice: Choice) -> str:
    return f"{Verdict.UNCLEAR} {len(choice.unclear)}" if choice.unclear else ""


def _behind(choice: Choice) -> str:
    if choice.behind is None:
        return percent(0.0)
    return percent(choice.behind.interval.ratio - 1) + ("" if choice.behind.sure else " ± n/a")


def _uncertainty(choice: Choice) -> str:
    """Say how far those that are unclear may be from the fastest, and which that is."""
    nearest, farthest = choice.unclear[0], choice.unclear[-1]
    if len(choice.unclear) > 1:
        which, those = f"{count(len(choice.unclear), 'configuration')} take", "the last of them"
        parts = [f"{_more(nearest)} ({_name(nearest.record)})", f"{_more(farthest)} ({_name(farthest.record)})"]
    else:
        which, those, parts = f"{_name(farthest.record)} takes", "it", [_more(farthest)]
    interval = farthest.interval
    bounds = f"between {number(interval.low, 3)} and {number(interval.high, 3)} times as long"
    how_far = f"{those} takes {bounds}" if farthest.sure else f"there are too few samples to bound the time of {those}"
    return (
        f"{Verdict.UNCLEAR}: {which} {' to '.join(parts)} longer by the median than the fastest, "
        f"{_name(choice.fastest)} with {_ms(choice.fastest)} ms, but cannot be distinguished from it; {how_far}."
    )


def _uncertainties(choices: Sequence[Choice]) -> str:
    """Say in one sentence what the counts of a table mean, and how much slower by its median the slowest is."""
    farthest = max((choice.unclear[-1] for choice in choices), key=lambda behind: behind.interval.ratio)
    return (
        f"{Verdict.UNCLEAR} N: N others are slower by the median, up to {_more(farthest)}, but cannot be distinguished "
        "from the fastest."
    )


def _left_out(late: Mapping[int, int], less: int) -> str:
    """Say at which n configurations were left out because they were outraced."""
    where = ", ".join(f"{outraced:,} at n = {n:,}" for n, outraced in late.items())
    took = f" In these samples {less:,} of them took less time than the fastest of the others." if less else ""
    return (
        f"left out because they were outraced: {where}; sampling stopped once it was clear that another case is "
        f"faster.{took} "
        f"{MEASURE}"
    )


def _more(behind: Behind) -> str:
    return f"{rough_percent(behind.interval.ratio - 1)} %"


def _signs(record: Record, here: Here) -> str:
    return signs(record) + here.sign(record)


def choices_json(
    selections: Sequence[Selection], threshold: float, here: Here = NOWHERE, question: Question = USUAL
) -> dict[str, Any]:
    """Return the choices as what JSON can hold, with all that is as good and all that is unclear.

    They answer the ``question``.
    ``source`` is as ``here`` says it in words. Bounds of a ratio are None where the samples are too few for them, and
    lack the scatter between processes where ``interval_includes_processes`` is false.
    """
    return {
        "error": question.error,
        "quantile": question.quantile,
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
                        "outraced": choice.outraced,
                        "use": _json(choice.chosen, here),
                        "fastest": _json(choice.fastest, here),
                        "behind": behind_json(choice.behind) if choice.behind else None,
                        "as_good": [_json(record, here) for record in choice.as_good[1:]],
                        "unclear": [_json(record.record, here) | behind_json(record) for record in choice.unclear],
                    }
                    for choice in selection.choices
                ],
                "missed": [{"n": n, "least_error": least} for n, least in selection.missed.items()],
                "unmeasured": [{"n": n, "outraced": outraced} for n, outraced in selection.unmeasured.items()],
                "drifts": [{"spread": drift.spread, "sentence": drift_sentence(drift)} for drift in selection.drifts],
            }
            for selection in selections
        ],
    }


def _json(record: Record, here: Here) -> dict[str, Any]:
    names = ("variant", "toolkit", "dtype", "axes", "method", "median_seconds", "untimed_seconds", *QUANTILES.values())
    plain = {name: getattr(record, name) for name in names} | {"source": here.origin(record).words}
    return plain | over_seeds_json(record)
