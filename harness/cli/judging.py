"""Commands that read records and need no GPU: compare, best, merge."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.cli.folders import known_variants
from gravbench.cli.options import (
    NOT_JUDGED,
    READ,
    AsJson,
    Everything,
    RunsArgument,
    ThresholdOption,
    app,
    console,
    find_run,
    read_runs,
    tell,
    warn,
)
from gravbench.cli.selecting import ErrorOption, QuantileOption, question_of
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.model.record import Record
    from gravbench.model.variant import AxisValue, Variant
    from gravbench.verdicts.compare import Comparison, Run


class FailOn(StrEnum):
    """What may end ``compare`` with exit code 1."""

    SLOWER = "slower"
    SLOWER_CYCLES = "slower-cycles"


BaseRun = Annotated[
    str, typer.Argument(metavar="BASE", help="Folder or name of a run.", autocompletion=completion.runs)
]
NewRun = Annotated[
    str | None,
    typer.Argument(
        metavar="NEW", help="Another run; optional with --by, which pools the runs.", autocompletion=completion.runs
    ),
]
ComparedField = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="FIELD", help="Compare the values of this field: toolkit, device, dtype, variant, an axis, ..."
    ),
]
ComparedValues = Annotated[
    str | None,
    typer.Option("--values", metavar="A,B", help="Compare only these values of --by, each with the first."),
]
FailOns = Annotated[
    list[FailOn] | None,
    typer.Option(
        "--fail-on",
        help="Exit with code 1 if any case is SLOWER in seconds or in clock cycles, or if none was compared; "
        "repeat the option for both.",
    ),
]
ForPullRequests = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for pull requests.")]


@app.command(rich_help_panel=READ)
def compare(
    base: BaseRun,
    new: NewRun = None,
    by: ComparedField = None,
    values: ComparedValues = None,
    threshold: ThresholdOption = "2%",
    fail_on: FailOns = None,
    everything: Everything = False,
    as_json: AsJson = False,
    markdown: ForPullRequests = False,
) -> None:
    """Compare two runs, or two values of a field: FASTER, SLOWER, SAME or UNCLEAR for every case.

    There is one verdict on seconds and, if the device reports its clock, one on clock cycles.
    """
    from gravbench.verdicts import compare as judged

    if as_json and markdown:
        raise InputError("--json and --markdown cannot be combined; accepted: one of them")
    if values is not None and by is None:
        raise InputError("--values needs --by FIELD")
    if new is None and by is None:
        raise InputError("compare needs two runs, or one and --by FIELD; for example: --by toolkit")
    limit = judged.threshold(threshold)
    variants = known_variants(warn)
    runs = read_runs([name for name in (base, new) if name is not None], NOT_JUDGED)
    _check_distinct(runs)
    comparisons = _of_runs(runs[0], runs[1], limit) if by is None else _of_values(runs, by, values, variants, limit)
    records = [record for run in runs for record in run.records]
    if as_json:
        _print_comparisons_as_json(comparisons, records, variants)
    else:
        _print_comparisons(
            comparisons, records, variants, everything=everything, partners=by is None, markdown=markdown
        )
        if by is not None and not any(comparison.pairs for comparison in comparisons):
            warn(f"every value of {by} is compared with the first; to compare others: --values A,B")
    if any(_fails(comparisons, question) for question in fail_on or []):
        raise typer.Exit(1)


def _check_distinct(runs: Sequence[Run]) -> None:
    """Refuse the same run twice.

    Raises:
        InputError: both have the same records.
    """
    if len(runs) > 1 and runs[0].records and runs[0].records == runs[1].records:
        base, new = (run.name for run in runs)
        raise InputError(f"compare {base} {new}: both have the same records; accepted: two runs, or one and --by FIELD")


def _of_runs(base: Run, new: Run, limit: float) -> list[Comparison]:
    from gravbench.verdicts.compare import compare_runs

    return [compare_runs(base, new, limit)]


def _of_values(
    runs: Sequence[Run], field: str, values: str | None, variants: Mapping[str, Variant], limit: float
) -> list[Comparison]:
    """Compare the values of a field in the records of all runs together."""
    from gravbench.verdicts import compare as judged

    name = " and ".join(run.name for run in runs)
    lengths = tuple(len(run.records) for run in runs)
    together = judged.Run(name, [record for run in runs for record in run.records], lengths)
    chosen = [word.strip() for word in values.split(",")] if values else []
    return judged.compare_values(together, field, defaults_of(variants), chosen, limit)


def _print_comparisons_as_json(
    comparisons: Sequence[Comparison], records: Sequence[Record], variants: Mapping[str, Variant]
) -> None:
    from gravbench.report.compared import comparison_json
    from gravbench.report.provenance import Here

    here = Here(variants, records)
    typer.echo(json.dumps({"comparisons": [comparison_json(comparison, here) for comparison in comparisons]}, indent=2))


def _print_comparisons(
    comparisons: Sequence[Comparison],
    records: Sequence[Record],
    variants: Mapping[str, Variant],
    *,
    everything: bool,
    partners: bool,
    markdown: bool,
) -> None:
    """Print the tables; ``partners``: cases of one run may lack their partners in the other."""
    from gravbench.report.provenance import Here
    from gravbench.report.terminal.comparison import comparison_markdown, render_comparison

    here, defaults = Here(variants, records), defaults_of(variants)
    if markdown:
        tables = [
            comparison_markdown(comparison, everything=everything, here=here, defaults=defaults)
            for comparison in comparisons
        ]
        typer.echo("\n".join(tables), nl=False)
        return
    for comparison in comparisons:
        render_comparison(comparison, console(), everything=everything, partners=partners, here=here, defaults=defaults)


def _fails(comparisons: Sequence[Comparison], question: FailOn) -> bool:
    """Tell whether a case is SLOWER, or nothing is known of any."""
    from gravbench.verdicts.compare import Verdict

    pairs = [pair for comparison in comparisons for pair in comparison.pairs]
    answers = [pair.verdict if question is FailOn.SLOWER else pair.in_cycles for pair in pairs]
    # Where no clock was recorded nothing is known of cycles: that passes no gate on them.
    verdicts = set(filter(None, answers))
    return not verdicts or Verdict.SLOWER in verdicts


def defaults_of(variants: Mapping[str, Variant]) -> dict[str, Mapping[str, AxisValue]]:
    """Return the defaults of the axes of each variant."""
    return {name: variant.usual() for name, variant in variants.items()}


ConsideredDevice = Annotated[
    str | None, typer.Option("--device", help="Consider only this device: cpu, gpu, or part of a name or UUID.")
]
ConsideredType = Annotated[
    str | None, typer.Option("--dtype", help="Consider only float32 or float64 (default: both).")
]
ConsideredBodies = Annotated[
    str | None, typer.Option("--bodies", help="Consider only these bodies, e.g. plummer (default: all).")
]
UnequalMasses = Annotated[
    bool, typer.Option("--unequal-masses", help="Leave out configurations that are fast only for equal masses.")
]
FullChoices = Annotated[
    bool, typer.Option("--full", help="Explain the columns and name the configurations that are UNCLEAR.")
]
AllChoices = Annotated[
    bool, typer.Option("--all", help="Like --full, and list every configuration that is equally good.")
]
SavedTable = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save the choices for every n, error and quantile as a table for gravbench.force.",
    ),
]


@app.command(rich_help_panel=READ)
def best(
    run_names: RunsArgument,
    error: ErrorOption = None,
    quantile: QuantileOption = None,
    device: ConsideredDevice = None,
    dtype: ConsideredType = None,
    bodies: ConsideredBodies = None,
    unequal_masses: UnequalMasses = False,
    threshold: ThresholdOption = "2%",
    full: FullChoices = False,
    everything: AllChoices = False,
    as_json: AsJson = False,
    save: SavedTable = None,
) -> None:
    """Recommend a configuration for each N: the simplest of those that are as good as the fastest."""
    from gravbench.report.provenance import Here
    from gravbench.report.terminal.choices import choices_json, render_choices
    from gravbench.verdicts.best import best as choose
    from gravbench.verdicts.compare import threshold as parsed

    if save and unequal_masses:
        raise InputError("--save covers equal and unequal masses; it cannot be combined with --unequal-masses")
    if full and as_json:
        raise InputError("--json prints everything; it cannot be combined with --full")
    if save and dtype:
        raise InputError("--save writes all number types, so it cannot be combined with --dtype; accepted: one of them")
    question = replace(question_of(error, quantile), dtype=dtype, bodies=bodies, unequal_masses=unequal_masses)
    limit = parsed(threshold)
    runs = read_runs(run_names, NOT_JUDGED)
    records = [record for run in runs for record in run.records]
    variants = known_variants(warn)
    if save:
        _save_choices(runs, variants, device, bodies, limit, save)
    if unequal_masses:
        _check_unequal_masses(records)
    defaults = defaults_of(variants)
    choices = choose([run.records for run in runs], defaults, question, device=device, threshold=limit)
    here = Here(variants, records)
    if as_json:
        typer.echo(json.dumps(choices_json(choices, limit, here, question), indent=2))
        return
    shown = {"full": full or everything, "everything": everything}
    render_choices(choices, console(), limit, question, **shown, here=here, defaults=defaults)


def _save_choices(
    runs: list[Run],
    variants: Mapping[str, Variant],
    device: str | None,
    bodies: str | None,
    limit: float,
    path: Path,
) -> None:
    """Write the table for ``gravbench.force``, and say how many records it leaves out."""
    from gravbench.model.runs import latest
    from gravbench.report.names import count
    from gravbench.verdicts import fastest

    table = fastest.make(runs, variants, device=device, bodies=bodies, threshold=limit)
    fastest.write(table, path)
    for card in dict.fromkeys(measured.card for measured in table.measured):
        toolkits = ", ".join(measured.toolkit for measured in table.measured if measured.card == card)
        warn(f"{path}: {card}, {toolkits}")
    if late := sum(record.outraced for run in runs for record in latest(run.records)):
        warn(f"{path}: {count(late, 'record')} left out as outraced; a run with --search all measures them in full")


def _check_unequal_masses(records: Sequence[Record]) -> None:
    """Check that not all records are for equal masses.

    Raises:
        InputError: all are.
    """
    from gravbench.verdicts.question import EQUAL_MASS

    if records and all(record.axes.get(EQUAL_MASS) == 1 for record in records):
        raise InputError(f"--unequal-masses: every record has {EQUAL_MASS}=1; accepted: runs with others, too")


@app.command(rich_help_panel=READ)
def merge(
    run_names: RunsArgument,
    out: Annotated[Path | None, typer.Option(help="Write to this folder (default: reports/CONFIG-DATE-TIME).")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept missing shards and runs that were stopped.")
    ] = False,
) -> None:
    """Merge several runs into one: the shards of a sweep, or one sweep measured on several hosts."""
    from gravbench.model.merging import merge as make

    merged = make([find_run(name) for name in run_names], out, partial=partial, say=warn)
    for sentence in merged.missing:
        warn(sentence)
    merged_into = f"{merged.records:,} records of {merged.cases:,} cases are in {merged.folder}"
    show = shlex.join(["gravbench", "report", str(merged.folder)])
    tell(console(), f"{merged_into}. Show them: {show}")
