"""What one evaluation of a case may include: every quantity that can be timed, declared once.

A class of ``gravbench.measuring`` times one: a subclass of ``gravbench.measuring.timed.Timed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that can be timed.

    ``meaning`` says what is done, and where, and ``brief`` what is timed, in a few words. ``timer`` is the class that
    times it, behind the module of ``gravbench.measuring`` that has it. Of one that ``steps``, an integrator moves the
    bodies: its cases have ``integrator`` and ``dt``, only an interaction that gives accelerations has it, and the
    integrator is part of the code that ran. One that is ``on_host_too`` keeps the host busy where a GPU computes.
    """

    name: str
    meaning: str
    brief: str
    timer: str
    steps: bool = False
    on_host_too: bool = False


FORCE = "force"
"""The usual one, and the only one by which kernels compete in a search."""

_DECLARED = (
    Quantity(
        FORCE,
        "the accelerations, with everything on the device; the default",
        "the accelerations alone",
        "timed.Timed",
    ),
    Quantity(
        "step",
        "the force and an integrator, with everything on the device",
        "a step: force and integrator",
        "step.Stepper",
        steps=True,
    ),
    Quantity(
        "call",
        "from host arrays to host arrays, including transfers, timed by the host's clock",
        "the library call, including transfers",
        "timed.Call",
        on_host_too=True,
    ),
)
QUANTITIES = {quantity.name: quantity for quantity in _DECLARED}

BRIEF = {name: quantity.brief for name, quantity in QUANTITIES.items()} | {
    "frame": "a frame: force, step and drawing",
    "process": "the whole process, including start-up of the device",
}
"""What is timed, in a few words: here, and by the sources whose published numbers are compared."""

if TYPE_CHECKING:
    TimedName = str
    PublishedName = str
else:
    TimedName = Literal[tuple(QUANTITIES)]
    PublishedName = Literal[tuple(BRIEF)]
