"""Words that several reports use: counts with their nouns, lists, many cases in a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from harness.record import Record
from harness.report import ranking


def count(number: int, noun: str) -> str:
    """Say how many of something there are."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def joined(words: Iterable[str]) -> str:
    """List words once each, in the order of their first use."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def compact(cases: list[Record]) -> list[str]:
    """Name the cases in one line a variant."""
    by_variant: dict[str, list[Record]] = defaultdict(list)
    for case in cases:
        by_variant[case.variant].append(case)
    return [f"{name}: {'; '.join(_axes_of(alike))}" for name, alike in by_variant.items()]


def _axes_of(cases: list[Record]) -> Iterable[str]:
    yield ", ".join(sorted({case.toolkit for case in cases}, key=ranking.toolkit_order))
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


def escaped(text: str) -> str:
    """Write text for a cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())
