"""Commands that read records and need no GPU: compare, best, merge."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli import completion
from gravbench.cli.folders import known_variants
from gravbench.cli.options import (
    READ,
    AsJson,
    Everything,
    RunsArgument,
    ThresholdOption,
    app,
    console,
    find_run,
    read_runs,
    warn,
)
from gravbench.cli.selecting import ErrorOption, QuantileOption, asked
from gravbench.errors import InputError

NOT_JUDGED = ("power_watts", "temperature_celsius")
"""Readings of a record by which no verdict is decided."""


class FailOn(StrEnum):
    """What may end ``compare`` with exit code 1."""

    SLOWER = "slower"
    SLOWER_CYCLES = "slower-cycles"


@app.command(rich_help_panel=READ)
def compare(
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="Folder or name of a run.", autocompletion=completion.runs)
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW",
            help="Another run; optional with --by, which pools the runs.",
            autocompletion=completion.runs,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Compare the values of this field: toolkit, device, dtype, variant, an axis, ..."
        ),
    ] = None,
    values: Annotated[
        str | None, typer.Option(metavar="A,B", help="Compare only these values of --by, each with the first.")
    ] = None,
    threshold: ThresholdOption = "2%",
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            "--fail-on",
            help="Exit with code 1 if any case is SLOWER in seconds or in clock cycles, or if none was compared; "
            "repeat the option for both.",
        ),
    ] = None,
    everything: Everything = False,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for pull requests.")] = False,
) -> None:
    """Compare two runs, or two values of a field: FASTER, SLOWER, SAME or UNCLEAR for every case.

    There is one verdict on seconds and, if the device reports its clock, one on clock cycles.
    """
    from gravbench.report.compared import comparison_json
    from gravbench.report.provenance import Here
    from gravbench.report.terminal.comparison import comparison_markdown, render_comparison
    from gravbench.verdicts import compare as judged

    if as_json and markdown:
        raise InputError("--json and --markdown cannot be combined; accepted: one of them")
    if values is not None and by is None:
        raise InputError("--values needs --by FIELD")
    if new is None and by is None:
        raise InputError("compare needs two runs, or one and --by FIELD; for example: --by toolkit")
    limit = judged.threshold(threshold)
    variants = known_variants(warn)
    sides = read_runs([name for name in (base, new) if name is not None], NOT_JUDGED)
    defaults = {name: variant.defaults for name, variant in variants.items()}
    if by is None:
        if sides[0].records and sides[0].records == sides[1].records:
            raise InputError(
                f"compare {base} {new}: both have the same records; accepted: two runs, or one and --by FIELD"
            )
        found = [judged.compare_runs(sides[0], sides[1], limit)]
    else:
        name = " and ".join(side.name for side in sides)
        lengths = tuple(len(side.records) for side in sides)
        together = judged.Run(name, [one for side in sides for one in side.records], lengths)
        chosen = [word.strip() for word in values.split(",")] if values else []
        found = judged.compare_values(together, by, defaults, chosen, limit)
    here = Here(variants, [record for side in sides for record in side.records])
    if as_json:
        typer.echo(json.dumps({"comparisons": [comparison_json(one, here) for one in found]}, indent=2))
    elif markdown:
        made = [comparison_markdown(one, everything=everything, here=here, defaults=defaults) for one in found]
        typer.echo("\n".join(made), nl=False)
    else:
        for one in found:
            render_comparison(one, console(), everything=everything, partners=by is None, here=here, defaults=defaults)
    pairs = [pair for one in found for pair in one.pairs]
    for question in fail_on or []:
        answers = [pair.verdict if question is FailOn.SLOWER else pair.in_cycles for pair in pairs]
        # Where no clock was recorded nothing is known of cycles: that passes no gate on them.
        verdicts = set(filter(None, answers))
        if not verdicts or judged.Verdict.SLOWER in verdicts:
            raise typer.Exit(1)


@app.command(rich_help_panel=READ)
def best(
    run_names: RunsArgument,
    error: ErrorOption = None,
    quantile: QuantileOption = None,
    device: Annotated[
        str | None, typer.Option(help="Consider only this device: cpu, gpu, or part of a name or UUID.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Consider only float32 or float64 (default: both).")] = None,
    unequal_masses: Annotated[
        bool, typer.Option("--unequal-masses", help="Leave out configurations that are fast only for equal masses.")
    ] = False,
    threshold: ThresholdOption = "2%",
    full: Annotated[
        bool, typer.Option("--full", help="Explain the columns and name the configurations that are UNCLEAR.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Like --full, and list every configuration that is equally good.")
    ] = False,
    as_json: AsJson = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save the choices for every n, error and quantile as a table for gravbench.force."
        ),
    ] = None,
) -> None:
    """Recommend a configuration for each N: the simplest of those that are as good as the fastest."""
    from gravbench.model.runs import latest
    from gravbench.report.names import count
    from gravbench.report.provenance import Here
    from gravbench.report.terminal.choices import choices_json, render_choices
    from gravbench.verdicts import fastest
    from gravbench.verdicts.best import best as choose
    from gravbench.verdicts.compare import threshold as parsed
    from gravbench.verdicts.question import EQUAL_MASS

    if save and unequal_masses:
        raise InputError("--save covers equal and unequal masses; it cannot be combined with --unequal-masses")
    if full and as_json:
        raise InputError("--json prints everything; it cannot be combined with --full")
    if save and dtype:
        raise InputError("--save writes all number types, so it cannot be combined with --dtype; accepted: one of them")
    question = replace(asked(error, quantile), dtype=dtype, unequal_masses=unequal_masses)
    limit = parsed(threshold)
    read = read_runs(run_names, NOT_JUDGED)
    runs = [one.records for one in read]
    records = [record for own in runs for record in own]
    variants = known_variants(warn)
    defaults = {name: variant.defaults for name, variant in variants.items()}
    if save:
        fastest.write(fastest.make(read, variants, device=device, threshold=limit), save)
        if late := sum(record.outraced for one in read for record in latest(one.records)):
            warn(f"{save}: {count(late, 'record')} left out as outraced; a run with --search all measures them in full")
    if unequal_masses and records and all(record.axes.get(EQUAL_MASS) == 1 for record in records):
        raise InputError(f"--unequal-masses: every record has {EQUAL_MASS}=1; accepted: runs with others, too")
    found = choose(runs, defaults, question, device=device, threshold=limit)
    here = Here(variants, records)
    if as_json:
        typer.echo(json.dumps(choices_json(found, limit, here, question), indent=2))
    else:
        render_choices(
            found,
            console(),
            limit,
            question,
            full=full or everything,
            everything=everything,
            here=here,
            defaults=defaults,
        )


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
    said = f"{merged.records:,} records of {merged.cases:,} cases are in {merged.folder}"
    show = shlex.join(["gravbench", "report", str(merged.folder)])
    console().print(f"{said}. Show them: {show}", markup=False, highlight=False, soft_wrap=True)
