"""Commands that run kernels: run, check, selftest, doctor."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import options, resuming
from gravbench.cli.folders import remember
from gravbench.cli.options import LOOK, MEASURE, app, console, warn
from gravbench.cli.stopping import hinting
from gravbench.config.search import StrategyName
from gravbench.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.config.load import Sweep
    from gravbench.measuring.dask_sessions import Cluster
    from gravbench.measuring.plan import Plan
    from gravbench.model.device import Device
    from gravbench.model.record import Record


@app.command(rich_help_panel=MEASURE)
def run(
    config: options.ConfigArgument,
    parameter: options.Overrides = None,
    variant: options.Variants = None,
    toolkit: options.Toolkits = None,
    device: options.Devices = None,
    bodies: options.Bodies = None,
    subset: options.Subset = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Measure only part K of N of the cases; gravbench merge joins the results."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write records to this folder (default: reports/CONFIG-DATE-TIME).")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Measure only what is missing from the run in --out, or from the newest run of this sweep."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cases and the estimated time without measuring.")
    ] = False,
    search: Annotated[
        StrategyName | None,
        typer.Option(help="How to choose the cases to measure; -p search.budget_trials=100 limits them."),
    ] = None,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters", help="Afterwards, run each GPU case once under Nsight Compute (ncu) and record its counters."
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEDULER|FILE|local",
            help="Measure on Dask workers: tcp://HOST:PORT, a scheduler file, or local to start them here.",
        ),
    ] = None,
) -> None:
    """Verify, measure and record every case of a sweep; exit code 1 if all cases were skipped."""
    from gravbench.config.load import load
    from gravbench.explain.counters import add_missing
    from gravbench.measuring import runner, shards
    from gravbench.measuring.plan import plan
    from gravbench.measuring.progress import ConsoleWatcher
    from gravbench.model import runs
    from gravbench.model.shard import parse
    from gravbench.search.strategies import of_plan

    if dask is not None and (device or counters):
        raise InputError(f"--dask cannot be combined with {'--device' if device else '--counters'}")
    overrides = [*(parameter or []), *([f"search.strategy={search}"] if search else [])]
    sweep = load(config, overrides, variant or [], toolkit or [], bodies, subset)
    remember(sweep.variant_folders)
    if shard is not None:
        sweep = shards.take(sweep, parse(shard))
    terminal = console()
    if out is None and resume:
        out = runs.newest(sweep.folder_name)
    if out and resume:
        if not os.path.lexists(out):
            raise InputError(f"--out {out}: no such folder; accepted with --resume: the folder of a run that was begun")
        shards.check_resumed(out, sweep)
    # What cannot be planned leaves no folder behind.
    existing = runner.recorded(out, resume=resume, say=warn) if out else []
    with _devices(device or [], dask, sweep, terminal) as (devices, no_gpu, cluster):
        todo = plan(sweep, devices, no_gpu, existing, chosen=bool(device))
        _say_misfits(sweep)
        if dry_run:
            _show_plan(todo, terminal)
            return
        out = out or runs.new_folder(sweep.folder_name)
        options_of_sweep = {
            "-p": parameter,
            "--variant": variant,
            "--toolkit": toolkit,
            "--device": device,
            "--bodies": bodies,
            "--subset": subset,
            "--shard": shard,
            "--search": search,
            "--dask": dask,
        }
        again = resuming.command(config, options_of_sweep, out, counters=counters)
        hint = f"the records so far are in {out}. To continue: {again}"
        opened = runner.open_run(out, existing, devices, sys.argv[1:], sweep, todo.planned, todo.left_out)
        with hinting(hint), opened as (store, word):
            if word:
                terminal.print(word, markup=False)
            if todo.reused:
                terminal.print(f"{todo.reused} cases are already in {out} and are kept", markup=False)
            with ConsoleWatcher(terminal) as watcher:
                try:
                    site = partial(cluster.events, todo.processes + 1) if cluster else None
                    records = runner.run(sweep, todo, store, watcher, site, of_plan(sweep, todo))
                except runner.StrandedError as error:
                    # Not in the sentence, which would lose the middle of a long command.
                    terminal.print(hint, markup=False, highlight=False, soft_wrap=True)
                    raise InputError(error) from error
    if counters:
        with hinting(hint):
            found, asked = add_missing(sweep, out, lambda said: terminal.print(said, markup=False))
            terminal.print(f"{found} of {asked} records have counters", markup=False)
    _print_mistakes(_mistakes(records, sweep, out), terminal)
    count = Counter(record.status for record in records)
    said = ", ".join(f"{count[status]} {status}" for status in ("ok", "invalid", "failed", "skipped"))
    show = shlex.join(["gravbench", "report", str(out)])
    terminal.print(f"{said}; records in {out}. To show them: {show}", markup=False, soft_wrap=True)
    if records and count["skipped"] == len(records) and not todo.reused:
        why = "; ".join(dict.fromkeys(record.reason or "no reason was recorded" for record in records))
        terminal.print(f"nothing was measured, because every case was skipped: {why}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


@contextmanager
def _devices(
    wanted: list[str], dask: str | None, sweep: Sweep, terminal: Console
) -> Iterator[tuple[list[Device], str | None, Cluster | None]]:
    """Find the devices of this machine, or those that Dask's workers have for the block, and why none is a GPU."""
    if dask is None:
        from gravbench.toolkits.devices import select

        yield *select(wanted), None
        return
    try:
        from gravbench.measuring.dask_sessions import connected
    except ModuleNotFoundError as error:
        raise InputError(f"--dask: {error}; install it with pip install 'gravbench[dask]'") from None

    with connected(dask, sweep, lambda said: terminal.print(said, markup=False, soft_wrap=True)) as cluster:
        yield cluster.devices, cluster.no_gpu, cluster


def _say_misfits(sweep: Sweep) -> None:
    for sentence in sweep.misfits:
        warn(sentence)


def _mistakes(records: list[Record], sweep: Sweep, folder: Path) -> list[str]:
    from gravbench.cli.mistakes import mistakes
    from gravbench.model.variant import discover

    return mistakes(records, discover(sweep.variant_folders), folder) if sweep.variant_folders else []


def _print_mistakes(told: list[str], terminal: Console) -> None:
    for sentence in told:
        terminal.print(sentence, style="red", markup=False, highlight=False, soft_wrap=True)


def _show_plan(todo: Plan, terminal: Console) -> None:
    """Print a line for each task, but of the cases skipped for the same reason only the first and their number."""
    from gravbench.measuring.progress import duration, skips

    skipped: Counter[str] = Counter()
    for task, seconds in zip(todo.tasks, todo.estimates, strict=True):
        if task.skip:
            skipped[task.skip] += 1
            if skipped[task.skip] > 1:
                continue
        what = f"{task.device.selector}, up to about {duration(seconds)}" if task.device else f"skipped: {task.skip}"
        again = ", anchor repeated" if task.anchor > 1 else ""
        terminal.print(f"{task.case.label} ({what}{again})", highlight=False, markup=False, soft_wrap=True)
    for sentence in skips(skipped):
        terminal.print(sentence, highlight=False, markup=False, soft_wrap=True)
    cases = sum(not task.skip for task in todo.tasks)
    terminal.print(f"{cases} measurements, up to about {duration(sum(todo.estimates))}; nothing was measured")


@app.command(rich_help_panel=MEASURE)
def check(
    config: options.ConfigArgument,
    parameter: options.Overrides = None,
    variant: options.Variants = None,
    toolkit: options.Toolkits = None,
    device: options.Devices = None,
    bodies: options.Bodies = None,
    subset: options.Subset = None,
) -> None:
    """Verify every case of a sweep against float64 without measuring; exit code 1 unless all are right."""
    import tempfile

    from gravbench.config.load import load
    from gravbench.measuring import runner
    from gravbench.measuring.plan import plan
    from gravbench.measuring.progress import ConsoleWatcher
    from gravbench.toolkits.devices import select

    sweep = load(config, parameter or [], variant or [], toolkit or [], bodies, subset)
    remember(sweep.variant_folders)
    devices, no_gpu = select(device or [])
    todo = plan(sweep, devices, no_gpu, chosen=bool(device), anchors=False)
    _say_misfits(sweep)
    terminal = console()
    with tempfile.TemporaryDirectory() as folder, ConsoleWatcher(terminal) as watcher:
        records = runner.run(sweep, todo, Path(folder), watcher, verify_only=True)
        told = _mistakes(records, sweep, Path(folder))
    _print_mistakes(told, terminal)
    count = Counter(record.status for record in records)
    right, wrong = count["ok"], count["invalid"] + count["failed"]
    terminal.print(f"{right} passed, {wrong} failed, {count['skipped']} skipped")
    if not right:
        terminal.print("nothing was verified")
    raise typer.Exit(1 if wrong or not right else 0)


@app.command(rich_help_panel=MEASURE)
def selftest(
    config: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG", help="A YAML file, or the name of a packaged configuration (default: quick)."),
    ] = None,
    parameter: options.Overrides = None,
    variant: options.Variants = None,
    toolkit: options.Toolkits = None,
    device: options.Devices = None,
    pairs: Annotated[
        int | None,
        typer.Option(help="Number of pairs of rounds; each round measures every case once.", min=1, show_default="2"),
    ] = None,
    threshold: options.ThresholdOption = "2%",
    out: Annotated[
        Path | None, typer.Option(help="Write the rounds to this folder (default: reports/selftest-DATE-TIME).")
    ] = None,
    from_folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Measure nothing; judge the rounds in this folder instead."),
    ] = None,
    across_devices: Annotated[
        bool,
        typer.Option(
            "--across-devices", help="Instead, measure every case once on each GPU of one kind and compare the cards."
        ),
    ] = False,
    everything: options.Everything = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare cases with themselves, to find out how often compare is wrong here and how small a change it detects."""
    import json

    from gravbench.config.load import load
    from gravbench.measuring.rounds import measure_round, measure_rounds, plan_on_each, plan_rounds
    from gravbench.model import run_names, runs
    from gravbench.report.terminal.across import across_json, render_across
    from gravbench.report.terminal.selftest import render_selftest, selftest_json
    from gravbench.toolkits.devices import select
    from gravbench.verdicts import compare
    from gravbench.verdicts.across import judge_cards
    from gravbench.verdicts.selftest import judge_rounds, read_rounds

    limit = compare.threshold(threshold)
    asked = {"CONFIG": config, "-p": parameter, "--variant": variant, "--toolkit": toolkit, "--device": device}
    if across_devices and pairs is not None:
        raise InputError("--across-devices measures every case once on each card; it cannot be combined with --pairs")
    if from_folder is None:
        sweep = load(config or "quick", parameter or [], variant or [], toolkit or [])
        devices, no_gpu = select(device or [])
        terminal = console(stderr=as_json)
        # What cannot be planned leaves no folder behind.
        if across_devices:
            planned, cards = plan_on_each(sweep, devices, no_gpu)
        else:
            rounds = plan_rounds(sweep, devices, no_gpu, 2 * (pairs or 2))
        _say_misfits(sweep)
        out = out or runs.new_folder("across-devices" if across_devices else "selftest")
        again = ["gravbench", "selftest", *["--across-devices"] * across_devices, "--from", str(out)]
        with hinting(f"to judge what was measured: {shlex.join(again)}"):
            if across_devices:
                measure_round(planned, cards, out, sys.argv[1:], terminal)
            else:
                measure_rounds(rounds, devices, out, sys.argv[1:], terminal)
    elif ignored := [name for name, value in (asked | {"--out": out}).items() if value]:
        raise InputError(f"--from {from_folder} measures nothing; it cannot be combined with {', '.join(ignored)}")
    folder = run_names.present("--from", from_folder) if from_folder else out or Path()
    if across_devices:
        judged = judge_cards(options.read_records(folder), limit)
        compared = any(one.differences for one in judged)
        if as_json:
            typer.echo(json.dumps(across_json(judged), indent=2))
        else:
            render_across(judged, console(), everything=everything)
    else:
        found = judge_rounds(read_rounds(folder), limit)
        compared = bool(found.pairs)
        if as_json:
            typer.echo(json.dumps(selftest_json(found), indent=2))
        else:
            render_selftest(found, console(), everything=everything)
    if not as_json:
        console().print(f"records in {folder}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if compared else 1)


@app.command(rich_help_panel=LOOK)
def doctor(as_json: options.AsJson = False) -> None:
    """Show devices, drivers, toolkits and compilers, and how to fix what does not work."""
    import json

    from gravbench.measuring import environment
    from gravbench.measuring.doctor import examine_all
    from gravbench.report.terminal.inventory import findings_json, show_findings

    terminal = console(stderr=as_json)
    with terminal.status("looking for devices") as status:
        devices, no_gpu, findings = examine_all(lambda title: status.update(f"trying {title}"))
    described = environment.describe(devices, sys.argv[1:])
    if as_json:
        typer.echo(json.dumps(findings_json(devices, no_gpu, findings, described), indent=2))
    else:
        show_findings(devices, no_gpu, findings, described, terminal)
