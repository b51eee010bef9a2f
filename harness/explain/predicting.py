"""Predict again what changes of a kernel bring, by the model of this checkout; what was measured stays as it is.

It needs no GPU: the shape of a launch follows from the variant, the registers of the file and the architecture.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from math import prod
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
from gravbench.explain.model import Problem
from gravbench.explain.occupancy import occupancy
from gravbench.explain.peaks import Peaks
from gravbench.explain.shape import LANES, Shape
from gravbench.explain.work import shared_of
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import Variant, discover
from gravbench.toolkits.recording import RecordedKernel, RecordingToolkit


def again(ablations: Ablations, ceilings: Peaks) -> Ablations:
    """Return what was found of a kernel with the times and gains that are predicted now, on the device of the ceilings.

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
            else _seconds(variant, ablations, outcome, now[outcome.name], ceilings)
        )
        first = first or seconds
        gain = first / seconds if first and seconds else None
        outcomes.append(outcome.model_copy(update={"predicted_seconds": seconds, "predicted_gain": gain}))
    return ablations.model_copy(update={"outcomes": outcomes})


def _seconds(variant: Variant, ablations: Ablations, outcome: Outcome, change: Change, ceilings: Peaks) -> float | None:
    axes = variant.complete({**ablations.axes, **change.axes})
    architecture = f"sm_{(ceilings.compute_capability or '9.0').replace('.', '')}"
    toolkit = RecordingToolkit(ablations.dtype, find(GRAVITY), ceilings.multiprocessors or 132)  # type: ignore[arg-type]
    bodies = generators.plummer(ablations.n, 1, 0.025)
    prepared = variant.prepare(toolkit, bodies, **axes)
    toolkit.launched.clear()
    with contextlib.suppress(Exception):  # what looks at results that were not computed
        prepared.launch()
    launched = {stem: arguments[:2] for stem, arguments in reversed(toolkit.launched)}
    for kernel in toolkit.kernels:
        if kernel.stem not in launched:
            continue
        blocks, threads = (prod(each) if isinstance(each, tuple) else int(each) for each in launched[kernel.stem])
        shape = _shape(kernel, change, ablations, outcome, architecture, blocks, threads, toolkit.multiprocessors)
        made = Made(
            (kernel,), shape, max(len(toolkit.launched), prepared.kernels), architecture,
            outcome.sm_clock_mhz or ceilings.clock
        )  # fmt: skip
        problem = Problem(ablations.n, ablations.n * ablations.n / prepared.cycle)
        subject = Predicted(variant, ablations.dtype, ablations.axes, bodies, problem, ceilings)  # type: ignore[arg-type]
        seconds = seconds_of(change, made, subject)
        if seconds is not None:
            return seconds
    return None


def _shape(
    kernel: RecordedKernel,
    change: Change,
    ablations: Ablations,
    outcome: Outcome,
    architecture: str,
    blocks: int,
    threads: int,
    many: int,
) -> Shape:
    shared, registers = shared_of(change.text, kernel, architecture, ablations.dtype, change.options)
    resident = occupancy(architecture, threads, outcome.registers or registers, shared).blocks
    return Shape(blocks, -(-threads // LANES), resident, many)


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
        ceilings = kept.read(given.folder)
        path = write([again(result, ceilings) for result in results], given.folder)
        sys.stdout.write(f"{path}\n")

    return exit_code_of(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
