"""Compute a movie, draw it and write its file, and say how fast that was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from gravbench.errors import InputError
from gravbench.model.case import Case
from gravbench.model.initial_conditions import of_case, origins
from gravbench.movie import files
from gravbench.movie.simulation import Frame, Simulation
from gravbench.movie.view import ByOrigin, Colouring, by_speed, view_of


@dataclass(frozen=True, slots=True)
class Look:
    """How a movie looks.

    Attributes:
        size: width and height in pixels; a page fills its window, and has of this the shape of what it shows.
        fps: frames per second at which it plays.
        zoom: 1 shows nearly all bodies as they are at first, 2 half the lengths.
    """

    size: tuple[int, int]
    fps: int
    zoom: float


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a movie was made.

    Attributes:
        computing: frames per second of the steps alone: forces and integrator.
        making: frames per second of the steps, copies to the host, drawing, encoding and writing.
        step_seconds: time of one step, which is one evaluation of all accelerations and the integrator.
    """

    computing: float
    making: float
    step_seconds: float


def colouring_of(case: Case, colour: str | None) -> Colouring:
    """Colour bodies by ``origin`` or by ``speed``; None is by origin where the bodies have two groups.

    Raises:
        InputError: they are to be coloured by origin, and are of one group; or there are no such bodies.
    """
    names, groups = origins(case.bodies, case.n, case.subset)
    if len(names) > 1 and colour != "speed":
        return ByOrigin(names, groups)
    if colour == "origin":
        raise InputError(f"--colour origin: the bodies of {case.bodies} all have the same origin; accepted: speed")
    return by_speed(of_case(case))


def make(
    simulation: Simulation,
    colouring: Colouring,
    look: Look,
    frames: int,
    steps: int,
    title: str,
    path: Path,
    frame_done: Callable[[], None],
) -> Rates:
    """Write the movie: ``frames`` frames, ``steps`` steps apart; ``frame_done`` is called after each frame.

    The file is written beside ``path`` and moved there when it is whole.

    Raises:
        InputError: bodies are not finite any more.
        OSError: the file cannot be written.
    """
    view = view_of(simulation.bodies, look.size[0] / look.size[1], look.zoom)

    def computed() -> Iterator[Frame]:
        for frame in simulation.frames(frames, steps):
            yield frame
            frame_done()

    with files.whole(path) as temporary:
        began = perf_counter()
        if path.suffix == files.HTML:
            from gravbench.movie.page import write_html

            write_html(computed(), frames, temporary, view, colouring, title, look.fps)
        else:
            from gravbench.movie.picture import Painter

            painter = Painter(view, look.size, title, colouring.key)
            pictures = (painter.picture(frame.bodies, colouring.of(frame.bodies), frame.time) for frame in computed())
            (files.write_mp4 if path.suffix == files.MP4 else files.write_gif)(pictures, temporary, look.fps)
        besides = perf_counter() - began - simulation.seconds
    # The first frame is drawn without being computed.
    frame_seconds = simulation.seconds / (frames - 1)
    return Rates(1 / frame_seconds, 1 / (frame_seconds + besides / frames), simulation.seconds / simulation.steps)
