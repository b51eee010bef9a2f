"""What a comparison is worth on this machine, as a table in a terminal and as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console

from gravbench.model.statistics import CONFIDENCE
from gravbench.report.compared import case_json
from gravbench.report.names import compact, count
from gravbench.report.numbers import finite, rough_percent
from gravbench.report.section import Column
from gravbench.report.terminal.comparison import MOST_ROWS, Labels, anchor_words
from gravbench.report.terminal.printing import heading, say
from gravbench.report.terminal.table import table
from gravbench.verdicts.compare import Verdict
from gravbench.verdicts.selftest import Repeated, SelfTest

NOTHING = "No case is ok in both rounds of a pair, so nothing was compared."
READING = (
    "Every case is compared with itself. interval: half the width of its widest interval; a change shows if it exceeds "
    "the threshold by that much. differed: the largest difference between two of its medians."
)


def render_selftest(test: SelfTest, console: Console, *, everything: bool = False) -> None:
    """Print one row per case, the widest interval first, then the rate of false alarms and what can be seen."""
    heading(console, "Self-test of the comparison")
    cases = test.cases
    if cases:
        labels = Labels([(case.record, case.record) for case in cases])
        say(console, f"all: {labels.shared}")
        for comparison in test.comparisons:
            say(console, f"{comparison.base} and {comparison.new}, anchor: {anchor_words(comparison)}")
        console.print()
        say(console, READING)
        columns: list[Column[Repeated]] = [
            Column("case", lambda case: labels.words(case.record, case.record), 0, text=True, breaks=True),
            Column("interval\n± %", lambda case: rough_percent(case.half_width), 0),
            Column("differed\n%", lambda case: rough_percent(case.difference), 0),
            *map(_verdict_column, Verdict),
        ]
        shown = cases if everything else cases[:MOST_ROWS]
        console.print(table(console, columns, shown))
        if len(shown) < len(cases):
            say(console, f"not shown: {len(cases) - len(shown):,} with narrower intervals; --all shows them")
    for comparison in test.comparisons:
        lost = {
            comparison.base: comparison.not_ok_base + comparison.only_base,
            comparison.new: comparison.not_ok_new + comparison.only_new,
        }
        for title, records in lost.items():
            if records:
                say(console, f"{title} has {count(len(records), 'case')} not ok here or in its partner:")
            for line in compact(records):
                say(console, f"  {line}")
    if test.rounds % 2:
        say(console, f"round {test.rounds} has no partner, so it is not used")
    console.print()
    for sentence in sentences(test):
        say(console, sentence, "bold")


def _verdict_column(verdict: Verdict) -> Column[Repeated]:
    return Column(verdict, lambda case: str(sum(pair.verdict is verdict for pair in case.pairs)), 1)


def sentences(test: SelfTest) -> list[str]:
    """Say what was found."""
    if not test.pairs or test.rate is None or test.rate_bound is None:
        return [NOTHING]
    verdicts = ", ".join(f"{cases:,} {verdict}" for verdict, cases in test.counts.items())
    differed = max(case.difference for case in test.cases)
    return [
        f"{count(len(test.pairs), 'pair')} of {count(len(test.cases), 'case')} compared with themselves, threshold "
        f"{rough_percent(test.threshold)} %: {verdicts}.",
        f"False alarms, in seconds or in clock cycles: {test.false:,} of {len(test.pairs):,}, "
        f"{rough_percent(test.rate)} %; if the pairs are independent, at most {rough_percent(test.rate_bound)} % with "
        f"{100 * CONFIDENCE:g} % confidence.",
        _seen(*test.half_widths),
        f"The medians of a case differed by up to {rough_percent(differed)} %; with a threshold of "
        f"{rough_percent(test.quiet_threshold)} % or more no verdict would have been false.",
    ]


def _seen(middle: float, worst: float) -> str:
    """Say how small a change shows, as far as the samples bound it."""
    if math.isinf(middle):
        why = "half of the cases have too few samples; raise measure.budget_seconds"
        return f"The smallest change that shows is not known, because {why}."
    left_open = "in the worst case by an unknown amount, because it has too few samples"
    rest = left_open if math.isinf(worst) else f"by {rough_percent(worst)} % in the worst case"
    seen = f"by {rough_percent(middle)} % in the median case, {rest}"
    return f"A change shows if it exceeds the threshold {seen}."


def selftest_json(test: SelfTest) -> dict[str, Any]:
    """Return the self-test as what JSON can hold; what is unbounded is None."""
    widths = test.half_widths if test.pairs else (math.inf, math.inf)
    return {
        "rounds": test.rounds,
        "threshold": test.threshold,
        "pairs": len(test.pairs),
        "counts": test.counts,
        "false_positives": test.false,
        "false_positive_rate": test.rate,
        "false_positive_rate_at_most": test.rate_bound,
        "confidence": CONFIDENCE,
        "half_width_median": finite(widths[0]),
        "half_width_worst": finite(widths[1]),
        "quiet_threshold": test.quiet_threshold if test.pairs else None,
        "cases": [
            case_json(case.record)
            | {
                "half_width": finite(case.half_width),
                "difference": case.difference,
                "verdicts": [pair.verdict for pair in case.pairs],
                "ratios": [pair.interval.ratio for pair in case.pairs],
            }
            for case in test.cases
        ],
    }
