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
from gravbench.cli.options import LOOK, MEASURE, app, console, tell, warn
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


Shard = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="K/N", help="Measure only part K of N of the cases; gravbench merge joins the results."
    ),
]
OutOfRun = Annotated[
    Path | None, typer.Option("--out", help="Write records to this folder (default: reports/CONFIG-DATE-TIME).")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Measure only what is missing from the run in --out, or from the newest run of this sweep."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the cases and the estimated time without measuring.")]
Search = Annotated[
    StrategyName | None,
    typer.Option("--search", help="How to choose the cases to measure; -p search.budget_trials=100 limits them."),
]
Counters = Annotated[
    bool,
    typer.Option(
        "--counters", help="Afterwards, run each GPU case once under Nsight Compute (ncu) and record its counters."
    ),
]
DaskScheduler = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="SCHEDULER|FILE|local",
        help="Measure on Dask workers: tcp://HOST:PORT, a scheduler file, or local to start them here.",
    ),
]


@app.command(rich_help_panel=MEASURE)
def run(
    config: options.ConfigArgument,
    parameter: options.Overrides = None,
    variant: options.Variants = None,
    toolkit: options.Toolkits = None,
    device: options.Devices = None,
    bodies: options.Bodies = None,
    subset: options.Subset = None,
    shard: Shard = None,
    out: OutOfRun = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    search: Search = None,
    counters: Counters = False,
    dask: DaskScheduler = None,
) -> None:
    """Verify, measure and record every case of a sweep; exit code 1 if all cases were skipped."""
    from gravbench.config.load import load
    from gravbench.measuring.plan import plan
    from gravbench.model import runs

    if dask is not None and (device or counters):
        raise InputError(f"--dask cannot be combined with {'--device' if device else '--counters'}")
    overrides = [*(parameter or []), *([f"search.strategy={search}"] if search else [])]
    sweep = _part_of(load(config, overrides, variant or [], toolkit or [], bodies, subset), shard)
    remember(sweep.variant_folders)
    terminal = console()
    # What cannot be planned leaves no folder behind.
    out, existing = _begun(sweep, out, resume=resume)
    with _devices(device or [], dask, sweep, terminal) as (devices, no_gpu, cluster):
        todo = plan(sweep, devices, no_gpu, existing, chosen=bool(device))
        _say_misfits(sweep)
        if dry_run:
            _show_plan(todo, terminal, sweep.search.budget_trials)
            return
        folder = out or runs.new_folder(sweep.folder_name)
        given: dict[str, str | list[str] | None] = {
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
        again = resuming.command(config, given, folder, counters=counters)
        hint = f"the records so far are in {folder}. To continue: {again}"
        with hinting(hint):
            records = _measured(sweep, todo, folder, existing, devices, cluster, hint, terminal)
    if counters:
        with hinting(hint):
            _add_counters(sweep, folder, terminal)
    _print_mistakes(_mistakes(records, sweep, folder), terminal)
    _say_outcome(records, folder, terminal)
    if not todo.reused:
        _check_measured(records, terminal)


def _part_of(sweep: Sweep, shard: str | None) -> Sweep:
    """Return the part of a sweep that ``--shard`` names, or all of it."""
    from gravbench.measuring import shards
    from gravbench.model.shard import parse

    return sweep if shard is None else shards.take(sweep, parse(shard))


def _begun(sweep: Sweep, out: Path | None, *, resume: bool) -> tuple[Path | None, list[Record]]:
    """Return the folder that was asked for, or that of the run to resume, and the records in it.

    Raises:
        InputError: there is no run to resume in ``out``, or it is of another sweep.
    """
    from gravbench.measuring import runner, shards
    from gravbench.model import lock, runs

    if out is None and resume:
        out = runs.newest(sweep.folder_name)
    if out is None:
        return None, []
    if os.path.lexists(out) and not out.is_dir():
        raise InputError(f"--out {out}: cannot be written: it is no folder; accepted: a new folder")
    if resume:
        begun = (runs.RECORDS, runs.ENVIRONMENT, lock.LOCK, runner.WORKER_LOG)
        if not any(os.path.lexists(out / name) for name in begun):
            what = "no run" if os.path.lexists(out) else "no such folder"
            raise InputError(f"--out {out}: {what}; accepted with --resume: the folder of a run that was begun")
        shards.check_resumed(out, sweep)
    return out, runner.recorded(out, resume=resume, say=warn)


def _measured(
    sweep: Sweep,
    todo: Plan,
    folder: Path,
    existing: list[Record],
    devices: list[Device],
    cluster: Cluster | None,
    hint: str,
    terminal: Console,
) -> list[Record]:
    """Measure what is planned; ``hint`` says how to continue if no device is left.

    Raises:
        InputError: no device is left.
    """
    from gravbench.measuring import runner
    from gravbench.measuring.progress import ConsoleWatcher
    from gravbench.search.strategies import of_plan

    with runner.open_run(folder, existing, devices, sys.argv[1:], sweep, todo.planned, todo.left_out) as (store, word):
        if word:
            terminal.print(word, markup=False)
        if todo.reused:
            terminal.print(f"{todo.reused} cases are already in {folder} and are kept", markup=False)
        with ConsoleWatcher(terminal) as watcher:
            try:
                site = partial(cluster.events, todo.processes + 1) if cluster else None
                return runner.run(sweep, todo, store, watcher, site, of_plan(sweep, todo))
            except runner.StrandedError as error:
                # Not in the sentence, which would lose the middle of a long command.
                tell(terminal, hint)
                raise InputError(error) from error


def _add_counters(sweep: Sweep, folder: Path, terminal: Console) -> None:
    from gravbench.explain.counters import add_missing

    added, wanted = add_missing(sweep, folder, lambda sentence: terminal.print(sentence, markup=False))
    said = f"{added} of {wanted} records have counters" if wanted else "no result of a single GPU lacks counters"
    terminal.print(said, markup=False)


def _say_outcome(records: list[Record], folder: Path, terminal: Console) -> None:
    """Count the records by their status, and name the command that shows them."""
    count = Counter(record.status for record in records)
    counted = ", ".join(f"{count[status]} {status}" for status in ("ok", "invalid", "failed", "skipped"))
    show = shlex.join(["gravbench", "report", str(folder)])
    terminal.print(f"{counted}; records in {folder}. To show them: {show}", markup=False, soft_wrap=True)


def _check_measured(records: list[Record], terminal: Console) -> None:
    """End with exit code 1 if every case was skipped."""
    if records and all(record.status == "skipped" for record in records):
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

        yield *select(wanted, sweep.toolkits), None
        return
    try:
        from gravbench.measuring.dask_sessions import connected
    except ModuleNotFoundError as error:
        raise InputError(f"--dask: {error}; install it with pip install 'gravbench[dask]'") from None

    with connected(dask, sweep, lambda sentence: terminal.print(sentence, markup=False, soft_wrap=True)) as cluster:
        yield cluster.devices, cluster.no_gpu, cluster


def _say_misfits(sweep: Sweep) -> None:
    for sentence in sweep.misfits:
        warn(sentence)


def _mistakes(records: list[Record], sweep: Sweep, folder: Path) -> list[str]:
    from gravbench.cli.mistakes import mistakes
    from gravbench.model.variant import discover

    return mistakes(records, discover(sweep.variant_folders), folder) if sweep.variant_folders else []


def _print_mistakes(sentences: list[str], terminal: Console) -> None:
    for sentence in sentences:
        terminal.print(sentence, style="red", markup=False, highlight=False, soft_wrap=True)


def _show_plan(todo: Plan, terminal: Console, most: int | None) -> None:
    """Print a line for each task, but of the cases skipped for the same reason only the first and their number.

    A search measures ``most`` cases on each kind of device.
    """
    from gravbench.measuring.progress import duration, skips
    from gravbench.report.names import count

    skipped: Counter[str] = Counter()
    for task, seconds in zip(todo.tasks, todo.estimates, strict=True):
        if task.skip:
            skipped[task.skip] += 1
            if skipped[task.skip] > 1:
                continue
        what = f"{task.device.selector}, up to about {duration(seconds)}" if task.device else f"skipped: {task.skip}"
        again = ", anchor repeated" if task.anchor > 1 else ""
        tell(terminal, f"{task.case.label} ({what}{again})")
    for sentence in skips(skipped):
        tell(terminal, sentence)
    cases = sum(not task.skip for task in todo.tasks)
    terminal.print(f"{count(cases, 'measurement')}, up to about {duration(sum(todo.estimates))}; nothing was measured")
    if most is not None:
        terminal.print(f"The search measures at most {most:,} cases on each kind of device (search.budget_trials)")


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
    devices, no_gpu = select(device or [], sweep.toolkits)
    todo = plan(sweep, devices, no_gpu, chosen=bool(device), anchors=False)
    _say_misfits(sweep)
    terminal = console()
    with tempfile.TemporaryDirectory() as folder, ConsoleWatcher(terminal) as watcher:
        records = runner.run(sweep, todo, Path(folder), watcher, verify_only=True)
        sentences = _mistakes(records, sweep, Path(folder))
    _print_mistakes(sentences, terminal)
    count = Counter(record.status for record in records)
    right, wrong = count["ok"], count["invalid"] + count["failed"]
    terminal.print(f"{right} passed, {wrong} failed, {count['skipped']} skipped")
    if not right:
        terminal.print("nothing was verified")
    raise typer.Exit(1 if wrong or not right else 0)


UsualConfig = Annotated[
    str | None,
    typer.Argument(metavar="CONFIG", help="A YAML file, or the name of a packaged configuration (default: quick)."),
]
Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        help="Number of pairs of rounds; each round measures every case once.",
        min=1,
        show_default="2",
    ),
]
OutOfRounds = Annotated[
    Path | None,
    typer.Option("--out", help="Write the rounds to this folder (default: reports/selftest-DATE-TIME)."),
]
FromRounds = Annotated[
    Path | None,
    typer.Option("--from", metavar="FOLDER", help="Measure nothing; judge the rounds in this folder instead."),
]
AcrossDevices = Annotated[
    bool,
    typer.Option(
        "--across-devices", help="Instead, measure every case once on each GPU of one kind and compare the cards."
    ),
]


@app.command(rich_help_panel=MEASURE)
def selftest(
    config: UsualConfig = None,
    parameter: options.Overrides = None,
    variant: options.Variants = None,
    toolkit: options.Toolkits = None,
    device: options.Devices = None,
    pairs: Pairs = None,
    threshold: options.ThresholdOption = "2%",
    out: OutOfRounds = None,
    from_folder: FromRounds = None,
    across_devices: AcrossDevices = False,
    everything: options.Everything = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare cases with themselves, to find out how often compare is wrong here and how small a change it detects."""
    from gravbench.config.load import load
    from gravbench.model import run_names
    from gravbench.verdicts import compare

    limit = compare.threshold(threshold)
    given = {"CONFIG": config, "-p": parameter, "--variant": variant, "--toolkit": toolkit, "--device": device}
    if across_devices and pairs is not None:
        raise InputError("--across-devices measures every case once on each card; it cannot be combined with --pairs")
    if from_folder is None:
        sweep = load(config or "quick", parameter or [], variant or [], toolkit or [])
        measure = _measure_each_card if across_devices else partial(_measure_rounds, 2 * (pairs or 2))
        folder = measure(sweep, device or [], out, console(stderr=as_json))
    elif ignored := [name for name, value in (given | {"--out": out}).items() if value]:
        raise InputError(f"--from {from_folder} measures nothing; it cannot be combined with {', '.join(ignored)}")
    else:
        folder = run_names.present("--from", from_folder)
    show = _show_cards if across_devices else _show_rounds
    was_compared = show(folder, limit, everything=everything, as_json=as_json)
    if not as_json:
        console().print(f"records in {folder}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if was_compared else 1)


def _measure_rounds(count: int, sweep: Sweep, wanted: list[str], out: Path | None, terminal: Console) -> Path:
    """Measure every case of a sweep in each of ``count`` rounds; return their folder."""
    from gravbench.measuring.rounds import measure_rounds, plan_rounds
    from gravbench.model import runs
    from gravbench.toolkits.devices import select

    devices, no_gpu = select(wanted, sweep.toolkits)
    # What cannot be planned leaves no folder behind.
    rounds = plan_rounds(sweep, devices, no_gpu, count)
    _say_misfits(sweep)
    folder = out or runs.new_folder("selftest")
    with hinting(_to_judge(folder)):
        measure_rounds(rounds, devices, folder, sys.argv[1:], terminal)
    return folder


def _measure_each_card(sweep: Sweep, wanted: list[str], out: Path | None, terminal: Console) -> Path:
    """Measure every case of a sweep once on each GPU of one kind; return the folder."""
    from gravbench.measuring.rounds import measure_round, plan_on_each
    from gravbench.model import runs
    from gravbench.toolkits.devices import select

    planned, cards = plan_on_each(sweep, *select(wanted, sweep.toolkits))
    _say_misfits(sweep)
    folder = out or runs.new_folder("across-devices")
    with hinting(_to_judge(folder, "--across-devices")):
        measure_round(planned, cards, folder, sys.argv[1:], terminal)
    return folder


def _to_judge(folder: Path, *given: str) -> str:
    return f"to judge what was measured: {shlex.join(['gravbench', 'selftest', *given, '--from', str(folder)])}"


def _show_rounds(folder: Path, limit: float, *, everything: bool, as_json: bool) -> bool:
    """Judge the rounds of a folder and print that; tell whether any were compared."""
    from gravbench.report.terminal.selftest import render_selftest, selftest_json
    from gravbench.verdicts.selftest import judge_rounds, read_rounds

    judged = judge_rounds(read_rounds(folder), limit)
    if as_json:
        _print_json(selftest_json(judged))
    else:
        render_selftest(judged, console(), everything=everything)
    return bool(judged.pairs)


def _show_cards(folder: Path, limit: float, *, everything: bool, as_json: bool) -> bool:
    """Judge the cards of a run and print that; tell whether any were compared."""
    from gravbench.report.terminal.across import across_json, render_across
    from gravbench.verdicts.across import judge_cards

    judged = judge_cards(options.read_records(folder), limit)
    if as_json:
        _print_json(across_json(judged))
    else:
        render_across(judged, console(), everything=everything)
    return any(cards.differences for cards in judged)


def _print_json(content: object) -> None:
    import json

    typer.echo(json.dumps(content, indent=2))


@app.command(rich_help_panel=LOOK)
def doctor(as_json: options.AsJson = False) -> None:
    """Show devices, drivers, toolkits and compilers, and how to fix what does not work."""
    from gravbench.measuring import environment
    from gravbench.measuring.doctor import examine_all
    from gravbench.report.terminal.inventory import findings_json, show_findings

    terminal = console(stderr=as_json)
    with terminal.status("looking for devices") as status:
        devices, no_gpu, findings = examine_all(lambda title: status.update(f"trying {title}"))
    described = environment.describe(devices, sys.argv[1:])
    if as_json:
        _print_json(findings_json(devices, no_gpu, findings, described))
    else:
        show_findings(devices, no_gpu, findings, described, terminal)
