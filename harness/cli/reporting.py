"""Commands that show what there is and what was found, and need no GPU: list, source, report, export, history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.options import RunsArgument, app, console, find_run, read_records, read_runs, warn, writing
from gravbench.errors import InputError, nearest


@app.command("list")
def list_variants() -> None:
    """Show the ladder: every variant, what it changes, its source, toolkits and axes; and the interactions."""
    from gravbench.model.interaction_files import find, packaged
    from gravbench.model.variant import discover
    from gravbench.report.terminal.inventory import show_interactions, show_variants

    variants = discover()
    show_variants(variants, console())
    takers = [name for name, one in variants.items() if one.any_interaction]
    show_interactions([find(name) for name in packaged()], takers, console())


@app.command()
def source(
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="Any that has CUDA C.")],
    interaction: Annotated[str, typer.Option(help="A packaged one, or a file.")] = "gravity",
) -> None:
    """Print the CUDA C of a variant, whole, as the compiler gets it."""
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find
    from gravbench.model.variant import discover

    known = {name: one for name, one in discover().items() if one.has_cuda_c}
    if variant not in known:
        raise InputError(f"{variant} is no variant with CUDA C; {nearest(variant, list(known))}")
    computed = find(interaction)
    if computed.name != GRAVITY and not known[variant].any_interaction:
        takers = ", ".join(name for name, one in known.items() if one.any_interaction)
        raise InputError(f"--interaction {interaction}: {variant} computes gravity; accepted: with {takers}")
    typer.echo(known[variant].cuda_source(computed), nl=False)


@app.command()
def report(
    run_names: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="A run's folder, or its name; several with --html or --figures."),
    ],
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="Print the ladder and the arena alone, as Markdown: README's ladder is made so."
        ),
    ] = False,
    published: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The source whose numbers stand beside; default what the sweep names."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page instead, one file that works offline.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="FOLDER", help="Write the figures instead, as SVG and PNG.")
    ] = None,
) -> None:
    """Print what a run found, or write it as a page or figures. Needs no GPU."""
    from gravbench.config.published import find, load
    from gravbench.model import runs
    from gravbench.model.variant import discover, parents, summaries
    from gravbench.report.here import Here
    from gravbench.report.terminal.arena import arena_markdown, render_arena
    from gravbench.report.terminal.gpus import render_gpus
    from gravbench.report.terminal.ladder import ladder_markdown, render
    from gravbench.report.terminal.loads import render_loads
    from gravbench.report.terminal.published import render_published
    from gravbench.report.terminal.stages import render_accuracy, render_counters, render_stages
    from gravbench.verdicts.cards import together
    from gravbench.verdicts.ranking import drifted

    if markdown and (html or figures):
        raise InputError("--markdown prints, --html and --figures write instead; accepted: --markdown alone")
    folders = list(dict.fromkeys(find_run(name, stderr=markdown) for name in run_names))
    if html or figures:
        _write_report(folders, published, html, figures)
        return
    if len(folders) > 1:
        raise InputError(f"{len(folders)} runs: a terminal shows one; accepted: several with --html or --figures")
    (folder,) = folders
    (records,) = together([read_records(folder)])
    name = published or runs.published(folder)
    variants = discover()
    here = Here(variants)
    if markdown:
        typer.echo(ladder_markdown(records, parents(variants), summaries(variants), here), nl=False)
        if arena := arena_markdown(runs.latest(records), drifted(records)):
            typer.echo("\n" + arena, nl=False)
        return
    source = load(find(name)) if name else None
    terminal = console()
    render(records, terminal, parents(variants), here)
    cases, drifts = runs.latest(records), drifted(records)
    for section in (render_arena, render_gpus, render_stages, render_accuracy, render_counters):
        section(cases, terminal, drifts)
    if source:
        render_published(source, records, terminal)
    if source and source.loads:
        render_loads(records, {name: one.loads for name, one in variants.items()}, terminal)


def _write_report(folders: list[Path], published: str | None, page: Path | None, figures: Path | None) -> None:
    from gravbench.config.published import find, load
    from gravbench.model import runs
    from gravbench.model.variant import discover
    from gravbench.report.page import html
    from gravbench.report.page.figures import write

    shown = []
    for folder in folders:
        name = published or runs.published(folder) or ""
        source = load(find(name)) if name else None
        said: list[str] = []
        records = read_records(folder, said.append)
        for sentence in said:
            warn(sentence)
        shown.append(html.Run(folder.resolve().name, records, runs.environment(folder), name, source, said))
    variants = discover()
    if page:
        with writing(page):
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(html.page(shown, variants), "utf-8")
        console().print(f"wrote {page}, {page.stat().st_size / 1e6:.1f} MB", markup=False, soft_wrap=True)
    if figures:
        with writing(figures):
            files = write(html.every_figure(shown, variants), figures)
        console().print(f"wrote {len(files)} files to {figures}", markup=False, soft_wrap=True)


@app.command()
def export(
    run_names: RunsArgument,
    to: Annotated[Path, typer.Option(metavar="FILE", help="A file that ends in .csv or .parquet.")],
) -> None:
    """Write the newest record of each case as a table for other programs."""
    from gravbench.model.runs import latest
    from gravbench.report.export import write

    records = [record for one in read_runs(run_names) for record in latest(one.records)]
    with writing(to):
        write(records, to)
    console().print(f"{len(records)} records in {to}", markup=False, highlight=False)


history_app = typer.Typer(help="Follow speed and error from commit to commit, with asv.", no_args_is_help=True)
app.add_typer(history_app, name="history")


@history_app.command("export")
def export_history(
    run_names: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="As report takes them; without any, only list anew what is there."),
    ] = None,
    to: Annotated[Path, typer.Option(help="asv's folder of results.")] = Path(".asv/results"),
    machine: Annotated[str | None, typer.Option(help="asv's name of the machine; default that of its GPU.")] = None,
) -> None:
    """Add the records of runs to asv's results, for `asv publish` to show."""
    from gravbench.asv.export import export, reasons

    folders = [find_run(name) for name in run_names or []]
    with writing(to):
        done = export(folders, to, machine, warn)
    for path in done.files:
        typer.echo(path)
    typer.echo(f"{done.records} records exported to {to}")
    if done.left_out:
        typer.echo(f"left out: {reasons(done.left_out)}")
