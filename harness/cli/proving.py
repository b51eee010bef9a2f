"""Evidence for an explanation: changes to a kernel measured beside it, and the model compared with records."""

from __future__ import annotations

import datetime
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gravbench.cli.options import console, find_run, read_records, writing
from gravbench.errors import InputError, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from gravbench.explain.knock_outs import KnockOuts
    from gravbench.explain.own_record import Errors
    from gravbench.model.variant import AxisValue, Dtype, Variant


LEGEND = "gain: the time of the original divided by that of the changed kernel, whose results are wrong on purpose."


def knock_out(
    variant: Variant,
    axes: dict[str, AxisValue],
    n: int,
    dtype: Dtype,
    device: str | None,
    ceilings: Path | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Measure the changes of a kernel on a GPU, keep them in a file of their own and print them.

    ``ceilings`` is the run folder with those of the device; without it, published figures predict.

    Raises:
        InputError: there is no such GPU, CuPy cannot be used, or the file cannot be written.
    """
    from gravbench.explain import ceilings as kept
    from gravbench.explain import knock_outs
    from gravbench.measuring import environment
    from gravbench.model import runs
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find
    from gravbench.model.lock import alone
    from gravbench.toolkits.devices import select, sensor

    chosen = select([device] if device else [])[0][0]
    if not chosen.uuid:
        raise InputError(
            "--knock-outs measures CUDA C kernels and needs a GPU, but none was selected; accepted: --device cuda:0"
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = chosen.uuid  # before any library asks the driver which devices there are
    terminal = console(stderr=as_json)
    folder = out or runs.new_folder("knock-outs")
    with alone(folder):
        measured = kept.read(ceilings or folder)
        with terminal.status("preparing") if terminal.is_terminal else nullcontext() as status:

            def say(what: str) -> None:
                if status:
                    status.update(what)
                else:
                    terminal.print(what, markup=False)

            interaction = find(GRAVITY)
            with sensor(chosen.uuid) as read:
                found = knock_outs.knock_out(
                    variant, axes, n, dtype, interaction, measured, knock_outs.opened(dtype, interaction), read, say
                )
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        noted = environment.describe([chosen], sys.argv[1:])
        found = found.model_copy(update={"device": chosen.name, "started": started, "environment": noted})
        path = knock_outs.write([found], folder)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        show(found, terminal)
    terminal.print(f"results written to {path}", markup=False, soft_wrap=True)


def show_kept(folder: Path, variant: str | None, *, as_json: bool) -> None:
    """Print the changes that a folder has of a variant, or of all.

    Raises:
        InputError: it has none, or its file cannot be read.
    """
    from gravbench.explain.knock_outs import FILE, read_all
    from gravbench.report.terminal.printing import say

    kept = read_all(folder)
    found = [one for one in kept if variant in (None, one.variant)]
    if not found:
        what = f"{folder / FILE}: no knock-outs" + (f" of {variant}" if variant and kept else "")
        known = f"; accepted: {listed(sorted({one.variant for one in kept}))}" if kept else ""
        raise InputError(what + known)
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json") for one in found], indent=1))
        return
    terminal = console()
    for one in found:
        show(one, terminal, legend=False)
        terminal.print()
    say(terminal, LEGEND)


def show(found: KnockOuts, terminal: Console, *, legend: bool = True) -> None:
    """Print a row for each change."""
    from statistics import median

    from rich.table import Table
    from rich.text import Text

    from gravbench.report.terminal.printing import heading, say, say_lines

    heading(terminal, f"Changes to {found.variant}, n = {found.n:,}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("change")
    for name in ("ms", "gain", "predicted", "registers"):
        table.add_column(name, justify="right", no_wrap=True)

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    for one in found.outcomes:
        seconds = None if one.measured_seconds is None else 1e3 * one.measured_seconds
        gains = number(one.measured_gain, ".3f"), number(one.predicted_gain, ".3f")
        table.add_row(*map(Text, (one.name, number(seconds, ".4g"), *gains, number(one.registers, "d"))))
    terminal.print(table)
    if legend:
        say(terminal, LEGEND)
    if found.differences:
        say(terminal, f"Predicted and measured gains differ by a median of {median(found.differences):.1%}.")
    measured = {one.name for one in found.outcomes if one.measured_seconds is not None}
    reasons = {one.name: one.reason for one in found.outcomes if one.reason} | found.left
    for title, names in (("Not predicted", measured & {*reasons}), ("Not measured", {*reasons} - measured)):
        own = {name: why.removeprefix("not predicted: ") for name, why in reasons.items() if name in names}
        say_lines(terminal, title, [f"{name}: {why}" for name, why in own.items()])


def show_errors(
    runs: list[str], variant: str | None, ceilings: Path | None, figures: Path | None, *, as_json: bool
) -> None:
    """Print how far the model is off for the records of runs, by variant; exit code 1 where it is for none of them.

    ``ceilings`` is the run folder with those of the device; without it, published figures predict. Into the folder
    ``figures`` a picture and its numbers are written.

    Raises:
        InputError: there is no such run, what the model needs is not installed, or a file cannot be written.
    """
    from gravbench.explain import ceilings as kept
    from gravbench.explain import own_record
    from gravbench.explain.assembling import missing
    from gravbench.toolkits import nvrtc

    if lacking := missing():
        raise InputError(lacking)
    records = [record for run in runs for record in read_records(find_run(run))]
    chosen = [record for record in records if variant in (None, record.variant)]
    measured = kept.read(ceilings) if ceilings else kept.Ceilings()
    found, without = own_record.errors_of(chosen, measured)
    if as_json:
        rows = {one.variant: {"records": len(one.errors), "median": one.median, "bias": one.bias} for one in found}
        middle = own_record.typical(found)
        typer.echo(json.dumps({"median": middle, "variants": rows, "without": without}, indent=2))
    else:
        print_errors(found, without, console())
    if not found:
        raise typer.Exit(1)
    if figures:
        with writing(figures):
            own_record.write(found, nvrtc.version(), figures)


def print_errors(found: Sequence[Errors], without: Mapping[str, str], terminal: Console) -> None:
    """Print a row for each variant, and why some records have no model."""
    from rich.table import Table
    from rich.text import Text

    from gravbench.explain.own_record import typical
    from gravbench.report.terminal.printing import heading, say, say_lines

    heading(terminal, "Predicted and measured times")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variant", no_wrap=True)
    for name in ("records", "median error", "bias", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        numbers = str(len(one.errors)), f"{one.median:.1%}", f"{one.bias:+.1%}", f"{one.largest:+.1%}"
        table.add_row(*map(Text, (one.variant, *numbers)))
    terminal.print(table)
    middle = typical(found)
    if middle is not None:
        say(
            terminal,
            f"The median error over all records is {middle:.1%}. With a bias above zero, the predicted times are too "
            "long.",
        )
    say_lines(terminal, "Not modelled", [f"{name}: {why}" for name, why in without.items()])


def keep_limits(run: str, ceilings: Path | None) -> None:
    """Write into the folder of a run what limits each of its records; exit code 1 where it has none that is explained.

    ``ceilings`` is the run folder with those of the device; without it they are the run's own.

    Raises:
        InputError: there is no such run, what the model needs is not installed, or the file cannot be written.
    """
    from gravbench.explain import ceilings as kept
    from gravbench.explain.assembling import missing
    from gravbench.explain.limiting import limits_of
    from gravbench.model import run_names
    from gravbench.model.limiting import Limits
    from gravbench.model.lock import alone
    from gravbench.report.terminal.printing import say_lines
    from gravbench.toolkits import nvrtc

    folder, terminal = find_run(run), console()
    if run_names.is_of_the_clone(folder):
        raise InputError(
            f"--limits {run}: {folder} is a run of the clone of gravbench, which is only read from elsewhere; "
            "accepted: a run of your own, or the same command in the clone"
        )
    if lacking := missing():
        raise InputError(lacking)
    with alone(folder), terminal.status("explaining") if terminal.is_terminal else nullcontext():
        found, without = limits_of(read_records(folder), kept.read(ceilings or folder))
        path = Limits(compiler=nvrtc.version(), limits=found).write(folder) if found else None
    if path is None:
        terminal.print(f"{folder}: no record is of a direct sum with the CUDA C in this checkout", markup=False)
    else:
        terminal.print(f"{len(found)} records explained; written to {path}", markup=False, soft_wrap=True)
    say_lines(terminal, "Not modelled", [f"{name}: {why}" for name, why in without.items()])
    if path is None:
        raise typer.Exit(1)
