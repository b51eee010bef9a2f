"""The command that measures the peak rates of a device: peaks."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import options
from gravbench.cli.options import MEASURE, app, busy, console
from gravbench.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.explain.peaks import Peaks


@app.command(rich_help_panel=MEASURE)
def peaks(
    device: Annotated[str | None, typer.Option(help="cuda:0 or cpu (default: the first GPU).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write ceilings.json to this folder (default: reports/peaks-DATE-TIME).")
    ] = None,
    from_folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Measure nothing; print the peak rates in this folder instead."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Measure only this rate; repeat for more. Others already in the file are kept."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure the peak rate of a device for each kind of work; exit code 1 if nothing could be measured."""
    if from_folder is not None:
        if ignored := [name for name, value in (("--device", device), ("--out", out), ("--only", only)) if value]:
            raise InputError(f"--from {from_folder} measures nothing; it cannot be combined with {', '.join(ignored)}")
        _print(_kept(from_folder), console(), as_json=as_json)
        return
    from gravbench.explain import peaks as kept
    from gravbench.explain.measured import check, measure
    from gravbench.model import runs
    from gravbench.model.lock import alone
    from gravbench.toolkits.devices import expose, select

    chosen = select([device] if device else [])[0][0]
    check(chosen, only or ())
    expose([chosen])  # before any library asks the driver which devices there are
    terminal = console(stderr=as_json)
    folder = out or runs.new_folder("peaks")
    with alone(folder):
        before = kept.read(folder)
        if only and before.ceilings and (before.device, before.device_uuid) != (chosen.name, chosen.uuid):
            raise InputError(
                f"--out {folder}: its peak rates were measured on {before.device}, but this device is {chosen.name}"
            )
        with busy(terminal, "opening the device") as say:
            names = frozenset(only) if only else None
            rates = measure(chosen, sys.argv[1:], lambda name: say(f"measuring {name}"), names)
        if only:
            rates = rates.joined(before)
        rates = rates.model_copy(update={"started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")})
        path = rates.write(folder)
    _print(rates, terminal, as_json=as_json)
    terminal.print(f"peak rates written to {path}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if rates.ceilings else 1)


def _kept(folder: Path) -> Peaks:
    """Read what was measured before; without any, raise ``InputError``."""
    from gravbench.explain import peaks as kept
    from gravbench.model.run_names import present
    from gravbench.model.runs import CEILINGS

    rates = kept.read(present("--from", folder))
    if rates.device is None:
        raise InputError(f"--from {folder}: no {CEILINGS} in it; `gravbench peaks --out FOLDER` writes one")
    return rates


def _print(rates: Peaks, terminal: Console, *, as_json: bool) -> None:
    if as_json:
        typer.echo(rates.model_dump_json(indent=1))
    else:
        show(rates, terminal)


def show(rates: Peaks, terminal: Console) -> None:
    """Print a row for each peak rate."""
    from rich.table import Table
    from rich.text import Text

    from gravbench.model.runs import CEILINGS
    from gravbench.report.terminal.printing import heading, say_lines

    heading(terminal, f"Peak rates of {rates.device}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("rate", no_wrap=True)
    for name in ("value", "from", "to"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("MHz", justify="right", no_wrap=True)
    table.add_column("what it measures, and its unit")
    for ceiling in rates.ceilings:
        megahertz = "" if ceiling.clock_mhz is None else f"{ceiling.clock_mhz:,.0f}"
        numbers = [f"{value:.4g}" for value in (ceiling.median, ceiling.low, ceiling.high)]
        table.add_row(*map(Text, (ceiling.name, *numbers, megahertz, f"{ceiling.what}: {ceiling.unit}")))
    terminal.print(table)
    say_lines(
        terminal, f"Not measured (also noted in {CEILINGS})", [f"{name}: {why}" for name, why in rates.failed.items()]
    )
