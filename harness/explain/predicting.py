"""Predict again what changes of a kernel bring, by the model of this checkout; what was measured stays as it is.

It needs no GPU: the shape of a launch follows from the variant, the registers of the file and the architecture.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gravbench.errors import InputError, exit_code_of
from gravbench.explain import peaks as kept
from gravbench.explain.ablations import (
    FILE,
    ORIGINAL,
    Ablations,
    Made,
    Outcome,
    Predicted,
    read_all,
    seconds_of,
    write,
)
from gravbench.explain.assembling import missing
from gravbench.explain.changes import Change, changes
from gravbench.explain.model import MULTIPROCESSORS, Problem
from gravbench.explain.occupancy import occupancy
from gravbench.explain.peaks import Peaks
from gravbench.explain.recorded_kernels import launches_of
from gravbench.explain.shape import LANES, Shape
from gravbench.explain.work import shared_of
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import Dtype, Variant, discover


def again(ablations: Ablations, rates: Peaks) -> Ablations:
    """Return what was found of a kernel with the times and gains that are predicted now, from a device's peak rates.

    What had no prediction gets none.

    Raises:
        InputError: its kernel cannot be compiled or read here, or another text of it was measured.
    """
    variant = discover()[ablations.variant]
    gravity = find(GRAVITY)
    before = {outcome.name: outcome for outcome in ablations.outcomes}
    todo, _ = changes(variant, ablations.axes, gravity, before[ORIGINAL].registers or 0)
    now = {
        change.name: change for change in [Change(ORIGINAL, "the kernel as it is", variant.cuda_source(gravity)), *todo]
    }
    outcomes: list[Outcome] = []
    first: float | None = None
    for outcome in ablations.outcomes:
        seconds = (
            None
            if outcome.predicted_seconds is None
            else _seconds(variant, ablations, outcome, now[outcome.name], rates)
        )
        first = first or seconds
        gain = first / seconds if first and seconds else None
        outcomes.append(outcome.model_copy(update={"predicted_seconds": seconds, "predicted_gain": gain}))
    return ablations.model_copy(update={"outcomes": outcomes})


def _seconds(variant: Variant, ablations: Ablations, outcome: Outcome, change: Change, rates: Peaks) -> float | None:
    """Predict the seconds of an evaluation after a change; None where no kernel of it has a loop over interactions."""
    axes = variant.complete({**ablations.axes, **change.axes})
    dtype: Dtype = "float64" if ablations.dtype == "float64" else "float32"
    architecture = f"sm_{(rates.compute_capability or '9.0').replace('.', '')}"
    multiprocessors = rates.multiprocessors or MULTIPROCESSORS
    bodies = generators.plummer(ablations.n, 1, 0.025)
    launches = launches_of(variant, axes, dtype, find(GRAVITY), bodies, multiprocessors)
    problem = Problem(ablations.n, ablations.n * ablations.n / launches.cycle)
    subject = Predicted(variant, dtype, ablations.axes, bodies, problem, rates)
    for kernel in launches.kernels:
        if kernel.stem not in launches.shapes:
            continue
        blocks, threads = launches.shapes[kernel.stem]
        shared, registers = shared_of(change.text, kernel, architecture, dtype, change.options)
        resident = occupancy(architecture, threads, outcome.registers or registers, shared).blocks
        shape = Shape(blocks, -(-threads // LANES), resident, multiprocessors)
        made = Made((kernel,), shape, launches.count, architecture, outcome.sm_clock_mhz or rates.clock)
        seconds = seconds_of(change, made, subject)
        if seconds is not None:
            return seconds
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Predict again all changes of a folder's file, and write it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gravbench.explain.predicting", description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where knock_outs.json and ceilings.json are")
    given = parser.parse_args(words)

    def work() -> None:
        if lacking := missing():
            raise InputError(lacking)
        if not (results := read_all(given.folder)):
            raise InputError(f"{given.folder}: it has no {FILE}, which `gravbench ablate` writes")
        rates = kept.read(given.folder)
        path = write([again(result, rates) for result in results], given.folder)
        sys.stdout.write(f"{path}\n")

    return exit_code_of(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
