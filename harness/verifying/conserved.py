"""What a step should leave as it is: the energy and the momentum of all bodies together, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gravbench.config.settings import DRIFT_SECONDS, DRIFT_STEPS, DRIFT_UP_TO, DRIFT_UP_TO_ON_GPU
from gravbench.model.bodies import Bodies
from gravbench.model.interaction_files import find
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.verifying.direct_sums import direct_sums


def is_measured(n: int, step_seconds: Callable[[], float]) -> bool:
    """Tell whether the drift of n bodies is worth the time of its steps; of few bodies nobody asks for that time."""
    return n <= DRIFT_UP_TO or DRIFT_STEPS * step_seconds() <= DRIFT_SECONDS


def energy(bodies: Bodies, *, device_sums: DeviceSums | None, up_to: int = DRIFT_UP_TO) -> float | None:
    """Return the total energy; None where there are too many bodies to add up all pairs in a moment.

    These are more than ``up_to`` on the host, and more than ``DRIFT_UP_TO_ON_GPU`` where ``device_sums`` adds up.
    """
    if bodies.n <= up_to:
        return bodies.energy()
    if device_sums and bodies.n <= DRIFT_UP_TO_ON_GPU and bodies.eps:
        return summed_energy(bodies, device_sums=device_sums)
    return None


def summed_energy(bodies: Bodies, *, device_sums: DeviceSums | None) -> float:
    """Return the total energy by the direct sums that kernels are judged by; the softening length is above zero."""
    hermite = find("hermite")
    sums = direct_sums(hermite, bodies, np.arange(bodies.n), "float64", device_sums=device_sums).exact
    # The sum has the pair of each body with itself.
    potential = sums[:, hermite.sums.index("potential")] + bodies.mass / bodies.eps
    return 0.5 * float(bodies.mass @ (np.square(bodies.velocity).sum(axis=1) + potential))


def energy_drift(
    first: Bodies, now: Bodies, *, device_sums: DeviceSums | None = None, up_to: int = DRIFT_UP_TO
) -> float | None:
    """Return (energy now - energy at first) / |energy at first|; None where that is zero or was not added up."""
    before = energy(first, device_sums=device_sums, up_to=up_to)
    after = energy(now, device_sums=device_sums, up_to=up_to) if before else None
    return None if not before or after is None else (after - before) / abs(before)


def momentum_drift(first: Bodies, now: Bodies) -> float | None:
    """Return |momentum now - momentum at first| / sum of mass |velocity| now; None where nothing moves."""
    change = now.mass @ now.velocity - first.mass @ first.velocity
    scale = float(now.mass @ np.linalg.norm(now.velocity, axis=1))
    return float(np.linalg.norm(change)) / scale if scale else None
