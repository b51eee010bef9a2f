"""What a step should leave as it is: the energy and the momentum of all bodies together, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gravbench.config.settings import DRIFT_SECONDS, DRIFT_STEPS, DRIFT_UP_TO, DRIFT_UP_TO_ON_GPU
from gravbench.model.bodies import Bodies
from gravbench.model.interaction_files import find
from gravbench.model.limits import LARGEST_AMOUNT
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
    """Return (energy now - energy at first) / |energy at first|.

    It is None where that is zero, was not added up, or leaves float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        before = energy(first, device_sums=device_sums, up_to=up_to)
        after = energy(now, device_sums=device_sums, up_to=up_to) if before else None
    return _stated((after - before) / abs(before)) if before and after is not None else None


def momentum_drift(first: Bodies, now: Bodies) -> float | None:
    """Return |momentum now - momentum at first| / sum of mass |velocity| now.

    It is None where nothing moves, or where it leaves float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        change = now.mass @ now.velocity - first.mass @ first.velocity
        scale = float(now.mass @ np.linalg.norm(now.velocity, axis=1))
        return _stated(float(np.linalg.norm(change)) / scale) if scale else None


def _stated(drift: float) -> float | None:
    """Return a drift that a record can state; None of what is infinite or no number."""
    return drift if abs(drift) <= LARGEST_AMOUNT else None
