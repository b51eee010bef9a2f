"""The command line. Imports what a command needs inside the command, so that ``--help`` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.config.load import Sweep

app = typer.Typer(
    name="gravbench",
    help="Explore how fast gravity between N bodies can be computed, and what each optimization is worth here.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigArgument = Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file, or the stem of a packaged one.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUES", help="Override, e.g. n=1024,4096 or p=64..512*2."),
]
Variants = Annotated[list[str] | None, typer.Option("--variant", help="Only this variant; may be repeated.")]
Toolkits = Annotated[list[str] | None, typer.Option("--toolkit", help="Only this toolkit; may be repeated.")]
Devices = Annotated[list[str] | None, typer.Option("--device", help="cpu, cuda:0, ...; may be repeated.")]
Bodies = Annotated[str | None, typer.Option(help="plummer, uniform, collision, or a file of bodies.")]
Subset = Annotated[str | None, typer.Option(help="How n bodies are taken from a file: even or lee.")]
ThresholdOption = Annotated[str, typer.Option("--threshold", help="The smallest change that counts: 2% or 0.02.")]


class FailOn(StrEnum):
    """What may end ``compare`` with exit code 1."""

    SLOWER = "slower"


def _console() -> Console:
    from rich.console import Console

    return Console()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say in a sentence that what is written to a file or below a folder cannot be."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _load(
    config: str,
    parameters: list[str] | None,
    variants: list[str] | None,
    toolkits: list[str] | None,
    bodies: str | None,
    subset: str | None,
) -> Sweep:
    from harness.config.load import load

    return load(config, parameters or [], variants or [], toolkits or [], bodies, subset)


@app.command("list")
def list_variants() -> None:
    """Show the ladder: every variant, what it changes, its source, toolkits and axes; and the interactions."""
    from harness import interaction
    from harness.report.inventory import show_interactions, show_variants
    from harness.variant import discover

    variants = discover()
    show_variants(variants, _console())
    takers = [name for name, one in variants.items() if one.any_interaction]
    show_interactions([interaction.find(name) for name in interaction.packaged()], takers, _console())


@app.command()
def source(
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="Any that has CUDA C.")],
    interaction: Annotated[str, typer.Option(help="A packaged one, or a file.")] = "gravity",
) -> None:
    """Print the CUDA C of a variant, whole, as the compiler gets it."""
    from harness import interaction as interactions
    from harness.errors import nearest
    from harness.variant import discover

    known = {name: one for name, one in discover().items() if one.has_cuda_c}
    if variant not in known:
        raise InputError(f"{variant} is no variant with CUDA C; {nearest(variant, list(known))}")
    computed = interactions.find(interaction)
    if computed.name != interactions.GRAVITY and not known[variant].any_interaction:
        takers = ", ".join(name for name, one in known.items() if one.any_interaction)
        raise InputError(f"--interaction {interaction}: {variant} computes gravity; accepted: with {takers}")
    typer.echo(known[variant].cuda_source(computed), nl=False)


@app.command()
def run(
    config: ConfigArgument,
    parameter: Overrides = None,
    variant: Variants = None,
    toolkit: Toolkits = None,
    device: Devices = None,
    bodies: Bodies = None,
    subset: Subset = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the records; default reports/CONFIG-DATE-TIME.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Measure only what an earlier run lacks: that of --out, or the newest.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cases and an estimate of the time; run nothing.")
    ] = False,
    counters: Annotated[
        bool,
        typer.Option("--counters", help="Then run each case on a GPU once under ncu, and add what it counts."),
    ] = False,
) -> None:
    """Verify, measure and record every case of a sweep."""
    from harness import runner, runs
    from harness.config.load import estimate_seconds
    from harness.devices import select
    from harness.plan import plan
    from harness.progress import ConsoleWatcher, duration

    sweep = _load(config, parameter, variant, toolkit, bodies, subset)
    devices, no_gpu = select(device or [])
    console = _console()
    if out is None:
        out = runs.newest(sweep.name) if resume else runs.new_folder(sweep.name)
    existing, words = runner.open_run(out, resume=resume, change=not dry_run)
    todo = plan(sweep, devices, no_gpu, existing, chosen=bool(device))
    estimates = [0.0 if task.skip else estimate_seconds(task.case, sweep.measure) for task in todo.tasks]
    if dry_run:
        for task, seconds in zip(todo.tasks, estimates, strict=True):
            what = (
                f"{task.device.selector}, up to about {duration(seconds)}" if task.device else f"skipped: {task.skip}"
            )
            again = ", anchor again" if task.anchor > 1 else ""
            console.print(f"{task.case.label} ({what}{again})", highlight=False, markup=False, soft_wrap=True)
        cases = sum(not task.skip for task in todo.tasks)
        console.print(f"{cases} measurements, up to about {duration(sum(estimates))}; nothing was run")
        return
    for word in words:
        console.print(word, markup=False)
    if todo.reused:
        console.print(f"{todo.reused} cases are in {out} already and are kept")
    runner.write_environment(out, devices, sys.argv[1:], sweep.published)
    try:
        with ConsoleWatcher(console, estimates) as watcher:
            records = runner.run(sweep, todo, out, watcher)
    except KeyboardInterrupt:
        console.print(
            f"stopped; what was measured is in {out}. To go on: gravbench run {config} --resume --out {out} "
            "with the same options",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    if counters:
        _count(sweep, out, console)
    counts = {status: sum(record.status == status for record in records) for status in ("ok", "invalid", "failed")}
    skipped = sum(record.status == "skipped" for record in records)
    console.print(
        f"{counts['ok']} ok, {counts['invalid']} invalid, {counts['failed']} failed, {skipped} skipped; "
        f"records in {out}. Show them: gravbench report {out}",
        markup=False,
        soft_wrap=True,
    )


def _count(sweep: Sweep, folder: Path, console: Console) -> None:
    """Add counters to the records of the sweep's cases that have none yet."""
    from harness.counters import Finished, add
    from harness.record import RecordFile, latest

    store = RecordFile(folder)
    cases = {case.key: case for case in sweep.cases}
    finished = [
        Finished(cases[record.key], record)
        for record in latest(store.read())
        if record.status == "ok" and record.device_uuid and record.key in cases and not record.counters
    ]
    found = add(finished, sweep.variant_folders, store, lambda said: console.print(said, markup=False))
    console.print(f"{found} of {len(finished)} records have counters", markup=False)


@app.command()
def check(
    config: ConfigArgument,
    parameter: Overrides = None,
    variant: Variants = None,
    toolkit: Toolkits = None,
    device: Devices = None,
    bodies: Bodies = None,
    subset: Subset = None,
) -> None:
    """Verify every case of a sweep against float64 and measure nothing; exit code 1 unless all are right."""
    import tempfile

    from harness import runner
    from harness.devices import select
    from harness.plan import plan
    from harness.progress import ConsoleWatcher

    sweep = _load(config, parameter, variant, toolkit, bodies, subset)
    devices, no_gpu = select(device or [])
    todo = plan(sweep, devices, no_gpu, chosen=bool(device), anchors=False)
    console = _console()
    with tempfile.TemporaryDirectory() as folder, ConsoleWatcher(console, [1.0] * len(todo.tasks)) as watcher:
        records = runner.run(sweep, todo, Path(folder), watcher, verify_only=True)
    wrong = sum(record.status in ("invalid", "failed") for record in records)
    right = sum(record.status == "ok" for record in records)
    console.print(f"{right} right, {wrong} wrong, {len(records) - right - wrong} skipped")
    if not right:
        console.print("nothing was verified")
    raise typer.Exit(1 if wrong or not right else 0)


@app.command()
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help="A run's folder, or its name.")],
    new: Annotated[
        str | None, typer.Argument(metavar="NEW", help="Another; not needed with --by, which takes both together.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Compare the values of toolkit, device, dtype, variant, an axis, ..."),
    ] = None,
    values: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these values of --by: every other with the first.")
    ] = None,
    threshold: ThresholdOption = "2%",
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit code 1 when any case is SLOWER, or none was compared.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every case.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="For pull requests.")] = False,
) -> None:
    """Compare two runs, or two values of a field: FASTER, SLOWER, SAME or UNCLEAR for every case. Needs no GPU."""
    import json

    from harness import compare as judging
    from harness import runs
    from harness.record import RecordFile
    from harness.report import comparison as shown
    from harness.variant import discover

    if as_json and markdown:
        raise InputError("--json and --markdown exclude each other; accepted: one of them")
    if values is not None and by is None:
        raise InputError("--values needs --by, the field whose values they are")
    if new is None and by is None:
        raise InputError("compare needs two runs, or one and --by FIELD; for example: --by toolkit")
    limit = judging.threshold(threshold)
    sides = [judging.Run(name, RecordFile(runs.find(name)).read()) for name in (base, new) if name is not None]
    if by is None:
        found = [judging.compare_runs(sides[0], sides[1], limit)]
    else:
        defaults = {name: variant.defaults for name, variant in discover().items()}
        together = judging.Run(
            " and ".join(side.name for side in sides), [one for side in sides for one in side.records]
        )
        chosen = [word.strip() for word in values.split(",")] if values else []
        found = judging.compare_values(together, by, defaults, chosen, limit)
    if as_json:
        typer.echo(json.dumps({"comparisons": [shown.comparison_json(one) for one in found]}, indent=2))
    elif markdown:
        typer.echo("\n".join(shown.comparison_markdown(one, everything=everything) for one in found), nl=False)
    else:
        console = _console()
        for one in found:
            shown.render_comparison(one, console, everything=everything, partners=by is None)
    slower = any(one.counts[judging.Verdict.SLOWER] for one in found)
    if fail_on and (slower or not any(one.pairs for one in found)):
        raise typer.Exit(1)


@app.command()
def selftest(
    config: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG", help="A YAML file, or a packaged one; default quick."),
    ] = None,
    parameter: Overrides = None,
    variant: Variants = None,
    toolkit: Toolkits = None,
    device: Devices = None,
    pairs: Annotated[int, typer.Option(help="Pairs of rounds; each round measures every case once.", min=1)] = 2,
    threshold: ThresholdOption = "2%",
    out: Annotated[Path | None, typer.Option(help="Folder for the rounds; default reports/selftest-DATE-TIME.")] = None,
    from_folder: Annotated[
        Path | None, typer.Option("--from", metavar="FOLDER", help="Measure nothing: judge the rounds kept there.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every case.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Measure cases against themselves: how often compare is wrong on this machine, and what it can see."""
    import json

    from harness import compare as judging
    from harness import runs
    from harness.report.selftests import render_selftest, selftest_json
    from harness.selftest import judge_rounds, read_rounds

    limit = judging.threshold(threshold)
    asked = {"CONFIG": config, "-p": parameter, "--variant": variant, "--toolkit": toolkit, "--device": device}
    if from_folder is None:
        out = out or runs.new_folder("selftest")
        _measure_rounds(config or "quick", parameter, variant, toolkit, device, 2 * pairs, out, quiet=as_json)
    elif ignored := [name for name, value in (asked | {"--out": out}).items() if value]:
        raise InputError(f"--from {from_folder} measures nothing; it cannot be combined with {', '.join(ignored)}")
    found = judge_rounds(read_rounds(from_folder or out or Path()), limit)
    if as_json:
        typer.echo(json.dumps(selftest_json(found), indent=2))
    else:
        render_selftest(found, _console(), everything=everything)
        _console().print(f"records in {from_folder or out}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if found.pairs else 1)


def _measure_rounds(
    config: str,
    parameters: list[str] | None,
    variants: list[str] | None,
    toolkits: list[str] | None,
    device: list[str] | None,
    rounds: int,
    out: Path,
    *,
    quiet: bool,
) -> None:
    """Measure a sweep several times, each round with processes and an order of its own."""
    from dataclasses import replace

    from rich.console import Console

    from harness import runner
    from harness.config.load import estimate_seconds
    from harness.devices import select
    from harness.plan import plan
    from harness.progress import ConsoleWatcher
    from harness.selftest import round_folder

    sweep = _load(config, parameters, variants, toolkits, None, None)
    devices, no_gpu = select(device or [])
    if round_folder(out, 1).exists():
        raise InputError(f"--out {out}: it has rounds already; judge them with --from {out}, or name another folder")
    console = Console(stderr=True) if quiet else _console()
    try:
        for number in range(1, rounds + 1):
            folder = round_folder(out, number)
            seed = sweep.measure.order_seed + number - 1
            own = replace(sweep, measure=sweep.measure.model_copy(update={"order_seed": seed}))
            todo = plan(own, devices, no_gpu, chosen=True)
            console.print(f"round {number} of {rounds}", markup=False)
            runner.open_run(folder, resume=False)
            runner.write_environment(folder, devices, sys.argv[1:], None)
            estimates = [0.0 if task.skip else estimate_seconds(task.case, own.measure) for task in todo.tasks]
            with ConsoleWatcher(console, estimates) as watcher:
                runner.run(own, todo, folder, watcher)
    except KeyboardInterrupt:
        console.print(
            f"stopped; judge what was measured: gravbench selftest --from {out}", markup=False, soft_wrap=True
        )
        raise typer.Exit(130) from None


@app.command()
def best(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs, or their names.")],
    error: Annotated[
        float, typer.Option(help="The largest relative error of one evaluation that is right enough.", min=0)
    ] = 1e-3,
    device: Annotated[
        str | None, typer.Option(help="Only this one: cpu, gpu, or a part of a device's name or UUID.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Only float32 or float64; default whichever is faster.")] = None,
    threshold: ThresholdOption = "2%",
    everything: Annotated[bool, typer.Option("--all", help="Name all that is as good.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the choices for every n and error as a table for harness.force."),
    ] = None,
) -> None:
    """Say what to use for each N: the simplest of all that cannot be told from the fastest. Needs no GPU."""
    import json

    from harness import best as choosing
    from harness import compare as judging
    from harness import fastest, runs
    from harness.record import RecordFile
    from harness.report.choices import choices_json, render_choices
    from harness.variant import discover

    if save and dtype:
        raise InputError("--save writes every number type, so --dtype has no say; accepted: one of them")
    limit = judging.threshold(threshold)
    read = [judging.Run(name, RecordFile(runs.find(name)).read()) for name in run_names]
    records = [record for one in read for record in one.records]
    variants = discover()
    defaults = {name: variant.defaults for name, variant in variants.items()}
    if save:
        fastest.write(fastest.make(read, variants, device=device, threshold=limit), save)
    found = choosing.best(records, defaults, error=error, device=device, dtype=dtype, threshold=limit)
    if as_json:
        typer.echo(json.dumps(choices_json(found, error, limit), indent=2))
    else:
        render_choices(found, _console(), error, limit, everything=everything)


@app.command()
def report(
    run_names: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="A run's folder, or its name; several with --html or --figures."),
    ],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the ladder alone, as Markdown: README's is made so.")
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
    from harness import runs
    from harness.config.published import find, load
    from harness.record import RecordFile, latest
    from harness.report.loads import render_loads
    from harness.report.paths import render_published
    from harness.report.stages import render_accuracy, render_counters, render_stages
    from harness.report.terminal import ladder_markdown, render
    from harness.variant import discover

    folders = list(dict.fromkeys(map(runs.find, run_names)))
    if markdown and (html or figures):
        raise InputError("--markdown prints, --html and --figures write instead; accepted: --markdown alone")
    if html or figures:
        _write_report(folders, published, html, figures)
        return
    if len(folders) > 1:
        raise InputError(f"{len(folders)} runs: a terminal shows one; accepted: several with --html or --figures")
    (folder,) = folders
    records = RecordFile(folder).read()
    name = published or runs.published(folder)
    source = load(find(name)) if name else None
    variants = discover()
    parents = {name: variant.parent for name, variant in variants.items()}
    if markdown:
        summaries = {name: variant.summary for name, variant in variants.items()}
        typer.echo(ladder_markdown(records, parents, summaries), nl=False)
    else:
        console = _console()
        render(records, console, parents)
        render_stages(latest(records), console)
        render_accuracy(latest(records), console)
        render_counters(latest(records), console)
        if source:
            render_published(source, records, console)
        if source and source.loads:
            render_loads(records, {name: variant.loads for name, variant in variants.items()}, console)


def _write_report(folders: list[Path], published: str | None, page: Path | None, figures: Path | None) -> None:
    from harness import runs
    from harness.config.published import find, load
    from harness.record import RecordFile
    from harness.report import figures as drawn
    from harness.report import html
    from harness.variant import discover

    shown = []
    for folder in folders:
        name = published or runs.published(folder) or ""
        source = load(find(name)) if name else None
        records = RecordFile(folder).read()
        shown.append(html.Run(folder.resolve().name, records, runs.environment(folder), name, source))
    variants = discover()
    console = _console()
    if page:
        with _writing(page):
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(html.page(shown, variants), "utf-8")
        console.print(f"wrote {page}, {page.stat().st_size / 1e6:.1f} MB", markup=False, soft_wrap=True)
    if figures:
        with _writing(figures):
            files = drawn.write(html.every_figure(shown, variants), figures)
        console.print(f"wrote {len(files)} files to {figures}", markup=False, soft_wrap=True)


@app.command()
def export(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs, or their names.")],
    to: Annotated[Path, typer.Option(metavar="FILE", help="A file that ends in .csv or .parquet.")],
) -> None:
    """Write the newest record of each case as a table for other programs."""
    from harness import export as tables
    from harness import runs
    from harness.record import RecordFile, latest

    records = [record for name in run_names for record in latest(RecordFile(runs.find(name)).read())]
    with _writing(to):
        tables.write(records, to)
    _console().print(f"{len(records)} records in {to}", markup=False, highlight=False)


@app.command()
def doctor() -> None:
    """Show devices, driver, toolkits and compilers, and how to mend what cannot be used."""
    from harness import environment
    from harness.doctor import examine_all
    from harness.report.inventory import show_findings

    console = _console()
    with console.status("looking for devices") as status:
        devices, no_gpu, findings = examine_all(lambda title: status.update(f"trying {title}"))
    show_findings(devices, no_gpu, findings, environment.describe(devices, sys.argv[1:]), console)


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
    from harness import history, runs

    folders = [runs.find(name) for name in run_names or []]
    with _writing(to):
        done = history.export(folders, to, machine)
    for path in done.files:
        typer.echo(path)
    typer.echo(f"{done.records} records exported to {to}")
    if done.left_out:
        typer.echo(f"left out: {history.reasons(done.left_out)}")


def main() -> None:
    """Run the command line; what a person did wrong ends in one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"gravbench: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


if __name__ == "__main__":
    main()
