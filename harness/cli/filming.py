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
from gravbench.cli.options import MEASURE, app, console, tell, tell_written, warn, working, writing
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


VariantArgument = Annotated[
    str,
    typer.Argument(
        metavar="VARIANT", help="The variant that computes the accelerations.", autocompletion=completion.variants
    ),
]
Axes = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="AXIS=VALUE", help="Set an axis, e.g. p=128."),
]
Toolkit = Annotated[
    str | None,
    typer.Option("--toolkit", help="Toolkit (default: the first that works).", autocompletion=completion.toolkits),
]
FilmedDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="cpu, cuda:0, ... (default: the first GPU, if the variant runs there).",
        autocompletion=completion.devices,
    ),
]
FilmedBodies = Annotated[
    str,
    typer.Option("--bodies", help="Initial conditions: a generator such as collision, or a file of bodies."),
]
NumberOfBodies = Annotated[
    str | None,
    typer.Option(
        "-n", "--n", help="Number of bodies (default: all of a file; otherwise 16384 on a CPU, 65536 on a GPU)."
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed for generated bodies (default: 1).")]
NumberType = Annotated[str, typer.Option("--dtype", help="float32 or float64.")]
Softening = Annotated[float, typer.Option("--eps", help="Softening length.")]
TimeStep = Annotated[float, typer.Option("--dt", help="Time step of the leapfrog.")]
Frames = Annotated[int, typer.Option("--frames", help="Frames of the movie.", min=2, max=100_000)]
Steps = Annotated[int, typer.Option("--steps-per-frame", help="Time steps per frame.", min=1, max=1_000_000)]
Fps = Annotated[int, typer.Option("--fps", help="Playback speed in frames per second.", min=1, max=60)]
Colour = Annotated[
    str | None,
    typer.Option("--colour", help="origin or speed (default: origin if the bodies form two groups, otherwise speed)."),
]
Size = Annotated[
    str | None,
    typer.Option("--size", metavar="WxH", help="Width and height of an MP4 or a GIF in pixels (default: 1280x720)."),
]
Zoom = Annotated[
    float, typer.Option("--zoom", help="Zoom factor: 2 shows half the width, 0.5 twice the width.", min=0.01, max=100)
]
MovieFile = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="A .mp4, .gif or .html file (default: BODIES.mp4).")
]


@app.command(rich_help_panel=MEASURE)
def movie(
    variant: VariantArgument,
    parameter: Axes = None,
    toolkit: Toolkit = None,
    device: FilmedDevice = None,
    bodies: FilmedBodies = "collision",
    subset: options.Subset = None,
    n: NumberOfBodies = None,
    seed: Seed = None,
    dtype: NumberType = "float32",
    eps: Softening = 0.1,
    dt: TimeStep = 0.05,
    frames: Frames = 200,
    steps: Steps = 5,
    fps: Fps = 25,
    colour: Colour = None,
    size: Size = None,
    zoom: Zoom = 1.0,
    out: MovieFile = None,
) -> None:
    """Make a movie of bodies in motion: an MP4, a GIF, or an interactive HTML file.

    At the end it prints the frames per second, with and without drawing. Needs the extra `movie`.
    """
    from gravbench.model.generated_bodies import is_generated
    from gravbench.movie import files, film

    path = out or Path(f"{bodies if is_generated(bodies) else Path(bodies).name.partition('.')[0]}.mp4")
    files.check(path, fps)
    variants = known_variants(warn)
    if variant not in variants:
        raise InputError(f"VARIANT {variant}: no such variant; {unknown(variant, list(variants))}")
    if colour not in (None, *COLOURS):
        raise InputError(f"--colour {colour}: no such colouring; {nearest(colour or '', list(COLOURS))}")
    look = film.Look(_pixels(size, path), fps, zoom)
    by, place = _where(variants, variant, toolkit, device)
    given = {"bodies": bodies, "subset": subset, "n": n, "seed": seed, "dtype": dtype, "eps": eps, "dt": dt}
    case = _case(variants[variant], by, place, parameter or [], given)
    colouring = film.colouring_of(case, colour)
    if place.is_gpu:
        _show_alone(place, case)
    with working("compiling and verifying the accelerations"):
        simulation = _prepared(variants[variant], case)
    title = _title(case, place)
    with writing(path), _progress(frames) as advance:
        rates = film.make(simulation, colouring, look, frames, steps, title, path, advance)
    with working("adding up the energy"):
        drift = simulation.energy_drift()
    terminal = console()
    tell_written(terminal, path, size=True)
    tell(terminal, f"{_played(frames, fps, simulation.steps * dt)}: {title}")
    _show_rates(terminal, rates, steps)
    _show_errors(terminal, simulation, drift, case.n)


def _title(case: Case, device: Device) -> str:
    """Say what moves, what computes it, and how."""
    from gravbench.model.variant import CPU

    where = case.toolkit if case.toolkit == CPU else f"{case.toolkit} on {device.name}"
    method = f"leapfrog with dt = {case.dt:g} and eps = {case.eps:g}"
    return f"{case.n:,} bodies of {Path(case.bodies).name}, {case.variant} ({where}, {case.dtype}), {method}"


def _played(frames: int, fps: int, end: float) -> str:
    """Say how long the movie is, in frames, seconds and units of time."""
    from gravbench.measuring.progress import duration

    return f"{frames:,} frames, {duration(frames / fps)} at {fps} frames/s, t = 0 to {end:g}"


def _show_errors(terminal: Console, simulation: Simulation, drift: float | None, n: int) -> None:
    """Say how much energy the movie lost or gained, and how right its first accelerations were."""
    from gravbench.movie.simulation import ENERGY_UP_TO

    why = "is zero at first or leaves float64" if n <= ENERGY_UP_TO else "is not added up for so many bodies"
    changed = f"has no value: the energy {why}" if drift is None else f"is {drift:+.1e}"
    tell(terminal, f"the relative change of the energy over the movie {changed}")
    errors = simulation.errors
    sizes = f"largest {errors.error_max:.1e}, rms {errors.error_rms:.1e}, of {errors.error_rows:,} bodies compared"
    tell(terminal, f"relative errors of the accelerations at t = 0: {sizes}")


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
    match = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", size)
    pixels = (int(match[1]), int(match[2])) if match else (0, 0)
    if not all(SMALLEST <= count <= LARGEST for count in pixels):
        raise InputError(f"--size {size}: accepted: WIDTHxHEIGHT, each from {SMALLEST} to {LARGEST} pixels")
    if path.suffix == MP4 and any(count % 2 for count in pixels):
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
        fitting = [place for place in devices if place.family == catalogue()[name].family]
        reason = catalogue()[name].missing if fitting else no_gpu or f"{name} does not run on {device}"
        if reason is None:
            return name, fitting[0]
        reasons.append(reason)
    on_cpu = listed(name for name, known in variants.items() if CPU in known.toolkits)
    hint = f"; accepted on a CPU: {on_cpu}" if no_gpu else ""
    raise InputError(f"{variant} cannot run: {'; '.join(dict.fromkeys(reasons))}{hint}")


def _case(variant: Variant, toolkit: str, device: Device, parameters: list[str], stated: dict[str, Any]) -> Case:
    """Make the case that the options describe.

    Raises:
        InputError: an option has a value that is not accepted.
    """
    from gravbench.config.document import shown
    from gravbench.config.numbers import number
    from gravbench.config.settings import Settings, validated
    from gravbench.measuring.step import LEAPFROG
    from gravbench.model.case import PARTS, Case
    from gravbench.model.initial_conditions import available

    settings: dict[str, Any] = {name: PARTS[name].usual for name in ("subset", "seed")}
    settings["n"] = BODIES_ON_GPU if device.is_gpu else BODIES_ON_CPU
    for name, value in stated.items():
        if value is not None:
            given = number(value) if name == "n" else None
            checked = validated(Settings, {name: value if given is None else given}, f"--{name} {shown(value)}")
            (settings[name],) = getattr(checked, name)
    if settings["dtype"] not in variant.dtypes:
        raise InputError(
            f"--dtype {settings['dtype']}: {variant.name} does not support it; accepted: {' or '.join(variant.dtypes)}"
        )
    offered = available(settings["bodies"], settings["subset"])
    unused, why = ("subset", "generated") if offered is None else ("seed", "read from a file")
    if stated[unused] is not None:
        raise InputError(
            f"--{unused} {stated[unused]}: has no effect, because the bodies are {why}; accepted: without it"
        )
    if offered is not None and stated["n"] is None:
        settings["n"] = offered
    axes = axes_of(variant, parameters, toolkit)
    return Case(variant=variant.name, toolkit=toolkit, axes=axes, timed="step", integrator=LEAPFROG, **settings)


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
    tell(terminal, "a step is one evaluation of all accelerations plus the integrator")
