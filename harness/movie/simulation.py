"""The bodies of a movie, frame by frame: leapfrog with the accelerations of one variant, which are verified first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from gravbench.errors import InputError
from gravbench.measuring.step import LEAPFROG, Stepper
from gravbench.model import initial_conditions
from gravbench.model.bodies import Bodies, unfit
from gravbench.model.case import Case
from gravbench.model.variant import CPU, Variant
from gravbench.toolkits.cpu import counting_numba
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying.conserved import energy_drift
from gravbench.verifying.direct_sums import usable
from gravbench.verifying.verify import Judge

ENERGY_UP_TO = 1 << 14
"""Bodies up to which a CPU adds up the energy: twice, in about two seconds each."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The bodies at one time: positions at ``time``, velocities half a step earlier, or of the same time at 0."""

    number: int
    time: float
    bodies: Bodies


class Simulation:
    """A case with ``timed: step``, prepared and verified on the device that this process sees.

    Attributes:
        bodies: as they are at first.
        errors: relative errors of the accelerations at first, against direct sums in float64.
        seconds: spent on the steps so far: forces and integrator, until the device has done them. What is compiled, the
            first evaluation, and copies to the host are not in it.
        steps: how many these are.
    """

    def __init__(self, variant: Variant, case: Case) -> None:
        """Prepare and verify.

        Raises:
            InputError: the bodies do not suit the number type, or the accelerations are wrong.
            ToolkitMissingError: the toolkit cannot be used here.
        """
        self.bodies = bodies = initial_conditions.of_case(case)
        if reason := unfit(bodies, case.dtype):
            raise InputError(f"{case.bodies}: {reason}")
        self._toolkit = toolkit = open_toolkit(case.toolkit, variant, case.dtype)
        with counting_numba(toolkit):
            prepared = variant.prepare(toolkit, bodies, **case.axes)
        # Arrays on the host belong to the CPU, whichever toolkit computes.
        holder = open_toolkit(CPU, variant, case.dtype) if prepared.on_host else toolkit
        self._device_sums = usable(toolkit.device_sums, toolkit.interaction, case.dtype)
        accepted = variant.accepted(case.dtype, case.axes)
        judge = Judge(holder, prepared, bodies, accepted, case.dtype, device_sums=self._device_sums)
        with counting_numba(toolkit):
            judge.launch()
        self.errors, objection = judge.verdict()
        if objection:
            raise InputError(f"{case.label}: its accelerations are wrong: {objection}")
        assert case.dt is not None
        self._dt = case.dt
        self._stepper = Stepper(holder, prepared, bodies, LEAPFROG, case.dt, device_sums=self._device_sums)
        self._stepper.start()
        self.seconds = 0.0
        self.steps = 0

    def frames(self, count: int, steps: int) -> Iterator[Frame]:
        """Compute ``count`` frames, ``steps`` steps apart, the first at t = 0. To be called once.

        Raises:
            InputError: bodies are not finite any more.
        """
        yield Frame(0, 0.0, self.bodies)
        for number in range(1, count):
            began = perf_counter()
            for _ in range(steps):
                self._stepper.launch()
            self._toolkit.synchronize()
            self.seconds += perf_counter() - began
            self.steps += steps
            time = self.steps * self._dt
            try:
                now = self._stepper.between()
            except InputError as error:
                raise InputError(f"at t = {time:g} {error}; a shorter --dt or a larger --eps may help") from error
            yield Frame(number, time, now)

    def energy_drift(self) -> float | None:
        """Return (energy now - energy at first) / |energy at first|; None where there are too many bodies for it."""
        first = self._stepper.first
        return energy_drift(first, self._stepper.now(), device_sums=self._device_sums, up_to=ENERGY_UP_TO)
