"""What was run, how far its anchors drifted, how its cards differ, and what is not ranked and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from gravbench.model.device import SOFTWARE, is_software
from gravbench.model.record import Record, Status
from gravbench.report.names import compact, count, drift_sentence, joined, why_unranked
from gravbench.report.numbers import number, percent
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import Difference, differences

NOTHING = "There are no records yet; gravbench run writes them."
CARDS = (
    "The tables above treat cards of one kind that share the cases as one device. This one shows how these cards "
    "differ, by the anchors that each repeated. times: repetitions. ms: the geometric mean of the medians. interval: "
    "of the difference from the first card, with 95 % confidence by Student's t."
)
OF_SOFTWARE = "a driver that computes on the processor: its times say nothing about a GPU"
MOST_SKIPPED = 8
"""Of so many variants skipped for one reason, the configurations are listed; of more, only the names."""


def conditions(content: Content) -> Section:
    """Say what was run: devices, days, bodies, how many cases ended how, and by which commit."""
    if not content.records:
        return Section("run", "gravbench", NOTHING)
    cases = content.cases
    statuses = Counter(case.status for case in cases)
    started = sorted(record.started for record in content.comparable)
    devices = (" with driver ".join(filter(None, [case.device, case.driver])) for case in cases)
    late = sum(case.outraced for case in cases)
    facts = {
        "devices": joined(devices) or "none recorded",
        **({SOFTWARE: OF_SOFTWARE} if any(is_software(case.device) for case in cases) else {}),
        **{f"{name}, card {place}": uuid for (name, uuid), place in content.names.cards.items()},
        "measured": " to ".join(dict.fromkeys([started[0], started[-1]])),
        "bodies": joined(f"{case.part('bodies')} {case.subset}".strip() for case in cases),
        "precision": joined(case.dtype for case in cases),
        "eps": joined(f"{case.eps:g}" for case in cases),
        "cases": ", ".join(f"{statuses[status]:,} {status}" for status in get_args(Status))
        + (f"; {late:,} of the ok cases were outraced" if late else ""),
        "commit": joined(case.commit or "not recorded" for case in cases),
        "harness": joined(case.harness_version for case in cases),
    }
    return Section("run", "gravbench", parts=[Part(facts=facts)])


def anchors(content: Content) -> Section | None:
    """Say how far the repetitions of each anchor lie apart."""
    if not content.drifts:
        return None
    sentences = list(map(drift_sentence, content.drifts))
    beyond = {sentence for sentence, drift in zip(sentences, content.drifts, strict=True) if drift.beyond}
    return Section(
        "anchors", "The anchor", parts=[Part(lines=sentences, style=lambda line: "bold yellow" * (line in beyond))]
    )


def cards(content: Content) -> Section | None:
    """Say how cards differ that share the cases."""
    rows_of_devices = differences(content.comparable)
    parts = [
        Part(device, table=Table(_CARDS, rows))
        if rows
        else Part(
            lines=[
                f"{device}: no anchor was repeated on more than one of these cards, so their differences are not known."
            ]
        )
        for device, rows in rows_of_devices.items()
    ]
    return Section("cards", "The cards", CARDS, parts) if parts else None


def _signed(ratio: float) -> str:
    written = percent(ratio - 1)
    return written if written.startswith("-") else f"+{written}"


def _interval(row: Difference) -> str:
    return f"{_signed(row.low)} to {_signed(row.high)}" if row.low > 0 else "unbounded"


_CARDS: list[Column[Difference]] = [
    Column("anchor", lambda row: row.anchor.label, text=True, breaks=True),
    Column("card", lambda row: row.card[1], text=True, breaks=True),
    Column("times", lambda row: f"{row.repetitions:,}"),
    Column("ms", lambda row: number(1e3 * row.seconds)),
    Column("differs\nby %", lambda row: "" if row.first else _signed(row.ratio)),
    Column("interval,\n%", lambda row: "" if row.first else _interval(row)),
]


def not_ranked(content: Content) -> Section | None:
    """List the cases that are not ranked by the reason, those with the most first."""
    lost = [case for case in content.cases if not ranking.is_ranked(case)]
    return Section("not_ranked", "Not ranked", parts=list(_reasons(lost))) if lost else None


def _reasons(lost: list[Record]) -> Iterator[Part]:
    for status in ("failed", "invalid", "skipped", "ok"):
        reasons = ranking.grouped((case for case in lost if case.status == status), why_unranked)
        for reason, alike in sorted(reasons.items(), key=lambda item: -len(item[1])):
            lines = compact(alike)
            # What skips everything on a device depends on no configuration.
            if status == "skipped" and len(lines) > MOST_SKIPPED:
                lines = [f"{count(len(lines), 'variant')}: {joined(case.variant for case in alike)}"]
            yield Part(f"{status}, {count(len(alike), 'case')}: {reason}", lines=lines)
