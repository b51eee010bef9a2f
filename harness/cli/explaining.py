"""The commands that explain the speed of a kernel without a GPU: explain ledger, compare, bottleneck and validate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli.axes import axes_of
from gravbench.cli.folders import known_variants, unknown
from gravbench.cli.options import (
    LOOK,
    NOT_JUDGED,
    AsJson,
    app,
    console,
    find_run,
    read_records,
    tell_written,
    warn,
    writing,
)
from gravbench.errors import InputError, listed

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.explain.explained import Asked
    from gravbench.explain.validation import Errors
    from gravbench.model.variant import Variant

MOST_BODIES = 1 << 24
TOOLKIT = "cupy"
"""By whose rules a value of an axis is accepted."""

explain = typer.Typer(no_args_is_help=True)
app.add_typer(
    explain, name="explain", rich_help_panel=LOOK, help="Explain why a kernel is as fast as it is. Needs no GPU."
)

VariantArgument = Annotated[str, typer.Argument(metavar="VARIANT", help="A variant with a CUDA C kernel.")]
Axes = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="AXIS=VALUE", help="Set an axis of VARIANT, e.g. p=128."),
]
Number = Annotated[str, typer.Option("--n", help="Number of bodies; the launch of some variants depends on it.")]
NumberType = Annotated[str, typer.Option("--dtype", help="float32 or float64.")]
Architectures = Annotated[
    str, typer.Option("--arch", metavar="A,B", help="Architectures from sm_75 to sm_120, such as sm_80,sm_90.")
]
Multiprocessors = Annotated[
    int, typer.Option(help="Multiprocessors of the card that the bound is for.", min=1, max=1024)
]
Clock = Annotated[float, typer.Option(help="Clock of that card.", min=1, max=10_000)]
OfRun = Annotated[
    str | None, typer.Option("--run", metavar="RUN", help="Also divide up the time that this run measured.")
]
Peaks = Annotated[
    Path | None,
    typer.Option("--peaks", metavar="FOLDER", help="Folder with the measured peak rates (default: that of the run)."),
]
Page = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write an HTML page instead: one file that works offline."),
]


@explain.command()
def ledger(
    variant: VariantArgument,
    parameter: Axes = None,
    n: Number = "65536",
    dtype: NumberType = "float32",
    arch: Architectures = "sm_90",
    multiprocessors: Multiprocessors = 132,
    mhz: Clock = 1980,
    run: OfRun = None,
    peaks: Peaks = None,
    as_json: AsJson = False,
    html: Page = None,
) -> None:
    """Count the instructions that a kernel spends on an interaction, by pipe and by source line.

    --run divides the measured time of the case among its causes, using the rates that `gravbench peaks` measures.
    """
    kernels = [asked_for(known_variants(warn), variant, parameter or [], bodies_of(n), dtype)]
    _show(kernels, arch, multiprocessors, mhz, run, peaks, html, as_json=as_json)


@explain.command()
def compare(
    variant: VariantArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The variant to compare with, at its defaults.")],
    parameter: Axes = None,
    n: Number = "65536",
    dtype: NumberType = "float32",
    arch: Architectures = "sm_90",
    multiprocessors: Multiprocessors = 132,
    mhz: Clock = 1980,
    run: OfRun = None,
    peaks: Peaks = None,
    as_json: AsJson = False,
    html: Page = None,
) -> None:
    """Compare the instructions of two kernels, or of one with two values of an axis."""
    variants, bodies = known_variants(warn), bodies_of(n)
    kernels = [
        asked_for(variants, variant, parameter or [], bodies, dtype),
        asked_for(variants, other, [], bodies, dtype, "OTHER"),
    ]
    _show(kernels, arch, multiprocessors, mhz, run, peaks, html, as_json=as_json)


@explain.command()
def bottleneck(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of your own.")], peaks: Peaks = None
) -> None:
    """Save in the folder of a run what limits each of its records; gravbench report shows it.

    Exit code 1 if no record of the run can be explained.
    """
    from gravbench.explain import peaks as kept
    from gravbench.explain.bottlenecks import limits_of
    from gravbench.model import run_names
    from gravbench.model.bottlenecks import Limits
    from gravbench.model.lock import alone
    from gravbench.report.terminal.printing import say_lines
    from gravbench.toolkits import nvrtc

    measured_in = _present(peaks)
    folder, terminal = find_run(run), console()
    if run_names.is_of_the_clone(folder):
        raise InputError(
            f"RUN {run}: {folder} is a run of the clone of gravbench, which is only read from elsewhere; "
            "accepted: a run of your own, or the same command in the clone"
        )
    _check_installed()
    with alone(folder), terminal.status("explaining") if terminal.is_terminal else nullcontext():
        limits, without = limits_of(read_records(folder), kept.read(measured_in or folder))
        path = Limits(compiler=nvrtc.version(), limits=limits).write(folder) if limits else None
    if path is None:
        terminal.print(f"{folder}: no record is of a direct sum with the CUDA C in this checkout", markup=False)
    else:
        terminal.print(f"{len(limits)} records explained; written to {path}", markup=False, soft_wrap=True)
    say_lines(terminal, "Not modelled", [f"{name}: {why}" for name, why in without.items()])
    if path is None:
        raise typer.Exit(1)


@explain.command()
def validate(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders or names of runs.")],
    variant: Annotated[str | None, typer.Option(help="Only the records of this variant.")] = None,
    peaks: Peaks = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a figure and its numbers to this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the times that the model predicts with those that runs measured, by variant.

    Exit code 1 if no record of the runs can be predicted.
    """
    from gravbench.explain import peaks as kept
    from gravbench.explain import validation
    from gravbench.toolkits import nvrtc

    measured_in = _present(peaks)
    _check_installed()
    records = [record for run in runs for record in read_records(find_run(run))]
    chosen = [record for record in records if variant in (None, record.variant)]
    measured = kept.read(measured_in) if measured_in else kept.Peaks()
    errors, without = validation.errors_of(chosen, measured)
    if as_json:
        rows = {row.variant: {"records": len(row.errors), "median": row.median, "bias": row.bias} for row in errors}
        typer.echo(json.dumps({"median": validation.typical(errors), "variants": rows, "without": without}, indent=2))
    else:
        print_errors(errors, without, console())
    if not errors:
        raise typer.Exit(1)
    if figures:
        with writing(figures):
            validation.write(errors, nvrtc.version(), figures)


def print_errors(errors: Sequence[Errors], without: Mapping[str, str], terminal: Console) -> None:
    """Print a row for each variant, and why some records have no model."""
    from rich.table import Table
    from rich.text import Text

    from gravbench.explain.validation import typical
    from gravbench.report.terminal.printing import heading, say, say_lines

    heading(terminal, "Predicted and measured times")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variant", no_wrap=True)
    for name in ("records", "median error", "bias", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in errors:
        numbers = str(len(row.errors)), f"{row.median:.1%}", f"{row.bias:+.1%}", f"{row.largest:+.1%}"
        table.add_row(*map(Text, (row.variant, *numbers)))
    terminal.print(table)
    middle = typical(errors)
    if middle is not None:
        say(
            terminal,
            f"The median error over all records is {middle:.1%}. With a bias above zero, the predicted times are too "
            "long.",
        )
    say_lines(terminal, "Not modelled", [f"{name}: {why}" for name, why in without.items()])


def _show(
    kernels: Sequence[Asked],
    arch: str,
    multiprocessors: int,
    mhz: float,
    run: str | None,
    peaks: Path | None,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print the ledgers of kernels, as text or JSON, or write them as a page."""
    from gravbench.explain import explained, page, printed
    from gravbench.explain.bars import bars as divided

    if as_json and html:
        raise InputError("--json and --html cannot be combined; accepted: one of them")
    if peaks and not run:
        raise InputError("--peaks needs --run")
    measured_in = _present(peaks)
    architectures = list(dict.fromkeys(word.strip() for word in arch.split(",")))
    folder = find_run(run) if run else None
    ledgers = explained.explain(list(kernels), architectures, multiprocessors, mhz)
    bars = divided(ledgers, read_records(folder, without=NOT_JUDGED), folder, measured_in) if folder else []
    if as_json:
        typer.echo(json.dumps(printed.as_json(ledgers, bars), indent=2))
    elif html:
        with writing(html):
            html.parent.mkdir(parents=True, exist_ok=True)
            html.write_text(page.page(ledgers, bars), "utf-8")
        tell_written(console(), html, size=True)
    else:
        printed.render(ledgers, console(), bars)


def _present(peaks: Path | None) -> Path | None:
    from gravbench.model.run_names import present

    return peaks and present("--peaks", peaks)


def _check_installed() -> None:
    """Check that what the model needs is installed."""
    from gravbench.explain.assembling import missing

    if lacking := missing():
        raise InputError(lacking)


def bodies_of(n: str) -> int:
    """Read the value of ``--n``, such as 64k."""
    from gravbench.config.numbers import number

    bodies = number(n)
    if not isinstance(bodies, int):
        raise InputError(f"--n {n}: not a whole number; accepted: 2 to {MOST_BODIES:,}")
    return bodies


def asked_for(
    variants: Mapping[str, Variant], name: str, parameters: Sequence[str], n: int, dtype: str, argument: str = "VARIANT"
) -> Asked:
    """Look up a variant and the values of its axes; ``argument`` names the one that the variant was given by.

    Raises:
        InputError: there is no such variant or value, or it has no CUDA C.
    """
    from gravbench.config.document import shown
    from gravbench.explain.explained import Asked

    if name not in variants:
        raise InputError(f"{argument} {shown(name)}: no such variant; {unknown(name, list(variants))}")
    variant = variants[name]
    if not variant.has_cuda_c:
        with_it = listed(name for name, known in variants.items() if known.has_cuda_c)
        made_by = " and ".join(variant.toolkits)
        raise InputError(f"{argument} {name} has no CUDA C, only a kernel for {made_by}; accepted: {with_it}")
    if dtype not in variant.dtypes:
        raise InputError(f"--dtype {shown(dtype)}: {name} does not support it; accepted: {' or '.join(variant.dtypes)}")
    if not 2 <= n <= MOST_BODIES:
        raise InputError(f"--n {n}: accepted: 2 to {MOST_BODIES:,}")
    return Asked(variant, axes_of(variant, parameters, TOOLKIT), n, "float64" if dtype == "float64" else "float32")
