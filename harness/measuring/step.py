"""``timed: step``: the force and an integrator, both on the device, bodies and velocities never leaving it.

Leapfrog is kick-drift-kick. The half kick that ends a step and the one that begins the next use the same
accelerations, so between steps they are one whole kick: velocities stay half a step behind the positions, and the
missing half kick is applied when both have to belong to one time. Samples follow one another in one long run: the
bodies are not put back in between. Damped Euler (Lee 2008) is v = (v + a dt) damping, x = x + v dt.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.config.settings import DRIFT_STEPS, DRIFT_UP_TO
from gravbench.errors import InputError
from gravbench.measuring.timed import Subject, Timed
from gravbench.model.bodies import Bodies
from gravbench.model.record import Stepping
from gravbench.model.variant import Lap, Prepared
from gravbench.toolkits import buffers, parts
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.toolkits.interface import DeviceToolkit
from gravbench.toolkits.opening import open_toolkit
from gravbench.toolkits.parts import Part
from gravbench.verifying.conserved import energy_drift, is_measured, momentum_drift

INTEGRATE = Part("integrate")
LEAPFROG = "leapfrog"

ROUNDINGS = 8
"""Roundings of the device's number type that one step may be away from its formula in float64."""

Array = NDArray[np.float64]


def integrator_constants(prepared: Prepared) -> dict[str, int]:
    """Return what the integrator is compiled with for the layout of a variant."""
    return {
        "BODY_STRIDE": buffers.stride(prepared.bodies),
        "ACCELERATION_STRIDE": buffers.stride(prepared.accelerations),
    }


def integrator_arguments(prepared: Prepared, velocities: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Return what the integrator is launched with, except for three numbers: kick, damping and drift."""
    columns = (*buffers.columns(prepared.bodies), *velocities, *buffers.columns(prepared.accelerations))
    return (*columns, np.int32(n))


class Stepper(Timed):
    """A step: the force, then the integrator."""

    def __init__(
        self,
        toolkit: DeviceToolkit,
        prepared: Prepared,
        bodies: Bodies,
        integrator: str,
        dt: float,
        *,
        device_sums: DeviceSums | None = None,
    ) -> None:
        """Upload the velocities and compile the integrator for the variant's layout.

        ``device_sums`` adds up the energies of many bodies.
        """
        super().__init__(toolkit, prepared)
        self.device_sums = device_sums
        self.n = bodies.n
        self.leapfrog = integrator == LEAPFROG
        self.dt = dt
        self.damping = 1.0 if self.leapfrog else float(INTEGRATE.module.DAMPING)
        mass, position, velocity = (
            array.astype(toolkit.real).astype(np.float64) for array in (bodies.mass, bodies.position, bodies.velocity)
        )
        self.first = Bodies(mass, position, velocity, bodies.eps)
        self._positions = buffers.host_bodies(toolkit, prepared, self.first)
        self._speeds = tuple(np.ascontiguousarray(column, toolkit.real) for column in velocity.T)
        self._velocities = tuple(toolkit.upload(column) for column in self._speeds)
        self._at_first = False
        self._energy_drift: float | None = None
        self._last: Bodies | None = None  # after DRIFT_STEPS
        opened = open_toolkit(toolkit.name, INTEGRATE, toolkit.dtype)
        self._kernel = opened.compile("integrate", **integrator_constants(prepared))
        self._moved = integrator_arguments(prepared, self._velocities, self.n)

    @classmethod
    def of_case(cls, subject: Subject) -> Timed:
        integrator, dt = subject.case.integrator, subject.case.dt
        assert integrator is not None
        assert dt is not None
        sums = subject.device_sums
        return cls(subject.toolkit, subject.prepared, subject.bodies, integrator, dt, device_sums=sums)

    @property
    def kernels(self) -> int:
        return super().kernels + 1

    @property
    def leaves_the_force(self) -> bool:
        return False

    def launch(self) -> None:
        super().launch()
        self._integrate(self.dt, self.damping, self.dt)

    def stages(self, lap: Lap) -> None:
        super().stages(lap)
        self._integrate(self.dt, self.damping, self.dt)
        lap("integrate")

    def start(self) -> None:
        """Put the bodies where they were at first, and the velocities of leapfrog half a step behind."""
        if not self._at_first:
            self._rewind()
        if self.leapfrog:
            self._integrate(-self.dt / 2)

    def now(self) -> Bodies:
        """Copy positions and velocities of one time to the host; steps may go on afterwards.

        Raises:
            InputError: they are not finite.
        """
        if self.leapfrog:
            self.prepared.launch()
            self._integrate(self.dt / 2)
        position, velocity = self._download()
        if self.leapfrog:
            self._integrate(-self.dt / 2)
        return Bodies(self.first.mass, position, velocity, self.first.eps)

    def between(self) -> Bodies:
        """Copy the bodies as they are between two steps, those of leapfrog with velocities half a step behind.

        Raises:
            InputError: they are not finite.
        """
        return Bodies(self.first.mass, *self._download(), self.first.eps)

    def objection(self) -> str | None:
        """Do one step, from the bodies of which the accelerations are there, and compare it with the formula."""
        at_start = buffers.sums(self.toolkit, self.prepared).copy()
        self._at_first = True
        self.start()
        self.launch()
        self.toolkit.synchronize()
        kicked = buffers.sums(self.toolkit, self.prepared)
        rows = buffers.bodies(self.toolkit, self.prepared)
        moved = {
            "velocities": [self.toolkit.download(column) for column in self._velocities],
            "positions": [rows[:, axis] for axis in range(3)],
        }
        right = {"velocities": True, "positions": True}
        right["masses"] = self._small(rows[:, 3] - self.first.mass, np.zeros(self.n))
        for axis in range(3):
            x, v = (np.ascontiguousarray(array[:, axis]) for array in (self.first.position, self.first.velocity))
            kicks = [np.array(array[:, axis], np.float64) * self.dt for array in (at_start, kicked)]
            speed = np.abs(v) + np.abs(kicks[0]) + np.abs(kicks[1])
            expected = ((v - kicks[0] / 2 if self.leapfrog else v) + kicks[1]) * self.damping
            arrived = x + expected * self.dt
            for name, wanted, scale in (
                ("velocities", expected, speed),
                ("positions", arrived, np.abs(x) + speed * abs(self.dt)),
            ):
                right[name] &= self._small(moved[name][axis] - wanted, scale)
        self._rewind()
        wrong = [name for name, is_right in right.items() if not is_right]
        return f"one step did not update the {' and '.join(wrong)} as its formula says" if wrong else None

    def finish(self) -> str | None:
        """Repeat the first ``DRIFT_STEPS`` steps, to see what drifts over them, unless they take too long."""
        objection = None
        if not all(np.isfinite(array).all() for array in self._download()):
            objection = "some bodies were NaN or infinite after the last step"
        if not objection and is_measured(self.n, self._step_seconds):
            try:
                self._last = self.after(DRIFT_STEPS)
            except InputError as error:
                objection = f"after {DRIFT_STEPS} steps {error}"
            else:
                if self.n > DRIFT_UP_TO:  # on the device
                    self._energy_drift = energy_drift(self.first, self._last, device_sums=self.device_sums)
        self._rewind()
        return objection

    def stepping(self) -> Stepping:
        energy, momentum = self._energy_drift, None
        if self._last:
            momentum = momentum_drift(self.first, self._last)
            if self.n <= DRIFT_UP_TO:
                energy = energy_drift(self.first, self._last)
        return Stepping(
            energy_drift=energy,
            momentum_drift=momentum,
            drift_steps=None if energy is None and momentum is None else DRIFT_STEPS,
            damping=None if self.leapfrog else self.damping,
        )

    def after(self, steps: int) -> Bodies:
        """Do so many steps from the first bodies on, and copy what they led to.

        Raises:
            InputError: they led to bodies that are not finite.
        """
        self.start()
        for _ in range(steps):
            self.launch()
        return self.now()

    def _step_seconds(self) -> float:
        began = perf_counter()
        self.launch()
        self.toolkit.synchronize()
        return perf_counter() - began

    def _integrate(self, kick: float, damping: float = 1.0, drift: float = 0.0) -> None:
        self._at_first = False
        real = self.toolkit.real
        parts.launch(self.toolkit, self._kernel, self.n, *self._moved, real(kick), real(damping), real(drift))

    def _rewind(self) -> None:
        """Put the bodies where they were at first and evaluate the force."""
        buffers.write_bodies(self.toolkit, self.prepared, self._positions)
        for array, values in zip(self._velocities, self._speeds, strict=True):
            self.toolkit.copy_in(array, values)
        self.prepared.launch()
        self.toolkit.synchronize()
        self._at_first = True

    def _download(self) -> tuple[Array, Array]:
        """Copy positions and velocities as they are."""
        self.toolkit.synchronize()
        position = buffers.bodies(self.toolkit, self.prepared)[:, :3]
        velocity = np.column_stack([self.toolkit.download(column) for column in self._velocities])
        return position.astype(np.float64), velocity.astype(np.float64)

    def _small(self, difference: Array, scale: Array) -> bool:
        """Tell whether differences are roundings of numbers of this size; a NaN is not."""
        limits = np.finfo(self.toolkit.real)
        return bool((np.abs(difference) <= ROUNDINGS * float(limits.eps) * scale + float(limits.tiny)).all())
