"""A task of a run: one case on one device; and about how long it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gravbench.config.settings import DRIFT_STEPS, FEWEST_SAMPLES, Measure
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.quantities import QUANTITIES
from gravbench.model.record import Fingerprint
from gravbench.model.variant import CPU
from gravbench.verifying.conserved import is_measured
from gravbench.verifying.verify import ALL_ROWS_ON_GPU, ALL_ROWS_UP_TO

# What estimate_seconds assumes, on the slow side.
CPU_INTERACTIONS_PER_SECOND = 2e8
GPU_INTERACTIONS_PER_SECOND = 1e12
REFERENCE_INTERACTIONS_PER_SECOND = 5e8
GPU_REFERENCE_INTERACTIONS_PER_SECOND = 2e11
LAUNCHES_JUDGED = 6
"""Beside those that are timed, where a launch takes long."""
COMPILE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Task:
    """One case on one device; without a device, ``skip`` says why it will not run; ``anchor`` as in ``Record``.

    ``fresh`` asks for processes that have not measured this case; they go on with those after it.
    """

    case: Case
    fingerprint: Fingerprint
    device: Device | None = None
    skip: str | None = None
    anchor: int = 0
    fresh: bool = False

    @property
    def identity(self) -> tuple[str, str]:
        """The case and everything that its result depends on."""
        return self.case.key, self.fingerprint.model_dump_json()


def estimate_seconds(case: Case, measure: Measure) -> float:
    """Estimate, roughly and on the high side, how long a case takes from compiling to its record, in all processes.

    It knows nothing of the device: the speeds it assumes are the constants of this module.
    """
    evaluation = evaluation_seconds(case)
    verifying = LAUNCHES_JUDGED * evaluation + case.n * (
        min(case.n, ALL_ROWS_UP_TO) / REFERENCE_INTERACTIONS_PER_SECOND
        if case.toolkit == CPU
        else min(case.n, ALL_ROWS_ON_GPU) / GPU_REFERENCE_INTERACTIONS_PER_SECOND
    )
    if QUANTITIES[case.timed].steps:
        verifying += evaluation * (DRIFT_STEPS if is_measured(case.n, lambda: evaluation) else 1)
    warming_up = max(measure.warm_up_seconds, evaluation)
    # A sample that has begun is finished, and a few are taken whatever the budget.
    least = FEWEST_SAMPLES * evaluation
    processes = min(measure.processes_on(gpu=case.toolkit != CPU), math.ceil(measure.budget_seconds / least))
    sampling = max(measure.budget_seconds / processes, least) + evaluation
    return processes * min(COMPILE_SECONDS + verifying + warming_up + sampling, measure.timeout_seconds)


def evaluation_seconds(case: Case) -> float:
    """Estimate how long one evaluation takes."""
    return case.interactions / (CPU_INTERACTIONS_PER_SECOND if case.toolkit == CPU else GPU_INTERACTIONS_PER_SECOND)
