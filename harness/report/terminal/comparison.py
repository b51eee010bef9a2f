"""A comparison as a table in a terminal and as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Console

from gravbench.model.case import PARTS, Value, stated, word
from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE
from gravbench.model.work import Work
from gravbench.report.markdown import escaped, markdown_table
from gravbench.report.names import compact, count, joined
from gravbench.report.numbers import number, rough_percent
from gravbench.report.provenance import NARROW, NOWHERE, Here, notes_of_software, notes_of_two_methods
from gravbench.report.section import Column
from gravbench.report.terminal.differing import differences
from gravbench.report.terminal.printing import heading, say, say_facts, say_lines
from gravbench.report.terminal.table import table
from gravbench.report.winning import times
from gravbench.verdicts import ranking
from gravbench.verdicts.compare import Comparison, Defaults, Pair, Verdict
from gravbench.verdicts.ratios import BETWEEN, Interval, Scatter
from gravbench.verdicts.reasons import Reason

Thing = TypeVar("Thing")

MOST_NAMED = 3
"""Values of a field that are written out where no case has a partner."""
CHANGED = (Verdict.SLOWER, Verdict.FASTER)
"""Verdicts, on seconds or on cycles, whose cases have rows in a terminal; ``--all`` shows every one."""
MOST_ROWS = 40
"""Rows of one verdict, those that changed most first."""
NO_DEFAULTS: Defaults = {}

MOST_CHARACTERS = 160
"""Length of a list of cases without a partner that is printed; a longer one is counted."""

VERDICT_STYLES: Mapping[str, str] = {
    Verdict.SLOWER: "red",
    Verdict.FASTER: "green",
    Verdict.UNCLEAR: "yellow",
    Verdict.SAME: "",
}
"""How a terminal shows a verdict; the word alone says it where there are no colours."""

CI = f"{100 * CONFIDENCE:g} %"
"""Confidence of the intervals of ratios."""
IN_CYCLES = "verdict (cycles)"
READING = (
    "NEW/BASE is the ratio of the median times of one evaluation; above 1, NEW is slower. Intervals have "
    f"{CI} confidence or more. {IN_CYCLES}: that on clock cycles, if the clock is known."
)


NARROW_INTERVAL = (
    f"{NARROW} the interval lacks the scatter between processes of such work, so it may be too narrow; it includes the "
    "widest scatter of other anchors of the runs, if any"
)


class Labels:
    """Names cases by what sets them apart: what all of them share is said once, in ``shared``.

    An axis at its default, by ``defaults``, is not said.
    """

    def __init__(self, cases: Sequence[tuple[Record, Record]], defaults: Defaults = NO_DEFAULTS) -> None:
        """Look at pairs of records of one case; what the two of a pair differ in names nothing."""
        self._defaults = defaults
        devices = {joined(two) for two in {(old.device, new.device) for old, new in cases}}
        self._several_devices = len(devices) > 1
        self._told: set[str] = set()
        common = [] if self._several_devices else list(devices)
        of_parts = _of_parts(cases)
        # Records share their axes: one pair of each two is enough.
        of_axes = {(id(old.axes), id(new.axes)): (old.axes, new.axes) for old, new in cases}.values()
        for name in _names(axes for two in of_axes for axes in two):
            both = of_parts[name] if name in PARTS else {(old.get(name), new.get(name)) for old, new in of_axes}
            values = {old for old, new in both if old == new and old is not None}
            alike = all(old == new for old, new in both)
            if (len(values) > 1 and (alike or name in PARTS)) or (alike and name == "variant"):
                self._told.add(name)
            elif alike:
                unsaid = {PARTS[name].usual} if name in PARTS and PARTS[name].said == "unusual" else set()
                if name not in PARTS and not any(self._says(old, name) for old, _ in cases):
                    unsaid = values
                common += [_word(name, value) for value in values - unsaid]
        self.shared = ", ".join(common)

    def words(self, old: Record, new: Record) -> str:
        """Name one case."""
        words = [
            _word(name, value)
            for name in _names([old.axes])
            if name in self._told and (value := old.part(name)) is not None and value == new.part(name)
            if name in PARTS or self._says(old, name)
        ]
        return " ".join(words + [f"on {joined([old.device, new.device])}"] * self._several_devices)

    def _says(self, record: Record, axis: str) -> bool:
        known = self._defaults.get(record.variant, {})
        return axis in record.axes and (axis not in known or record.axes[axis] != known[axis])


def _of_parts(cases: Sequence[tuple[Record, Record]]) -> dict[str, set[tuple[Any, Any]]]:
    """Return what the two of a pair have for each field of a case, each two values once."""
    sides = (zip(*(record.identity for record in side), strict=True) for side in zip(*cases, strict=True))
    return {name: set(zip(*columns, strict=True)) for name, *columns in zip(PARTS, *sides, strict=True)}


def _names(every: Iterable[Mapping[str, Value]]) -> list[str]:
    return list(dict.fromkeys([*stated(), *(axis for axes in every for axis in axes)]))


def _word(name: str, value: Value) -> str:
    return f"n={value:,}" if name == "n" else word(name, value)


def render_comparison(
    comparison: Comparison,
    console: Console,
    *,
    everything: bool = False,
    partners: bool = True,
    here: Here = NOWHERE,
    defaults: Defaults = NO_DEFAULTS,
) -> None:
    """Print the verdict, the cases that are FASTER or SLOWER, the counts, and what has no partner or is not ok.

    With ``everything`` every case has a row, and long lists of cases are listed instead of counted. A comparison
    without any pair is a sentence and these counts. Without ``partners`` it is the sentence alone. Rows with a record
    whose source is not the one that is ``here`` are marked. Axes at the ``defaults`` of their variants are not said.
    """
    if not comparison.pairs and not everything:
        say(console, summary(comparison))
        if partners:
            _say_unpaired(comparison, console, everything=False)
        return
    heading(console, f"{comparison.new} against {comparison.base}")
    labels = Labels([(pair.base, pair.new) for pair in comparison.pairs], defaults)
    if closing := closing_sentence(comparison):
        say(console, closing, "bold")
    rows, hidden = _rows(comparison, everything)
    if rows:
        console.print()
        say(console, READING)
        letters = letters_of(rows)
        console.print(table(console, _columns(labels, letters, here), rows))
        for reason, letter in letters.items():
            say(console, f"{letter}: {reason}")
    console.print()
    say(console, summary(comparison))
    if not everything:
        for reason, alike in _why_unclear(comparison).items():
            say(console, f"{Verdict.UNCLEAR}, {count(alike, 'case')}: {reason}")
    for note in _notes(comparison.pairs, here):
        say(console, note, "yellow")
    if hidden:
        say(console, f"not shown: {', '.join(hidden)}; --all shows them", "dim")
    console.print()
    facts = {
        "BASE": comparison.base,
        "NEW": comparison.new,
        "all": labels.shared,
        "differs": differences(comparison),
        "threshold": f"{rough_percent(comparison.threshold)} %",
        "anchor": anchor_words(comparison),
    }
    say_facts(console, facts)
    _say_unpaired(comparison, console, everything=everything)


def _why_unclear(comparison: Comparison) -> Counter[Reason]:
    """Count the cases that are UNCLEAR in seconds by the first reason of each."""
    unclear = [pair for pair in comparison.pairs if pair.verdict is Verdict.UNCLEAR]
    return Counter(pair.reasons[0] for pair in unclear if pair.reasons)


def _say_unpaired(comparison: Comparison, console: Console, *, everything: bool) -> None:
    """Name the cases that are not compared, and say why where the runs tell."""
    counted = 0
    for title, records in _lists(comparison):
        lines = compact(records)
        if everything or sum(map(len, lines)) <= MOST_CHARACTERS * bool(comparison.pairs):
            say_lines(console, f"{title}, {count(len(records), 'case')}", lines)
        else:
            say(console, f"{count(len(records), 'case')} of {count(len(lines), 'variant')} {title}")
            counted += len(records)
    if counted:
        say(console, f"--all lists these {count(counted, 'case')}", "dim")
    for name in namesakes(comparison):
        say(console, f"{name} is not the same file in BASE and NEW, so its cases cannot be compared.")
    if comparison.pairs:
        return
    for name in PARTS:
        old, new = _values(comparison.only_base, name), _values(comparison.only_new, name)
        if old and new and not old & new and not PARTS[name].content_of:
            say(console, f"No case has the same {name}: {_named(old)} in BASE, {_named(new)} in NEW.")
    old, new = (
        {str(record.device) for record in side if record.device} for side in (comparison.only_base, comparison.only_new)
    )
    if old and new and not old & new:
        say(console, "The runs used different devices; --by device compares devices.")


def _values(records: Sequence[Record], name: str) -> set[str]:
    return {str(value) for record in records if (value := record.part(name)) is not None}


def _named(values: set[str]) -> str:
    return ", ".join(sorted(values)) if len(values) <= MOST_NAMED else f"{len(values)} values"


def _columns(labels: Labels, letters: Mapping[Reason, str], here: Here) -> list[Column[Pair]]:
    """Describe the columns."""

    def case(pair: Pair) -> str:
        return labels.words(pair.base, pair.new)

    def why(pair: Pair) -> str:
        return " ".join(letters[reason] for reason in pair.reasons)

    def untimed(pair: Pair) -> str:
        both = here.untimed(pair.base), here.untimed(pair.new)
        return both[0] if both[0] == both[1] else " / ".join(seconds or "none" for seconds in both)

    def source(pair: Pair) -> str:
        base, new = here.sign(pair.base), here.sign(pair.new)
        if base == new:
            return f"{base} both" if base else ""
        return ", ".join(f"{sign} {side}" for sign, side in ((base, "BASE"), (new, "NEW")) if sign)

    return [
        Column("verdict", lambda pair: pair.verdict, 0, text=True, style=_style),
        Column("case", case, 0, text=True, breaks=True),
        Column("NEW/\nBASE", lambda pair: number(pair.interval.ratio), 0),
        Column(f"{CI}\nCI", interval_words, 0),
        Column("cycles\nNEW/BASE", lambda pair: number(pair.cycles), 2),
        Column(
            "verdict\n(cycles)",
            lambda pair: pair.in_cycles or "",
            1,
            text=True,
            style=_style,
        ),
        Column("BASE\nms", lambda pair: number(1e3 * ranking.seconds(pair.base)), 0),
        Column("NEW\nms", lambda pair: number(1e3 * ranking.seconds(pair.new)), 0),
        Column("untimed,\ns", untimed, 1, text=True, breaks=True),
        Column("why", why, 1, text=True),
        Column("source", source, 1, text=True, breaks=True),
    ]


def _style(verdict: str) -> str:
    return VERDICT_STYLES.get(verdict, "")


def _notes(rows: Sequence[Pair], here: Here) -> list[str]:
    records = [(pair.base, pair.new) for pair in rows]
    narrow = [NARROW_INTERVAL] * any(map(_narrow_sign, rows))
    return [*narrow, *notes_of_software(records), *notes_of_two_methods(records), *here.notes_of_rows(records, "case")]


def namesakes(comparison: Comparison) -> list[str]:
    """Name the files that have other content in BASE than in NEW, so that no case of theirs has a partner."""
    old, new = (
        [
            (str(record.part(PARTS[field].content_of)), content)
            for record in records
            for field, content in record.contents.items()
        ]
        for records in (comparison.only_base, comparison.only_new)
    )
    differing = {file for file, _ in set(old) ^ set(new)}
    return [file for file in dict(old) if file in dict(new) and file in differing]


def summary(comparison: Comparison) -> str:
    """Say the counts and the mean in one sentence."""
    if not comparison.pairs:
        return f"No case is ok in both {comparison.base} and {comparison.new}, so nothing was compared."
    known = sum(comparison.counts_in_cycles.values())
    in_cycles = f"in clock cycles, known for {known:,}: {counts_words(comparison.counts_in_cycles)}; " if known else ""
    late = f"{comparison.outraced:,} outraced on one or both sides; " if comparison.outraced else ""
    mean = ": none"
    if comparison.mean:
        bounds = "unbounded" if not comparison.mean.bounded else _bounds(comparison.mean)
        mean = f"{' of the others' * bool(late)} {number(comparison.mean.ratio)} ({bounds})"
    return (
        f"{count(len(comparison.pairs), 'case')}: {counts_words(comparison.counts)}; {in_cycles}{late}"
        f"geometric mean of NEW/BASE{mean}, above 1 is slower"
    )


def closing_sentence(comparison: Comparison) -> str:
    """Say which side is faster and by how much in the mean, and between which ratios the cases lie; empty without any.

    A verdict on the mean is one on its interval, as that on a case is.
    """
    mean = comparison.mean
    if mean is None:
        return ""
    measured = comparison.in_full
    turned = mean.ratio <= 1
    faster, slower = (comparison.new, comparison.base) if turned else (comparison.base, comparison.new)
    # The ratios of the pairs are NEW over BASE: the time of the slower side over that of the faster one.
    sign = NARROW * (mean.bounded and any(map(_narrow_sign, measured)))
    by = f"{faster} is {times(_turned(mean) if turned else mean)}{sign} times as fast as {slower}"
    if comparison.verdict is Verdict.UNCLEAR:
        by = f"it is UNCLEAR which of {faster} and {slower} is faster: {by}"
    elif comparison.verdict is Verdict.SAME:
        by = f"{faster} and {slower} are equally fast within {rough_percent(comparison.threshold)} %: {by}"
    if len(measured) == 1:
        return f"In the only case, {by}."
    ratios = sorted(1 / pair.interval.ratio if turned else pair.interval.ratio for pair in measured)
    span = " to ".join(dict.fromkeys(f"{ratio:,.2f}" for ratio in (ratios[0], ratios[-1])))
    return f"In the geometric mean of {len(measured):,} cases, {by}. Case by case it is {span} times as fast."


def _turned(interval: Interval) -> Interval:
    """Return the interval of BASE over NEW."""
    return Interval(1 / interval.ratio, 1 / interval.high, 1 / interval.low if interval.low else math.inf)


def counts_words(counts: Mapping[Verdict, int]) -> str:
    """Say how many have each verdict."""
    return ", ".join(f"{cases:,} {verdict}" for verdict, cases in counts.items())


def anchor_words(comparison: Comparison) -> str:
    """Say what the repetitions of the anchors added to the intervals."""
    if comparison.elsewhere:
        return (
            "not repeated in fresh processes; the intervals are widened by the differences of each case between the "
            f"{comparison.elsewhere} other rounds"
        )
    words = [
        f"{name}, work on {work}: {_scatter_words(scatters)}"
        for (name, work), scatters in _by_name(comparison.scatters)
    ]
    if words:
        words[-1] += "; the intervals are widened accordingly"
    words += [
        f"no anchor of work on {work} in {' and '.join(runs)}"
        + (f" on {name}" if len({device for device, _ in comparison.unanchored}) > 1 else "")
        for (name, work), runs in _by_name(comparison.unanchored)
    ]
    return "; ".join(words) or "not repeated"


def _by_name(by_device_and_work: Mapping[tuple[str, Work], Thing]) -> list[tuple[tuple[str, Work], Thing]]:
    return sorted(by_device_and_work.items(), key=lambda item: item[0])


def _scatter_words(scatters: Sequence[Scatter]) -> str:
    """Say how far the anchors beside several cases scatter, from the least to the most."""
    deviations = _range([rough_percent(scatter.deviation) for scatter in sorted(scatters, key=_deviation)])
    reaches = _range([_reach(scatter) for scatter in scatters])
    whence = "from fresh processes" if all(scatter.fresh for scatter in scatters) else "from one process"
    return f"medians {whence} scatter by {deviations} %, which by itself makes a ratio uncertain by ± {reaches} %"


def _deviation(scatter: Scatter) -> float:
    return scatter.deviation


def _range(ordered: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys([ordered[0], ordered[-1]]))


def _reach(scatter: Scatter) -> str:
    return rough_percent(math.expm1(scatter.bound(BETWEEN if scatter.fresh else CONFIDENCE)))


def _rows(comparison: Comparison, everything: bool) -> tuple[list[Pair], list[str]]:
    """Sort the pairs by verdict and change; without ``everything`` those that changed, and the counts of the rest."""
    alike = ranking.grouped(sorted(comparison.pairs, key=change), lambda pair: pair.verdict)
    kept = {
        verdict: pairs if everything else list(filter(_has_changed, pairs))[:MOST_ROWS]
        for verdict in Verdict
        if (pairs := alike.get(verdict))
    }
    rows = [pair for pairs in kept.values() for pair in pairs]
    hidden = [
        f"{left:,} {'more ' * bool(pairs)}{verdict}"
        for verdict, pairs in kept.items()
        if (left := len(alike[verdict]) - len(pairs))
    ]
    return rows, hidden


def _has_changed(pair: Pair) -> bool:
    return not {pair.verdict, pair.in_cycles}.isdisjoint(CHANGED)


def change(pair: Pair) -> float:
    """Return a key that puts first what changed most, in seconds or in cycles."""
    return -max(abs(math.log(ratio)) for ratio in (pair.interval.ratio, pair.cycles or 1.0))


def letters_of(pairs: Iterable[Pair]) -> dict[Reason, str]:
    """Give each reason of these pairs a letter, by which a table refers to it."""
    reasons = dict.fromkeys(reason for pair in pairs for reason in pair.reasons)
    return {reason: chr(ord("a") + i) for i, reason in enumerate(reasons)}


def interval_words(pair: Pair) -> str:
    """Write the interval of a ratio, with a sign where it lacks the scatter between processes."""
    interval = pair.interval
    if not interval.bounded:
        return "unbounded"
    return f"{_bounds(interval)}{_narrow_sign(pair)}"


def _bounds(interval: Interval) -> str:
    return f"{number(interval.low)} to {number(interval.high)}"


def _narrow_sign(pair: Pair) -> str:
    return NARROW * (pair.narrow and pair.interval.bounded)


def _lists(comparison: Comparison) -> list[tuple[str, list[Record]]]:
    lists = [
        (f"only in BASE ({comparison.base})", comparison.only_base),
        (f"only in NEW ({comparison.new})", comparison.only_new),
    ]
    for title, records in (("BASE", comparison.not_ok_base), ("NEW", comparison.not_ok_new)):
        for (status, reason), alike in ranking.grouped(records, lambda record: (record.status, record.reason)).items():
            what = "ok, but with no median" if status == "ok" else f"{status}: {reason or 'no reason was recorded'}"
            lists.append((f"not ok in {title}, {what}", alike))
    return [(name, records) for name, records in lists if records]


def comparison_markdown(
    comparison: Comparison, *, everything: bool = False, here: Here = NOWHERE, defaults: Defaults = NO_DEFAULTS
) -> str:
    """Return the comparison as Markdown: the verdict, the counts, and a row for each case not SAME (or for every one).

    Rows with a record whose source is not the one that is ``here`` are marked. Axes at their ``defaults`` are not said.
    """
    labels = Labels([(pair.base, pair.new) for pair in comparison.pairs], defaults)
    rows, _ = _rows(comparison, everything=True)
    rows = [pair for pair in rows if everything or not pair.is_same]
    letters = letters_of(rows)
    heading = f"**{comparison.new} against {comparison.base}** (threshold {rough_percent(comparison.threshold)} %)"
    lines = [f"{heading}: {closing_sentence(comparison)}".removesuffix(": "), "", summary(comparison), ""]
    if labels.shared:
        lines += [f"All: {labels.shared}. Anchor: {anchor_words(comparison)}.", ""]
    if rows:
        lines += markdown_table(_columns(labels, letters, here), rows)
        lines += ["", *(f"- {letter}: {reason}" for reason, letter in letters.items())]
        # The sign as code: an asterisk there would begin a list.
        lines += [*(f"- {note.replace(f'{NARROW} ', f'`{NARROW}` ', 1)}" for note in _notes(rows, here)), ""]
    lines += [f"{escaped(name)} is not the same file in BASE and NEW.\n" for name in namesakes(comparison)]
    for title, records in _lists(comparison):
        lines += [f"{escaped(title)}, {count(len(records), 'case')}:", ""]
        lines += [*(f"- {escaped(line)}" for line in compact(records)), ""]
    return "\n".join(lines).rstrip() + "\n"
