"""Whether what a toolkit has computed is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness import buffers, reference
from harness.record import Errors
from harness.toolkits.interface import DeviceToolkit
from harness.variant import Dtype, HostBodies, Prepared, Tolerance


class Judge:
    """Compares what a prepared variant has left on its device with direct sums in float64."""

    def __init__(
        self, toolkit: DeviceToolkit, prepared: Prepared, bodies: HostBodies, tolerance: Tolerance, dtype: Dtype
    ) -> None:
        """Sum the reference, once for all verdicts."""
        self.toolkit = toolkit
        self.prepared = prepared
        factor = toolkit.interaction.tolerance
        self.tolerance = Tolerance(max=factor * tolerance.max, rms=factor * tolerance.rms)
        self.rows = reference.verified_rows(bodies.n)
        self.expected = reference.direct_sums(toolkit.interaction, bodies, self.rows, dtype)

    def verdict(self) -> tuple[Errors, str | None]:
        """Return the errors of what was launched last, and why that is wrong; None when it is right.

        No acceleration may be NaN or infinite, whether or not it is among the compared ones. Where several
        launches make a cycle, one whole cycle is launched and the mean of its accelerations is judged.
        """
        vectors = self.toolkit.interaction.vectors()
        accelerations = buffers.sums(self.toolkit, self.prepared)
        errors = reference.compare(accelerations[self.rows], self.expected, vectors)
        judged = errors
        if self.prepared.cycle > 1:
            accelerations = self._mean_of_a_cycle()
            judged = reference.compare(accelerations[self.rows], self.expected, vectors)
            errors = errors.model_copy(
                update={
                    "cycle": self.prepared.cycle,
                    "error_cycle_max": judged.error_max,
                    "error_cycle_rms": judged.error_rms,
                }
            )
        objection = reference.objection(judged, self.tolerance)
        bad = int(np.count_nonzero(~np.isfinite(accelerations).all(axis=1)))
        if bad and not objection:
            objection = f"{bad} accelerations outside of the sample are NaN or infinite"
        return errors, objection

    def _mean_of_a_cycle(self) -> NDArray[np.float64]:
        total: NDArray[np.float64] = np.zeros(1)
        for _ in range(self.prepared.cycle):
            self.prepared.launch()
            self.toolkit.synchronize()
            total = total + buffers.sums(self.toolkit, self.prepared)
        return total / self.prepared.cycle
