"""Commands that show what was found, and need no GPU: report, export, history."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion, selecting
from gravbench.cli.folders import known_variants
from gravbench.cli.newest import newest_of_all
from gravbench.cli.options import (
    READ,
    AsJson,
    RunsArgument,
    app,
    console,
    find_run,
    linked,
    paged,
    read_records,
    read_runs,
    tell_written,
    warn,
    working,
    writing,
)
from gravbench.cli.selecting import DeviceOption, ErrorOption, QuantileOption, SizesOption, VariantsOption
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.report.chosen import Chosen
    from gravbench.report.sections.content import Content
    from gravbench.verdicts.question import Question


EXAMPLE = ("h100/gems3", "the steps of GPU Gems 3 on an H100")
"""A run that a clone brings with it, for readers without a GPU, and what it is."""


ReportedRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN...",
        help="A run's folder or name (default: the newest run); several with --html or --figures.",
        autocompletion=completion.runs,
    ),
]
FullReport = Annotated[bool, typer.Option("--full", help="Print every table, not only the summary.")]
TablesAsMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Print the ladder and the arena as Markdown; with --full, every table.")
]
PublishedSource = Annotated[
    str | None,
    typer.Option(
        "--published",
        metavar="NAME",
        help="Compare with the numbers of this source (default: the source that the sweep names).",
        autocompletion=completion.sources,
    ),
]
PageFile = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML file that works offline.")
]
FiguresFolder = Annotated[
    Path | None, typer.Option("--figures", metavar="FOLDER", help="Write the figures as SVG and PNG.")
]


@app.command(rich_help_panel=READ)
def report(
    run_names: ReportedRuns = None,
    full: FullReport = False,
    n: SizesOption = None,
    variant: VariantsOption = None,
    device: DeviceOption = None,
    error: ErrorOption = None,
    quantile: QuantileOption = None,
    as_json: AsJson = False,
    markdown: TablesAsMarkdown = False,
    published: PublishedSource = None,
    html: PageFile = None,
    figures: FiguresFolder = None,
) -> None:
    """Summarize a run on one screen: what is fastest at each n, and by how much. --full prints the rest.

    --n, --variant and --device select records and print every table of the selection. Speed-ups, ± and what is fastest
    are those of the whole run. --error and --quantile say how accurate the fastest has to be.
    """
    if sum([markdown, as_json, bool(html or figures)]) > 1:
        raise InputError("--markdown and --json print, --html and --figures write instead; accepted: --markdown alone")
    named = run_names or [str(newest_of_all())]
    quiet = markdown or as_json
    folders = list(dict.fromkeys(find_run(name, stderr=quiet) for name in named))
    chosen, question = selecting.chosen(n, variant, device), selecting.question_of(error, quantile)
    tables = full or chosen or published
    if (error, quantile) != (None, None) and not (as_json or html) and (tables or markdown or figures):
        raise InputError(
            "--error and --quantile choose the fastest of the summary, of --json and of --html; the tables and figures "
            "that were asked for show every case; accepted: one of those three"
        )
    if html or figures:
        _write_report(folders, published, chosen, question, html, figures)
        return
    if len(folders) > 1:
        raise InputError(
            f"{len(folders)} runs: the terminal shows one at a time; accepted: several with --html or --figures"
        )
    if quiet:
        _print_for_programs(folders[0], published, chosen, question, as_json=as_json, full=full)
    elif tables:
        _print_everything(folders[0], published, chosen)
    else:
        _print_summary(folders[0], named[0] if run_names else str(folders[0]), question)


def _content(
    folder: Path, published: str | None, chosen: Chosen, question: Question | None = None, *, explained: bool = False
) -> Content:
    """Read a run, which has to have what is selected of it, and its source; ``explained`` reads its bottlenecks too."""
    from gravbench.config.published import find, load
    from gravbench.model import bottlenecks, runs
    from gravbench.model.variant import parents, summaries
    from gravbench.report.provenance import Here
    from gravbench.report.published import beside
    from gravbench.report.sections.content import Content
    from gravbench.verdicts.cards import together
    from gravbench.verdicts.question import USUAL

    (records,) = together([read_records(folder)])
    chosen.check(records)
    name = published or runs.published(folder)
    source = load(find(name)) if name else None
    variants = known_variants(warn)
    return Content(
        [records],
        parents(variants),
        Here(variants, records),
        chosen,
        bottlenecks.read(folder) if explained else bottlenecks.NONE,
        summaries(variants),
        {variant: known.loads for variant, known in variants.items()},
        source,
        beside(folder, source) if source else {},
        question or USUAL,
    )


def _print_summary(folder: Path, name: str, question: Question) -> None:
    from gravbench.model import run_names
    from gravbench.model.runs import RECORDS
    from gravbench.report.chosen import EVERYTHING
    from gravbench.report.terminal.summary import render_summary

    content = _content(folder, None, EVERYTHING, question)
    brought = (run_names.located(Path(EXAMPLE[0])) / RECORDS).is_file()
    then = f"{EXAMPLE[1]}: gravbench report {EXAMPLE[0]}" if brought else ""
    again = shlex.join(["gravbench", "report", name, "--full"])
    render_summary(content, console(), name=name, then=then, again=again)


def _print_everything(folder: Path, published: str | None, chosen: Chosen) -> None:
    from gravbench.report.sections.every import sections
    from gravbench.report.terminal.sections import render_sections

    built = sections(_content(folder, published, chosen, explained=True))
    with paged() as terminal:
        render_sections(built, terminal)


def _print_for_programs(
    folder: Path, published: str | None, chosen: Chosen, question: Question, *, as_json: bool, full: bool
) -> None:
    """Print every section as JSON, or as Markdown; of the latter, unless it is ``full``, the ladder and the arena."""
    import json

    from gravbench.report.markdown import markdown
    from gravbench.report.reported import report_json
    from gravbench.report.sections.arena import arena
    from gravbench.report.sections.every import sections
    from gravbench.report.sections.ladder import largest_only

    content = _content(folder, published, chosen, question, explained=full)
    if as_json:
        typer.echo(json.dumps(report_json(content, str(folder)), indent=2, allow_nan=False))
    elif full:
        typer.echo(markdown(sections(content)), nl=False)
    else:
        typer.echo(markdown([largest_only(content)], titles=False), nl=False)
        if section := arena(content):
            typer.echo(markdown([section]), nl=False)


def _write_report(
    folders: list[Path],
    published: str | None,
    chosen: Chosen,
    question: Question,
    page: Path | None,
    figures: Path | None,
) -> None:
    from gravbench.config.published import find, load
    from gravbench.model import bottlenecks, runs
    from gravbench.report.page import html
    from gravbench.report.page.figures import write
    from gravbench.report.published import beside

    shown = []
    with working("reading records") as say:
        for folder in folders:
            say(f"reading {folder}")
            name = published or runs.published(folder) or ""
            source = load(find(name)) if name else None
            remarks: list[str] = []
            records = read_records(folder, remarks.append)
            chosen.check(records)
            for sentence in remarks:
                warn(sentence)
            others = beside(folder, source) if source else {}
            shown.append(
                html.Run(folder.resolve().name, records, runs.environment(folder), name, source, remarks, others)
            )
        variants = known_variants(warn)
        limits = bottlenecks.NONE.joined(map(bottlenecks.read, folders))
        made = html.Page(shown, variants, limits, chosen, question)
        if page:
            say(f"writing {page}")
            with writing(page):
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text(made.text(), "utf-8")
        files = []
        if figures:
            drawn = made.figures()
            with writing(figures):
                for path in write(drawn, figures):
                    files.append(path)
                    say(f"drawing figures: {len(files):,} of {2 * len(drawn):,} files")
    if page:
        tell_written(console(), page, size=True)
    if figures:
        console().print(f"wrote {len(files)} files to ", linked(str(figures), figures), sep="", soft_wrap=True)


@app.command(rich_help_panel=READ)
def export(
    run_names: RunsArgument,
    to: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Write to this file: .csv, .parquet, .t4.json, .thicket.json, or .t1.json of a variant.",
        ),
    ],
    n: SizesOption = None,
    variant: VariantsOption = None,
    device: DeviceOption = None,
) -> None:
    """Export the newest record of each case for other programs.

    As a table (CSV, Parquet), as results of autotuning (T4), as profiles that Thicket reads, or, for one variant and
    one n, as a search space (T1) with its kernel and its times, which Kernel Tuner reads.
    """
    from gravbench.explain import tuning_problem
    from gravbench.report.export import write

    chosen = selecting.chosen(n, variant, device)
    runs = [run.records for run in read_runs(run_names)]
    chosen.check([record for records in runs for record in records])
    if not to.name.endswith(tuning_problem.ENDING):
        with writing(to):
            rows = write(runs, to, chosen)
        console().print(f"{rows} records in {to}", markup=False, highlight=False)
        return
    with working("writing the search space"):
        problem = tuning_problem.problem_of(runs, chosen, known_variants(warn))
    with writing(to):
        files = tuning_problem.write(problem, to)
    for path in files:
        tell_written(console(), path)


history_app = typer.Typer(help="Follow speed and error from commit to commit, with asv.", no_args_is_help=True)
app.add_typer(history_app, name="history", rich_help_panel=READ)


@history_app.command("export")
def export_history(
    run_names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...",
            help="Folders or names of runs; without any, only refresh the list of benchmarks.",
            autocompletion=completion.runs,
        ),
    ] = None,
    to: Annotated[Path, typer.Option(help="The folder of asv's results.")] = Path(".asv/results"),
    machine: Annotated[
        str | None,
        typer.Option(help="Machine name in asv (default: asv's name for this host, or the name of the GPU)."),
    ] = None,
    repeated: Annotated[
        bool, typer.Option("--repeated", help="Only cases that these runs have at two commits or more.")
    ] = False,
) -> None:
    """Add the records of runs to asv's results, so that `asv publish` and `asv compare` show them."""
    from gravbench.asv.export import export, machines, placements, reasons

    folders = [find_run(name) for name in run_names or []]
    with writing(to):
        done = export(folders, to, machine, warn, repeated=repeated)
    for path in done.files:
        typer.echo(path)
    typer.echo(f"{done.records} records exported to {to}")
    if done.placed:
        typer.echo(f"placed by their code: {placements(done.placed)}")
    if done.left_out:
        typer.echo(f"left out: {reasons(done.left_out)}")
    # Of several machines asv asks for one.
    exported = list(dict.fromkeys(path.parent.name for path in done.files))
    several = len(machines(to)) > 1
    for name in exported:
        which = f"--machine {shlex.quote(name)} " if several else ""
        typer.echo(f"Compare two commits: asv compare {which}HEAD~1 HEAD")
