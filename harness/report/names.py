"""What reports call conditions, devices, cases and drift; counts with their nouns, and lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gravbench.model.case import CONDITIONS, Value
from gravbench.model.record import Record
from gravbench.model.toolkits import place_of
from gravbench.report.numbers import number, percent, times
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import Shared
from gravbench.verdicts.ranking import Conditions, Drift
from gravbench.verdicts.seeds import of_several_seeds, slowest_seconds


def count(number: int, noun: str) -> str:
    """Say how many of something there are."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def joined(words: Iterable[str | None]) -> str:
    """List words once each, in the order of their first use; what is unknown is left out."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def compact(cases: list[Record]) -> list[str]:
    """Name the cases in one line per variant."""
    by_variant = ranking.grouped(cases, lambda case: case.variant)
    return [f"{name}: {'; '.join(_axes_of(alike))}" for name, alike in by_variant.items()]


def _axes_of(cases: list[Record]) -> Iterable[str]:
    yield ", ".join(sorted({case.toolkit for case in cases}, key=place_of))
    yield _few([f"{n:,}" for n in sorted({case.n for case in cases})], "n = ", "values of n")
    yield ", ".join(sorted({case.dtype for case in cases}))
    configurations = list(dict.fromkeys(case.configuration for case in cases if case.axes))
    if configurations:
        yield _few(configurations, "", "configurations")


def _few(words: list[str], prefix: str, plural: str) -> str:
    """Name all of a few, and of many only the first and the last."""
    if len(words) <= 4:
        return prefix + ", ".join(words)
    return f"{len(words)} {plural} from {words[0]} to {words[-1]}"


def why_unranked(case: Record) -> str:
    """Say why a record that is not ranked is not."""
    reason = "no median was recorded" if case.status == "ok" else case.reason
    return reason or "no reason was recorded"


class Names:
    """Writes conditions as a title: what every record shares is left out, what would be ambiguous is not."""

    def __init__(self, cases: Sequence[Record] = ()) -> None:
        self._several = ranking.told_apart(filter(ranking.is_ranked, cases))
        namesakes = ranking.namesakes(cases)
        self.cards = {card: place for card, place in numbered_cards(cases).items() if card[0] in namesakes}
        """The numbers of the cards that share their name with others, by that name and the UUID."""

    def device(self, shared: Conditions) -> str:
        """Name the device, with the number of the card where another has the same name."""
        name = shared.device or ("CPU" if shared.cpu else "unknown device")
        numbers = [self.cards.get((shared.device, uuid)) for uuid in (shared.device_uuid or "").split(", ")]
        if None in numbers:
            return name
        return f"{name}, card{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, numbers))}"

    def title(self, shared: Conditions) -> str:
        """Name everything that sets these conditions apart from others in the report."""
        return f"{self.device(shared)}, {self.task(shared)}"

    def task(self, shared: Conditions) -> str:
        """Name what was computed, without the device."""
        values = dict(shared.task)
        told_apart = [name for name in values if CONDITIONS[name].title and self._says(name, values[name])]
        told_apart.sort(key=lambda name: CONDITIONS[name].said == "several")
        return ", ".join(CONDITIONS[name].title.format(**values) for name in told_apart)

    def _says(self, name: str, value: Value) -> bool:
        part = CONDITIONS[name]
        return name in self._several if part.said == "several" else part.said == "always" or value != part.usual


SLOWEST_SEED = "slowest\nseed, ms"
"""The header of a column with the time of the slowest of several seeds."""


def slowest_seed(record: Record, digits: int = 4) -> str:
    """Write the milliseconds of the slowest of several seeds; nothing for a single seed."""
    return number(times(slowest_seconds(record), 1e3), digits)


def seed_notes(records: Iterable[Record]) -> list[str]:
    """Say below a table what a row says of several seeds, where one does."""
    note = (
        "median of seeds: ms is the median over the seeds (of an even number, the slower of the two in the middle); "
        "errors are the largest of any seed; all else, ± included, is that of the seed in the middle"
    )
    return [note] * of_several_seeds(records)


def numbered_cards(cases: Iterable[Record]) -> dict[tuple[str, str], int]:
    """Number the cards of each name from one on, by name and UUID, those with most cases first."""
    numbers: dict[tuple[str, str], int] = {}
    counted: Counter[str] = Counter()
    for (name, uuids), _ in Counter((case.device, case.device_uuid) for case in cases).most_common():
        for uuid in (uuids or "").split(", "):  # of cards that share cases, all
            if name and uuid and (name, uuid) not in numbers:
                counted[name] += 1
                numbers[name, uuid] = counted[name]
    return numbers


def card_name(record: Record) -> str:
    """Name the device that a record is of; of cards that share cases, with the UUID."""
    return "{} ({})".format(*record.card) if isinstance(record, Shared) else record.device or "unknown device"


DRIFTED = "^"
"""The sign of a table whose run has an anchor that drifted."""
WORST_BUT_TENTH = "the 90th percentile, "
"""What is said of errors where a record has their 90 % quantile, which older ones lack."""


def drift_signs(drifts: Iterable[Drift]) -> str:
    """Return the sign that stands behind the title of a table; nothing without a drift."""
    return f" {DRIFTED}" if any(drift.beyond for drift in drifts) else ""


def drift_notes(drifts: Iterable[Drift]) -> list[str]:
    """Return the sentences below such a table, behind its sign: for each kind of work the anchor that drifted most."""
    by_work = ranking.grouped((drift for drift in drifts if drift.beyond), lambda drift: drift.anchor.work)
    limit = f"{100 * ranking.DRIFT_LIMIT:g} %"
    notes = []
    for work, beyond in by_work.items():
        most = max(beyond, key=lambda drift: drift.spread or 0.0)
        which = "the anchor" if len(beyond) == 1 else f"the worst of {len(beyond)} anchors"
        spread = f"spread over {percent(most.spread)} % in {count(most.repetitions, 'measurement')}"
        notes.append(
            f"{DRIFTED} DRIFT above {limit}: the medians of {which} of work on {work} {spread}; smaller differences "
            "are not significant"
        )
    return notes


def drift_sentence(drift: Drift) -> str:
    """Say how far the repetitions of an anchor lie apart, and whether that is drift."""
    where = f" on {card_name(drift.anchor)}" if drift.anchor.device else ""
    times = "once" if drift.repetitions == 1 else f"{drift.repetitions:,} times"
    lost = f" ({count(drift.not_ok, 'repetition')} more not ok)" if drift.not_ok else ""
    sentence = f"{drift.anchor.label} (work on {drift.anchor.work}){where}, measured {times}{lost}:"
    if drift.spread is None:
        return f"{sentence} no drift can be seen from that."
    limit = f"{100 * ranking.DRIFT_LIMIT:g} %"
    spread = f"the medians spread over {percent(drift.spread)} % ((largest - smallest) / median)"
    if drift.beyond:
        return f"{sentence} {spread}. DRIFT above {limit}: smaller differences between cases are not significant."
    return f"{sentence} {spread}, no drift above {limit}."
