"""Evaluate each of some cases once, under a profiler: ``python -m gravbench.explain.ncu_target CASES.json``.

The toolkit's holding kernel runs before each case, and marks in the profiler's list where the case begins.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import initial_conditions, interaction_files
from gravbench.model.case import Case
from gravbench.model.variant import discover
from gravbench.toolkits.interface import GpuToolkit
from gravbench.toolkits.opening import open_toolkit


def evaluate(cases: list[Case], folders: tuple[Path, ...]) -> None:
    """Launch each case's variant once and wait for it; what fails stops the rest."""
    for case in cases:
        variant = discover(folders)[case.variant]
        bodies = initial_conditions.of_case(case)
        toolkit = open_toolkit(case.toolkit, variant, case.dtype, interaction_files.find(case.interaction))
        if not isinstance(toolkit, GpuToolkit):
            raise InputError(f"{case.toolkit} cannot run the holding kernel that tells its cases apart")
        toolkit.hold(1)
        prepared = variant.prepare(toolkit, bodies, **case.axes)
        prepared.launch()
        toolkit.synchronize()


if __name__ == "__main__":
    request = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    evaluate([Case(**case) for case in request["cases"]], tuple(Path(folder) for folder in request["folders"]))
