"""The table of times over seeds: the median, the slowest seed, and the largest error of any.

``python docs/hooks/seeds_table.py RUN`` prints it in Markdown, a row per variant and n of a run below reports/.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gravbench.model.record import Record
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.report.names import drift_notes, drift_signs, joined
from gravbench.report.numbers import number, relative_error
from gravbench.report.provenance import Here
from gravbench.verdicts import ranking
from gravbench.verdicts.seeds import over_seeds, slowest_seconds

REPORTS = Path(__file__).resolve().parents[2] / "reports"
HEADERS = ("variant", "N", "seeds", "ms, median of seeds", "ms, slowest seed", "99 % error, largest of any seed")


def row(same: Sequence[Record]) -> list[str]:
    """Return the cells of the records of a variant at one n.

    Raises:
        SystemExit: they differ in more than the seed.
    """
    first, *others = over_seeds(same)
    if others:
        raise SystemExit(f"{first.variant} at n={first.n} was measured in {1 + len(others)} ways; 1 is needed")
    slowest = slowest_seconds(first) or ranking.seconds(first)
    times = [number(1e3 * seconds, 3) for seconds in (ranking.seconds(first), slowest)]
    return [f"`{first.variant}`", f"{first.n:,}", f"{len(same)}", *times, relative_error(first.error_p99)]


def table(records: Sequence[Record]) -> str:
    """Return the table of the records of a run, between what they were measured on and what its signs mean.

    Raises:
        SystemExit: those of a variant at one n differ in more than the seed.
    """
    ranked = [record for record in latest(records) if ranking.is_ranked(record)]
    alike = ranking.grouped(ranked, lambda record: (record.variant, record.n))
    shared = [joined(getattr(record, name) for record in ranked) for name in ("device", "bodies", "dtype", "toolkit")]
    drifts, here = ranking.drifts(records), Here(discover(), records)
    signs = "".join(f" {sign}" for sign in dict.fromkeys(map(here.sign, ranked)) if sign) + drift_signs(drifts)
    rows = [HEADERS, ["---", *["---:"] * (len(HEADERS) - 1)], *(row(alike[case]) for case in sorted(alike))]
    notes = [f"\n`{note[0]}` {note[1:].strip()}." for note in (*here.notes(ranked), *drift_notes(drifts))]
    return "\n".join([f"**{', '.join(shared)}**{signs}", "", *(f"| {' | '.join(cells)} |" for cells in rows), *notes])


def main(words: Sequence[str]) -> str:
    """Return the table of the run that is named."""
    (run,) = words
    return table(RecordFile(REPORTS / run).read())


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]) + "\n")
