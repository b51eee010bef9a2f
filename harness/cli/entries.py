"""The command that judges an entry: a file of device code that declares how it is launched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.cli.folders import known_variants, unknown
from gravbench.cli.options import MEASURE, AsJson, app, console, find_run, read_records, warn, working, writing
from gravbench.cli.selecting import sizes_of
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.judging.entry import Entry
    from gravbench.judging.judged import Costed, Judged
    from gravbench.judging.judgement import Judgement
    from gravbench.judging.standing import Standing
    from gravbench.judging.timing import Timed
    from gravbench.model.device import Device
    from gravbench.model.variant import Variant


@app.command("judge", rich_help_panel=MEASURE)
def judge_entry(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An entry: CUDA C or WGSL whose head says how it is launched.")
    ],
    emulate: Annotated[
        bool, typer.Option("--emulate", help="Run it on the processor, thread by thread; needs g++ and no GPU.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="Run it on this device: cuda:0, wgpu:0, ...", autocompletion=completion.devices),
    ] = None,
    n: Annotated[
        str | None,
        typer.Option("--n", metavar="N,N", help="Numbers of bodies to time or, with --emulate, to emulate."),
    ] = None,
    rung: Annotated[
        str | None,
        typer.Option(metavar="VARIANT", help="Set it against this variant.", autocompletion=completion.variants),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The ladder to place it on (default: the clone's of the device)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the bodies, to repeat a judgement (default: drawn).")
    ] = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page to this file, too.")] = None,
) -> None:
    """Judge an entry: say whether it is right, which bodies are wrong and why, how fast it is, and what it costs.

    Exit code 1 if it is wrong. `gravbench source VARIANT --entry` writes a variant as an entry.
    """
    from gravbench.judging.entry import read
    from gravbench.judging.judged import as_json as whole
    from gravbench.judging.judged import page, sections
    from gravbench.report.terminal.sections import render_sections

    entry = read(file)
    if entry.is_python:
        raise InputError(f"{file}: Python is neither judged nor ranked; accepted: gravbench learn check {file}")
    against = _rung(rung or entry.head.rung, "--rung" if rung else f"{file}: rung")
    sizes = sorted(set(sizes_of(n))) if n is not None else None
    if emulate and (ignored := [name for name, value in (("--device", device), ("--beside", beside)) if value]):
        raise InputError(f"{ignored[0]} has no meaning with --emulate; accepted: one of them")
    judged = _emulated(entry, against, sizes, seed) if emulate else _run(entry, against, sizes, seed, device, beside)
    if html is not None:
        with writing(html):
            html.write_text(page(judged), "utf-8")
    if as_json:
        typer.echo(json.dumps(whole(judged), indent=2))
    else:
        render_sections(sections(judged), console())
    raise typer.Exit(0 if judged.right else 1)


def _emulated(entry: Entry, rung: Variant | None, sizes: list[int] | None, seed: int | None) -> Judged:
    """Judge without a GPU, at the ``sizes`` or the usual ones."""
    from gravbench.judging import judgement
    from gravbench.judging.emulating import EmulatedLauncher
    from gravbench.judging.judged import Judged
    from gravbench.sandbox.confined import protections

    if entry.is_wgsl:
        raise InputError(f"{entry.path}: WGSL is not emulated; accepted: --device wgpu:0")
    if sizes is not None:
        judgement.check_sizes(sizes)
    for sentence in protections().missing:
        warn(sentence)
    with working(f"emulating {entry.path.name}"):
        judged = judgement.judge(entry, EmulatedLauncher(), sizes or judgement.usual_sizes(entry), rung, seed)
        return Judged(judged, EmulatedLauncher.description, _costs(entry, rung))


def _run(
    entry: Entry,
    rung: Variant | None,
    sizes: list[int] | None,
    seed: int | None,
    device: str | None,
    beside: str | None,
) -> Judged:
    """Judge on a device at the usual sizes, and time what is right at the ``sizes`` or those of ``timing.USUAL``."""
    from gravbench.judging import judgement, timing
    from gravbench.judging.judged import Judged
    from gravbench.judging.on_device import OnDevice
    from gravbench.toolkits.devices import reader, select, sensor

    chosen, reason = select([device] if device else [], [entry.toolkit])
    if not (gpus := [each for each in chosen if each.is_gpu]):
        raise InputError(f"{entry.path}: {reason}; accepted: gravbench judge {entry.path} --emulate")
    timings: list[timing.Timed] = []
    with working(f"judging {entry.path.name}"), sensor(gpus[0]) as read, OnDevice(gpus[0]) as launcher:
        judged = judgement.judge(entry, launcher, judgement.usual_sizes(entry), rung, seed)
        if judged.right:
            timings = timing.all_timed(launcher, judged, sizes or timing.USUAL, reader([read] if read else []))
        standings, name = _standings(beside, gpus[0], judged, timings)
    return Judged(judged, launcher.description, _costs(entry, rung), tuple(timings), standings, name)


def _costs(entry: Entry, rung: Variant | None) -> tuple[Costed, ...]:
    from gravbench.judging.judged import costed, costed_rung

    return (costed(entry.path.name, entry), *([costed_rung(rung)] if rung else []))


def _standings(
    beside: str | None, device: Device, judged: Judgement, timings: Sequence[Timed]
) -> tuple[dict[int, Standing], str]:
    """Place what was timed on the run that is named, or on the clone's ladders of the device; return their names."""
    from gravbench.judging.standing import Ladder
    from gravbench.model.runs import RECORDS
    from gravbench.model.variant import parents
    from gravbench.packaged import runs_of_the_clone

    folders = [find_run(beside)] if beside else []
    if timings and not beside and (clone := runs_of_the_clone()):
        folders = sorted(path.parent for path in clone.glob(f"*/ladder/{RECORDS}"))
    read = {folder: [record for record in read_records(folder) if record.device == device.name] for folder in folders}
    records = [record for of_folder in read.values() for record in of_folder]
    ladder = Ladder(records, parents(known_variants(warn)), device.name, judged.entry, judged.tolerance)
    places = {timed.n: ladder.standing(timed.n, timed.seconds) for timed in timings if timed.seconds}
    standings = {n: place for n, place in places.items() if place}
    name = beside or ", ".join(f"{folder.parent.name}/{folder.name}" for folder in folders if read[folder])
    return standings, name if standings else ""


def _rung(name: str | None, where: str) -> Variant | None:
    variants = known_variants(warn)
    if name is not None and name not in variants:
        raise InputError(f"{where} {name} is not a variant; {unknown(name, list(variants))}")
    return variants[name] if name else None
