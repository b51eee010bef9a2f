"""The ladder in one picture and ten rows: from its first kernel to the fastest, one step after the other.

``python -m gravbench.report.story RUN --figures FOLDER`` writes the picture, for light and for dark pages;
``python -m gravbench.report.story RUN`` prints the table in Markdown. Both read records alone. With ``--seeds OTHER``,
the errors of cases that the other run has, too, are the largest over the seeds of both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravbench.errors import exit_code_of
from gravbench.model.record import Record
from gravbench.model.run_names import find
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover, parents, summaries
from gravbench.report import story_figure
from gravbench.report.markdown import escaped, markdown_table
from gravbench.report.names import drift_notes, drift_signs
from gravbench.report.numbers import PLUS_MINUS, number, percent, plus_minus, relative_error, times
from gravbench.report.provenance import NARROW, NARROW_BRIEF, SEPARATION, Here
from gravbench.report.section import Column
from gravbench.report.story_path import MOST_ROWS, Step, Story, no_less_accurate, story
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import together
from gravbench.verdicts.seeds import but_for_the_seed

Row = tuple[str, Step]
"""A step, with what it stands for where that is not a step of the path."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Records of the same cases with several seeds; ``name`` is the run with further seeds."""

    name: str
    alike: Mapping[Any, Sequence[Record]]

    @classmethod
    def of(cls, name: str, records: Iterable[Record]) -> Seeds:
        """Put together what differs in the seed alone; the card may be another one of its kind."""
        return cls(name, ranking.grouped(filter(ranking.is_ranked, records), but_for_the_seed))

    def seeds(self, record: Record) -> list[int]:
        """Return the seeds of which there are records of this case."""
        return sorted({same.seed for same in self._same(record)})

    def largest(self, record: Record) -> Record:
        """Return a record with the largest error over the seeds of its case."""
        errors = [same.error_max for same in self._same(record) if same.error_max is not None]
        return record.model_copy(update={"error_max": max(errors, default=record.error_max)})

    def sentence(self, steps: Sequence[Step]) -> str:
        """Say over which seeds errors are the largest, and which rows have fewer of them."""
        seeds = max((self.seeds(step.record) for step in steps), key=len)
        fewer = [step for step in steps if self.seeds(step.record) != seeds]
        alone = f"; those of {_names(fewer)} are of seed {fewer[0].record.seed} alone" if fewer else ""
        return f" Errors are the largest over seeds {', '.join(map(str, seeds))} (`{self.name}`){alone}."

    def _same(self, record: Record) -> Sequence[Record]:
        return self.alike.get(but_for_the_seed(record), [record])


def markdown(shown_story: Story, changes: dict[str, str], here: Here, seeds: Seeds | None = None) -> str:
    """Return the story as a Markdown table of at most ``MOST_ROWS`` rows; ``changes`` is what each variant changes."""
    rows = _rows(shown_story)
    signs = drift_signs((*shown_story.drifts, *shown_story.drifts_of_others))
    lines = [f"**{escaped(shown_story.title)}**{signs}", ""]
    lines += markdown_table(_columns(shown_story, changes, here), rows)
    steps = [step for _, step in rows]
    records = [record for step in steps for record in step.records]
    notes = [_reading(shown_story), f"{_bold_sentence(shown_story)} {_errors(steps)}"]
    if seeds is not None:
        notes[-1] += seeds.sentence(steps)
    lines += ["", *(f"- {note}" for note in notes)]
    signed = here.notes_of_rows([step.records for step in steps])
    signed += [NARROW_BRIEF] * any(map(shown_story.known.may_be_narrow, records))
    lines += [f"- `{note[0]}` {escaped(note[1:])}" for note in signed + _drift_notes(shown_story)]
    return "\n".join(lines) + "\n"


def _rows(shown_story: Story) -> list[Row]:
    """Return the rows: the fastest that is as accurate as the first one, and below it what is faster."""
    rows = [*(("", step) for step in shown_story.drawn), *shown_story.others]
    best = _best(shown_story)
    rows.sort(key=lambda row: 0 if row[1] in shown_story.path else 1 if row[1] is best else 2)
    return rows[:MOST_ROWS]


def _best(shown_story: Story) -> Step:
    """Return the fastest step whose largest error is no larger than that of the first one."""
    steps = [*shown_story.path, *(step for _, step in shown_story.others)]
    within = [step for step in steps if no_less_accurate(step.record, steps[0].record)]
    return min(within, key=lambda step: step.milliseconds)


def _columns(shown_story: Story, changes: dict[str, str], here: Here) -> list[Column[Row]]:
    known, best = shown_story.known, _best(shown_story)

    def name(row: Row) -> str:
        where, step = row
        title = f"`{' '.join(filter(None, [step.variant, here.changed(step.record)]))}`"
        title += f" ({where})" if where else ""
        return f"**{title}**" if step is best else title

    def time(record: Record | None) -> str:
        if record is None:
            return ""
        return f"{number(1e3 * ranking.seconds(record))} {plus_minus(known.half_width(record))}"

    def at_second(step: Step) -> str:
        other = step.at_second
        if other is None or here.changed(other) == here.changed(step.record):
            return time(other)
        return f"{time(other)}, {here.changed(other) or 'at defaults'}"

    def signs(step: Step) -> str:
        each = [here.sign(record) + NARROW * known.may_be_narrow(record) for record in step.records]
        distinct = "".join(dict.fromkeys("".join(each)))
        return f" `{distinct}`" if distinct else ""

    return [
        Column("variant", name, text=True),
        Column("what it changes", lambda row: shown_story.change(row[1], changes), text=True),
        Column("presupposes", lambda row: here.presupposed(row[1].record), rank=1, text=True),
        Column(f"ms, N = {shown_story.n:,}", lambda row: time(row[1].record) + signs(row[1])),
        Column("ms at defaults", lambda row: time(row[1].at_defaults), rank=1),
        *(
            Column(f"ms, N = {second:,}", lambda row: at_second(row[1]))
            for second in [shown_story.second]
            if second is not None
        ),
        Column(shown_story.first_label, lambda row: number(row[1].over_first, 3)),
        Column("max error", lambda row: relative_error(row[1].record.error_max)),
        Column("theoretical occupancy, %", lambda row: number(times(row[1].record.occupancy, 100), 3), rank=1),
    ]


def _reading(shown_story: Story) -> str:
    """Say which configuration of a variant a row has at each n, and what its times are."""
    at_second = (
        f"; its time at N = {shown_story.second:,} is that of the fastest one there" if shown_story.second else ""
    )
    return (
        f"Each row is the fastest configuration of a variant at N = {shown_story.n:,}; its name has the axes that are "
        f"not at their defaults{at_second}. ms is the median for one evaluation. {PLUS_MINUS}"
    )


def _bold_sentence(shown_story: Story) -> str:
    """Say what the bold row is, and which rows are faster."""
    first, best = shown_story.path[0], _best(shown_story)
    faster = [step for step in shown_story.faster if step.milliseconds < best.milliseconds]
    sentence = f"Bold: the fastest row whose largest error is no larger than that of `{first.variant}`"
    verb = "are" if len(faster) > 1 else "is"
    return sentence + (f"; {_names(faster)} {verb} faster, with larger errors" if faster else "") + "."


def _names(steps: Sequence[Step]) -> str:
    """Name steps in a sentence."""
    *others, last = [f"`{step.name}`" for step in steps]
    return f"{', '.join(others)} and {last}" if others else last


def _errors(steps: Sequence[Step]) -> str:
    """Say over which bodies the largest errors were found, and what classes of errors the table compares."""
    records = [step.record for step in steps]
    sampled = [record for record in records if 0 < (record.error_rows or 0) < record.n]
    of = "".join(f"; for `{ranking.named(record)}`, of a sample of {record.error_rows:,}" for record in sampled)
    in_half = [step for step in steps if SEPARATION in step.record.axes]
    to_half = f", and also to FP16 in {_names(in_half)}" if in_half else ""
    return (
        f"Errors are relative to direct sums in float64, the largest of all bodies{of}. All rows are direct sums, so "
        f"these are errors of rounding, in {records[0].dtype}{to_half}; approximations are not in this table."
    )


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


def main(words: Sequence[str] | None = None) -> int:
    """Print the table of a run, or write its picture; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gravbench.report.story", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name below reports/")
    parser.add_argument("--seeds", metavar="RUN", help="a run with the same cases for bodies of other seeds")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write the picture there instead")
    arguments = parser.parse_args(words)

    def work() -> None:
        (records,) = together([RecordFile(find(arguments.run)).read()])
        seeds = None
        if arguments.seeds:
            seeds = Seeds.of(arguments.seeds, [*records, *RecordFile(find(arguments.seeds)).read()])
            records = [seeds.largest(record) for record in records]
        variants = discover()
        here, changes = Here(variants, records), summaries(variants)
        shown_story = story(records, parents(variants), here)
        if arguments.figures is None:
            sys.stdout.write(markdown(shown_story, changes, here, seeds))
        else:
            arguments.figures.mkdir(parents=True, exist_ok=True)
            for name, picture in story_figure.pictures(shown_story, changes).items():
                (arguments.figures / name).write_text(picture, "utf-8")

    return exit_code_of(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
