"""The ladder in one picture and ten rows: from its first kernel to the fastest, one step after the other.

``python -m gravbench.report.story RUN --figures FOLDER`` writes the picture, for light and for dark pages;
``python -m gravbench.report.story RUN`` prints the table in Markdown. Both read records alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import cast

from gravbench.errors import exit_code_of
from gravbench.model.record import Record
from gravbench.model.run_names import find
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover, parents, summaries
from gravbench.report import story_figure
from gravbench.report.markdown import escaped, markdown_table
from gravbench.report.names import drift_notes, drift_signs
from gravbench.report.numbers import number, percent, relative_error
from gravbench.report.provenance import Here
from gravbench.report.section import Column
from gravbench.report.story_path import Step, Story, story
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import together

MOST_ROWS = 10


def markdown(shown_story: Story, changes: dict[str, str], here: Here) -> str:
    """Return the story as a Markdown table of at most ``MOST_ROWS`` rows; ``changes`` is what each variant changes."""
    rows = [_cells(step, changes, here, bold=step is shown_story.path[-1]) for step in shown_story.path]
    if shown_story.accurate:
        rows.append(_cells(shown_story.accurate, changes, here))
    for what, rung in shown_story.others:
        milliseconds = 1e3 * ranking.seconds(rung.best)
        name = f"{ranking.named(rung.best)} ({what})"
        # Another device has a first step of its own.
        same = ranking.conditions(rung.best) == ranking.conditions(shown_story.path[0].record)
        over_first = rung.over_first if same else shown_story.path[0].milliseconds / milliseconds
        rows.append(
            _cells(Step(name, rung.best.variant, milliseconds, None, None, over_first, rung.best), changes, here)
        )
    rows = rows[: MOST_ROWS - 1] + rows[MOST_ROWS - 1 :][:1]
    headers = ("variant", "what it changes", "ms", "over previous step", shown_story.first_label, "max error")
    columns = [
        Column(header, cast("Callable[[list[str]], str]", itemgetter(place)), text=place < 2)
        for place, header in enumerate(headers)
    ]
    signs = drift_signs((*shown_story.drifts, *shown_story.drifts_of_others))
    lines = [f"**{escaped(shown_story.title)}**{signs}", "", *markdown_table(columns, rows)]
    lines += ["", f"- {_errors(_records(shown_story)[: len(rows)])}"]
    for note in here.notes(_records(shown_story)) + _drift_notes(shown_story):
        lines.append(f"- `{note[0]}` {escaped(note[1:])}")
    return "\n".join(lines) + "\n"


def _errors(records: Sequence[Record]) -> str:
    """Say over which bodies the largest errors were found."""
    sampled = [record for record in records if 0 < (record.error_rows or 0) < record.n]
    of = "".join(f"; for `{ranking.named(record)}`, of a sample of {record.error_rows:,}" for record in sampled)
    return f"Errors are relative to direct sums in float64, the largest of all bodies{of}."


def _drift_notes(shown_story: Story) -> list[str]:
    """Say how far the anchors of the table's device drifted, and those of the devices of other rows."""
    notes, others = drift_notes(shown_story.drifts), shown_story.drifts_of_others
    if not others:
        return notes
    worst = max(others, key=lambda drift: drift.spread or 0.0)
    where = f"; on {worst.anchor.device}"
    if not notes:
        return [f"{note}{where}" for note in drift_notes(others)]
    return [*notes[:-1], f"{notes[-1]}{where}, {percent(worst.spread)} %"]


def _records(shown_story: Story) -> list[Record]:
    steps = [*shown_story.path, *([shown_story.accurate] if shown_story.accurate else [])]
    return [step.record for step in steps] + [rung.best for _, rung in shown_story.others]


def _cells(step: Step, changes: dict[str, str], here: Here, *, bold: bool = False) -> list[str]:
    sign = here.sign(step.record)
    name, _, where = step.name.partition(" (")
    title = f"`{name}`" + (f" ({where}" if where else "")
    return [
        f"**{title}**" if bold else title,
        changes.get(step.variant, ""),
        number(step.milliseconds) + (f" `{sign}`" if sign else ""),
        number(step.gain, 3),
        number(step.over_first, 3),
        relative_error(step.record.error_max),
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Print the table of a run, or write its picture; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gravbench.report.story", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name below reports/")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write the picture there instead")
    arguments = parser.parse_args(words)

    def work() -> None:
        (records,) = together([RecordFile(find(arguments.run)).read()])
        variants = discover()
        here, changes = Here(variants, records), summaries(variants)
        shown_story = story(records, parents(variants), here)
        if arguments.figures is None:
            sys.stdout.write(markdown(shown_story, changes, here))
        else:
            arguments.figures.mkdir(parents=True, exist_ok=True)
            for name, picture in story_figure.pictures(shown_story, changes).items():
                (arguments.figures / name).write_text(picture, "utf-8")

    return exit_code_of(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
