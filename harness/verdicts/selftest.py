"""What a comparison is worth on this machine: the same cases measured again and again, judged against themselves.

Each round is a folder of its own, a whole run with its own processes and its own order; rounds 1 and 2 are a pair,
3 and 4 the next. Whatever is called FASTER or SLOWER is a false alarm, in seconds or in clock cycles.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.model.runs import RECORDS, RecordFile
from gravbench.model.statistics import CONFIDENCE
from gravbench.verdicts.compare import Comparison, Pair, Run, Verdict, compare_runs
from gravbench.verdicts.ranking import grouped

ROUND = "round-"


@dataclass(frozen=True, slots=True)
class Repeated:
    """One case on one device and all its pairs."""

    pairs: list[Pair]

    @property
    def record(self) -> Record:
        """One of its records."""
        return self.pairs[0].base

    @property
    def half_width(self) -> float:
        """Half of the widest interval: a change shows in every pair if it exceeds the threshold by this much."""
        return max(pair.interval.half_width for pair in self.pairs)

    @property
    def difference(self) -> float:
        """The largest difference of two medians, as a part of the smaller."""
        return max(math.expm1(abs(math.log(pair.interval.ratio))) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Rounds compared in pairs; ``rounds`` counts those that were read, a last one without a partner included."""

    rounds: int
    threshold: float
    comparisons: list[Comparison]

    @property
    def pairs(self) -> list[Pair]:
        """All pairs."""
        return [pair for comparison in self.comparisons for pair in comparison.pairs]

    @property
    def cases(self) -> list[Repeated]:
        """The pairs of each case, the widest interval first."""
        by_case = grouped(self.pairs, lambda pair: (pair.base.key, pair.base.device_uuid or pair.base.device))
        return sorted(map(Repeated, by_case.values()), key=lambda case: (-case.half_width, -case.difference))

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many pairs have each verdict."""
        return {verdict: sum(comparison.counts[verdict] for comparison in self.comparisons) for verdict in Verdict}

    @property
    def false(self) -> int:
        """How many pairs have a verdict that is false, in seconds or in clock cycles."""
        wrong = Verdict.FASTER, Verdict.SLOWER
        return sum(pair.verdict in wrong or pair.in_cycles in wrong for pair in self.pairs)

    @property
    def rate(self) -> float | None:
        """The part of the pairs whose verdict is false."""
        return self.false / len(self.pairs) if self.pairs else None

    @property
    def rate_bound(self) -> float | None:
        """What the rate is at most, with 95 % confidence, were all pairs independent (Clopper and Pearson)."""
        from scipy.stats import binomtest

        if not self.pairs:
            return None
        return float(binomtest(self.false, len(self.pairs), alternative="less").proportion_ci(CONFIDENCE).high)

    @property
    def half_widths(self) -> tuple[float, float]:
        """The half width of the median case and of the worst."""
        widths = [case.half_width for case in self.cases]
        return statistics.median(widths), max(widths)

    @property
    def quiet_threshold(self) -> float:
        """The threshold at and above which no pair would have had a false verdict."""
        # No unbounded interval has a say: its bounds are 0 and infinity.
        thresholds = [
            max(pair.interval.low * factor, 1 / (pair.interval.high * factor)) - 1
            for pair in self.pairs
            for factor in {1.0, (pair.cycles or pair.interval.ratio) / pair.interval.ratio}
        ]
        return max(0.0, *thresholds)


def round_folder(folder: Path, number: int) -> Path:
    """Return where a round is kept."""
    return folder / f"{ROUND}{number}"


def read_rounds(folder: Path) -> list[Run]:
    """Read the rounds of a folder in their order.

    Raises:
        InputError: there are fewer than two.
    """
    rounds: list[Run] = []
    while (path := round_folder(folder, len(rounds) + 1)).joinpath(RECORDS).is_file():
        rounds.append(Run(path.name, RecordFile(path).read()))
    if len(rounds) < 2:
        raise InputError(
            f"--from {folder}: it has {len(rounds)} rounds ({ROUND}1/{RECORDS}, ...) and two are needed; "
            "`gravbench selftest --out FOLDER` makes them"
        )
    return rounds


def judge_rounds(rounds: Sequence[Run], threshold: float) -> SelfTest:
    """Compare rounds 1 and 2, 3 and 4, and so on, by the rules of any two runs.

    No round is in two pairs, for pairs that share one are alike. Where records do not tell their processes, the rounds
    of the other pairs show what processes differ by.
    """
    pairs = list(zip(rounds[::2], rounds[1::2], strict=False))
    comparisons = [
        compare_runs(*pair, threshold, [run for other in pairs if other is not pair for run in other]) for pair in pairs
    ]
    return SelfTest(len(rounds), threshold, comparisons)
