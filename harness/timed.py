"""What is timed of a case: the force, a step, or a call. Each in a module of its own; here is what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from harness.bodies import Bodies
from harness.calling import Call
from harness.measure import Clock
from harness.record import Case
from harness.stepping import Stepper
from harness.toolkits.interface import DeviceToolkit
from harness.variant import Lap, Prepared


class Timed(Protocol):
    """What the worker does with it: verify the force, ask for the objection, measure ``launch``, finish."""

    @property
    def clock(self) -> Clock:
        """What times it."""

    @property
    def kernels(self) -> int:
        """Kernels one ``launch`` puts in the device's queue, at least."""

    def launch(self) -> None:
        """Do once what is timed."""

    def stages(self, lap: Lap) -> None:
        """Do it once, its stages told apart; only of what is prepared with stages."""

    def objection(self) -> str | None:
        """Say what is wrong with it beside the force; None when it is right.

        Leaves the accelerations of the bodies as they were at first, to be judged.
        """

    def start(self) -> None:
        """Make ready for ``launch`` to be timed."""

    def finish(self, median_seconds: float) -> tuple[dict[str, Any], str | None]:
        """Return fields of ``Record``, and what the last launches left wrong. Leaves what ``objection`` leaves."""


@dataclass(frozen=True, slots=True)
class Force:
    """The accelerations of all bodies, on the device."""

    clock: DeviceToolkit
    prepared: Prepared

    @property
    def kernels(self) -> int:
        """Those of the force."""
        return self.prepared.kernels

    def launch(self) -> None:
        """Evaluate the force."""
        self.prepared.launch()

    def stages(self, lap: Lap) -> None:
        """Evaluate the force, its stages told apart."""
        assert self.prepared.stages is not None
        self.prepared.stages(lap)

    def objection(self) -> str | None:
        """There is nothing beside the force."""
        return None

    def start(self) -> None:
        """Nothing has to be made ready."""

    def finish(self, median_seconds: float) -> tuple[dict[str, Any], str | None]:  # noqa: ARG002
        """Nothing is left."""
        return {}, None


def open_timed(case: Case, toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies) -> Timed:
    """Make what ``case.timed`` names ready for one prepared variant."""
    match case.timed:
        case "step":
            assert case.integrator is not None
            assert case.dt is not None
            return Stepper(toolkit, prepared, bodies, case.integrator, case.dt)
        case "call":
            return Call(toolkit, prepared, bodies)
        case _:
            return Force(toolkit, prepared)
