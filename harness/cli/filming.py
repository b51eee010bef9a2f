"""The command that shows bodies in motion: movie."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gravbench.cli import completion, options
from gravbench.cli.axes import axes_of
from gravbench.cli.folders import known_variants, unknown
from gravbench.cli.options import MEASURE, app, console, linked, warn, working, writing
from gravbench.errors import InputError, listed, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.model.case import Case
    from gravbench.model.device import Device
    from gravbench.model.variant import Variant
    from gravbench.movie.film import Rates
    from gravbench.movie.simulation import Simulation

BODIES_ON_CPU, BODIES_ON_GPU = 16384, 65536
COLOURS = ("origin", "speed")
SMALLEST, LARGEST = 64, 4096
"""Pixels of a picture's width and height."""
USUAL = (1280, 720)
"""The size of a picture, and the shape of what a page shows at first."""


@app.command(rich_help_panel=MEASURE)
def movie(
    variant: Annotated[
        str,
        typer.Argument(
            metavar="VARIANT", help="The variant that computes the accelerations.", autocompletion=completion.variants
        ),
    ],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="AXIS=VALUE", help="Set an axis, e.g. p=128."),
    ] = None,
    toolkit: Annotated[
        str | None,
        typer.Option(help="Toolkit (default: the first that works).", autocompletion=completion.toolkits),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="cpu, cuda:0, ... (default: the first GPU, if the variant runs there).",
            autocompletion=completion.devices,
        ),
    ] = None,
    bodies: Annotated[
        str, typer.Option(help="Initial conditions: collision, plummer, uniform, or a file of bodies.")
    ] = "collision",
    subset: options.Subset = None,
    n: Annotated[
        str | None,
        typer.Option(
            "-n", "--n", help="Number of bodies (default: all of a file; otherwise 16384 on a CPU, 65536 on a GPU)."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for generated bodies (default: 1).")] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    eps: Annotated[float, typer.Option(help="Softening length.")] = 0.1,
    dt: Annotated[float, typer.Option(help="Time step of the leapfrog.")] = 0.05,
    frames: Annotated[int, typer.Option(help="Frames of the movie.", min=2, max=100_000)] = 200,
    steps: Annotated[int, typer.Option("--steps-per-frame", help="Time steps per frame.", min=1, max=1_000_000)] = 5,
    fps: Annotated[int, typer.Option(help="Playback speed in frames per second.", min=1, max=60)] = 25,
    colour: Annotated[
        str | None,
        typer.Option(help="origin or speed (default: origin if the bodies form two groups, otherwise speed)."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="WxH", help="Width and height of an MP4 or a GIF in pixels (default: 1280x720)."),
    ] = None,
    zoom: Annotated[
        float, typer.Option(help="Zoom factor: 2 shows half the width, 0.5 twice the width.", min=0.01, max=100)
    ] = 1.0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .mp4, .gif or .html file (default: BODIES.mp4).")
    ] = None,
) -> None:
    """Make a movie of bodies in motion: an MP4, a GIF, or an interactive HTML file.

    At the end it prints the frames per second, with and without drawing. Needs the extra `movie`.
    """
    from gravbench.measuring.progress import duration
    from gravbench.model.variant import CPU
    from gravbench.movie import files, film

    path = out or Path(f"{Path(bodies).name.partition('.')[0]}.mp4")
    files.check(path, fps)
    variants = known_variants(warn)
    if variant not in variants:
        raise InputError(f"VARIANT {variant}: no such variant; {unknown(variant, list(variants))}")
    if colour not in (None, *COLOURS):
        raise InputError(f"--colour {colour}: no such colouring; {nearest(colour or '', list(COLOURS))}")
    look = film.Look(_pixels(size, path), fps, zoom)
    by, place = _where(variants, variant, toolkit, device)
    said = {"bodies": bodies, "subset": subset, "n": n, "seed": seed, "dtype": dtype, "eps": eps, "dt": dt}
    case = _case(variants[variant], by, place, parameter or [], said)
    colouring = film.colouring_of(case, colour)
    if place.is_gpu:
        _show_alone(place, case)
    with working("compiling and verifying the accelerations"):
        simulation = _prepared(variants[variant], case)
    where = by if by == CPU else f"{by} on {place.name}"
    method = f"leapfrog with dt = {case.dt:g} and eps = {case.eps:g}"
    title = f"{case.n:,} bodies of {Path(bodies).name}, {variant} ({where}, {dtype}), {method}"
    with writing(path), _progress(frames) as tell:
        rates = film.make(simulation, colouring, look, frames, steps, title, path, tell)
    with working("adding up the energy"):
        drift = simulation.energy_drift()
    terminal = console()
    terminal.print("wrote ", linked(str(path), path), f", {path.stat().st_size / 1e6:.1f} MB", sep="", soft_wrap=True)
    played = f"{frames:,} frames, {duration(frames / fps)} at {fps} frames/s, t = 0 to {simulation.steps * dt:g}"
    _tell(terminal, f"{played}: {title}")
    _show_rates(terminal, rates, steps)
    changed = "is not computed for this many bodies" if drift is None else f"is {drift:+.1e}"
    _tell(terminal, f"the relative change of the energy over the movie {changed}")
    errors = simulation.errors
    sizes = f"largest {errors.error_max:.1e}, rms {errors.error_rms:.1e}, of {errors.error_rows:,} bodies compared"
    _tell(terminal, f"relative errors of the accelerations at t = 0: {sizes}")


def _pixels(size: str | None, path: Path) -> tuple[int, int]:
    """Read width and height.

    Raises:
        InputError: they are none, H.264 cannot have them, or they are for a page.
    """
    from gravbench.movie.files import HTML, MP4

    if size is None:
        return USUAL
    if path.suffix == HTML:
        raise InputError(f"--size {size}: a page fills its window; accepted: only with .mp4 or .gif")
    found = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", size)
    pixels = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(SMALLEST <= one <= LARGEST for one in pixels):
        raise InputError(f"--size {size}: accepted: WIDTHxHEIGHT, each from {SMALLEST} to {LARGEST} pixels")
    if path.suffix == MP4 and any(one % 2 for one in pixels):
        raise InputError(f"--size {size}: an MP4 needs an even width and height; accepted: even numbers of pixels")
    return pixels


def _where(
    variants: Mapping[str, Variant], variant: str, toolkit: str | None, device: str | None
) -> tuple[str, Device]:
    """Choose the toolkit and the device of a variant: the first that is there.

    Raises:
        InputError: there is none, with the reasons.
    """
    from gravbench.model.toolkits import catalogue, check_offered, unnamed
    from gravbench.model.variant import CPU
    from gravbench.toolkits.devices import select

    offered = variants[variant].toolkits
    if toolkit is not None:
        check_offered(toolkit, variant, offered)
    devices, no_gpu = select([device] if device else [])
    reasons = []
    for name in [toolkit] if toolkit else unnamed(offered):
        fitting = [one for one in devices if one.family == catalogue()[name].family]
        reason = catalogue()[name].missing if fitting else no_gpu or f"{name} does not run on {device}"
        if reason is None:
            return name, fitting[0]
        reasons.append(reason)
    on_cpu = listed(name for name, one in variants.items() if CPU in one.toolkits)
    hint = f"; accepted on a CPU: {on_cpu}" if no_gpu else ""
    raise InputError(f"{variant} cannot run: {'; '.join(dict.fromkeys(reasons))}{hint}")


def _case(variant: Variant, toolkit: str, device: Device, parameters: list[str], said: dict[str, Any]) -> Case:
    """Make the case that the options describe.

    Raises:
        InputError: an option has a value that is not accepted.
    """
    from gravbench.config.document import shown
    from gravbench.config.numbers import number
    from gravbench.config.settings import Settings, validated
    from gravbench.measuring.step import LEAPFROG
    from gravbench.model.case import Case
    from gravbench.model.initial_conditions import available

    asked: dict[str, Any] = {"subset": "even", "seed": 1, "n": BODIES_ON_GPU if device.is_gpu else BODIES_ON_CPU}
    for name, value in said.items():
        if value is not None:
            given = number(value) if name == "n" else None
            checked = validated(Settings, {name: value if given is None else given}, f"--{name} {shown(value)}")
            (asked[name],) = getattr(checked, name)
    if asked["dtype"] not in variant.dtypes:
        raise InputError(
            f"--dtype {asked['dtype']}: {variant.name} does not support it; accepted: {' or '.join(variant.dtypes)}"
        )
    offered = available(asked["bodies"], asked["subset"])
    unused, why = ("subset", "generated") if offered is None else ("seed", "read from a file")
    if said[unused] is not None:
        raise InputError(
            f"--{unused} {said[unused]}: has no effect, because the bodies are {why}; accepted: without it"
        )
    if offered is not None and said["n"] is None:
        asked["n"] = offered
    axes = axes_of(variant, parameters, toolkit)
    return Case(variant=variant.name, toolkit=toolkit, axes=axes, timed="step", integrator=LEAPFROG, **asked)


def _show_alone(device: Device, case: Case) -> None:
    """Have libraries see the device alone or, where several are asked for, the others of its kind after it."""
    from gravbench.toolkits.devices import expose, others_like

    several = [device, *(others_like(device) if case.gpus > 1 else ())]
    expose(several)  # before any library asks the driver which devices there are


def _prepared(variant: Variant, case: Case) -> Simulation:
    from gravbench.movie.simulation import Simulation
    from gravbench.toolkits.interface import ToolkitMissingError

    try:
        return Simulation(variant, case)
    except ToolkitMissingError as error:
        raise InputError(f"{case.label}: {error}") from error
    except MemoryError as error:
        raise InputError(f"{case.label}: out of memory: {error}; accepted: fewer bodies") from error


@contextmanager
def _progress(frames: int) -> Iterator[Callable[[], None]]:
    """Show on standard error, where that is a terminal, how many frames are done and the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    terminal = console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("frames"), TimeRemainingColumn(), TextColumn("left")
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        task = progress.add_task("", total=frames)
        yield lambda: progress.advance(task)


def _show_rates(terminal: Console, rates: Rates, steps: int) -> None:
    from rich.table import Table

    from gravbench.report.numbers import number

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for name in ("frames/s", "ms per frame"):
        table.add_column(name, justify="right", no_wrap=True)
    each = f"{steps} step{'s' if steps > 1 else ''} of {number(1e3 * rates.step_seconds, 3)} ms"
    for what, rate in (
        (f"computing only, {each}", rates.computing),
        ("including copying to the host, drawing and writing", rates.making),
    ):
        table.add_row(what, number(rate, 3), number(1e3 / rate, 3))
    terminal.print(table)
    _tell(terminal, "a step is one evaluation of all accelerations plus the integrator")


def _tell(terminal: Console, sentence: str) -> None:
    terminal.print(sentence, markup=False, highlight=False, soft_wrap=True)
