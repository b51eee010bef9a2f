"""The command that measures changed kernels beside a kernel: ablate."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli.explaining import Axes, Number, NumberType, asked_for, bodies_of
from gravbench.cli.folders import known_variants
from gravbench.cli.options import MEASURE, AsJson, app, busy, console, warn
from gravbench.errors import InputError, listed

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.explain.ablations import Ablations
    from gravbench.explain.explained import Asked

OF_MEASURING = ("parameter", "n", "dtype", "device", "peaks", "out")
"""Options that say what is measured."""
LEGEND = "gain: the time of the original divided by that of the changed kernel, whose results are wrong on purpose."


@app.command(rich_help_panel=MEASURE)
def ablate(
    context: typer.Context,
    variant: Annotated[str | None, typer.Argument(metavar="VARIANT", help="A variant with a CUDA C kernel.")] = None,
    parameter: Axes = None,
    n: Number = "65536",
    dtype: NumberType = "float32",
    device: Annotated[str | None, typer.Option(help="cuda:0, ... (default: the first GPU).")] = None,
    peaks: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Predict with the peak rates measured in this folder.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write to this folder (default: reports/ablations-DATE-TIME)."),
    ] = None,
    from_folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Measure nothing; print the ablations in this folder instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change one thing in a kernel at a time, and measure what it was worth beside what the model predicts."""
    from gravbench.model.run_names import present

    if from_folder:
        if ignored := [f"--{name}" for name in OF_MEASURING if _is_given(context, name)]:
            raise InputError(f"--from {from_folder} measures nothing; it cannot be combined with {', '.join(ignored)}")
        show_kept(present("--from", from_folder), variant, as_json=as_json)
        return
    if variant is None:
        raise InputError("ablate needs a VARIANT, or --from FOLDER; see gravbench ablate --help")
    measured_in = peaks and present("--peaks", peaks)
    kernel = asked_for(known_variants(warn), variant, parameter or [], bodies_of(n), dtype)
    measure(kernel, device, measured_in, out, as_json=as_json)


def _is_given(context: typer.Context, option: str) -> bool:
    """Tell whether an option is on the command line, and not at its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def measure(kernel: Asked, device: str | None, peaks: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Measure the changes of a kernel on a GPU, keep them in a file of their own and print them.

    ``peaks`` is the folder with the measured rates of the device; without it, published figures predict.

    Raises:
        InputError: there is no such GPU, CuPy cannot be used, or the file cannot be written.
    """
    from gravbench.explain import ablations
    from gravbench.explain import peaks as kept
    from gravbench.measuring import environment
    from gravbench.model import runs
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find
    from gravbench.model.lock import alone
    from gravbench.toolkits.devices import expose, select, sensor

    chosen = select([device] if device else [])[0][0]
    if not chosen.uuid:
        raise InputError(
            "ablate measures CUDA C kernels and needs a GPU, but none was selected; accepted: --device cuda:0"
        )
    expose([chosen])  # before any library asks the driver which devices there are
    terminal = console(stderr=as_json)
    folder = out or runs.new_folder("ablations")
    variant, axes = kernel.variant, dict(kernel.axes)
    with alone(folder):
        measured = kept.read(peaks or folder)
        with busy(terminal, "preparing") as say:
            interaction = find(GRAVITY)
            opened = ablations.opened(kernel.dtype, interaction)
            with sensor(chosen) as read:
                assert read
                results = ablations.ablate(
                    variant, axes, kernel.n, kernel.dtype, interaction, measured, opened, read, say
                )
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        noted = environment.describe([chosen], sys.argv[1:])
        results = results.model_copy(update={"device": chosen.name, "started": started, "environment": noted})
        path = ablations.write([results], folder)
    if as_json:
        typer.echo(results.model_dump_json(indent=1))
    else:
        show(results, terminal)
    terminal.print(f"results written to {path}", markup=False, soft_wrap=True)


def show_kept(folder: Path, variant: str | None, *, as_json: bool) -> None:
    """Print the changes that a folder has of a variant, or of all.

    Raises:
        InputError: it has none, or its file cannot be read.
    """
    from gravbench.explain.ablations import FILE, read_all
    from gravbench.report.terminal.printing import say

    kept = read_all(folder)
    ablations = [ablation for ablation in kept if variant in (None, ablation.variant)]
    if not ablations:
        what = f"{folder / FILE}: no ablations" + (f" of {variant}" if variant and kept else "")
        known = f"; accepted: {listed(sorted({ablation.variant for ablation in kept}))}" if kept else ""
        raise InputError(what + known)
    if as_json:
        typer.echo(json.dumps([ablation.model_dump(mode="json") for ablation in ablations], indent=1))
        return
    terminal = console()
    for ablation in ablations:
        show(ablation, terminal, legend=False)
        terminal.print()
    say(terminal, LEGEND)


def show(ablation: Ablations, terminal: Console, *, legend: bool = True) -> None:
    """Print a row for each change."""
    from statistics import median

    from rich.table import Table
    from rich.text import Text

    from gravbench.report.terminal.printing import heading, say, say_lines

    heading(terminal, f"Changes to {ablation.variant}, n = {ablation.n:,}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("change")
    for name in ("ms", "gain", "predicted", "registers"):
        table.add_column(name, justify="right", no_wrap=True)

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    for outcome in ablation.outcomes:
        seconds = None if outcome.measured_seconds is None else 1e3 * outcome.measured_seconds
        gains = number(outcome.measured_gain, ".3f"), number(outcome.predicted_gain, ".3f")
        table.add_row(*map(Text, (outcome.name, number(seconds, ".4g"), *gains, number(outcome.registers, "d"))))
    terminal.print(table)
    if legend:
        say(terminal, LEGEND)
    if ablation.differences:
        say(terminal, f"Predicted and measured gains differ by a median of {median(ablation.differences):.1%}.")
    measured = {outcome.name for outcome in ablation.outcomes if outcome.measured_seconds is not None}
    reasons = {outcome.name: outcome.reason for outcome in ablation.outcomes if outcome.reason} | ablation.left
    for title, names in (("Not predicted", measured & {*reasons}), ("Not measured", {*reasons} - measured)):
        those = {name: why.removeprefix("not predicted: ") for name, why in reasons.items() if name in names}
        say_lines(terminal, title, [f"{name}: {why}" for name, why in those.items()])
