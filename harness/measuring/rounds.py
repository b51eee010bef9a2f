"""Measure a sweep several times, each round a whole run of its own: what the self-test judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gravbench.config.load import Sweep
from gravbench.errors import InputError
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.measuring.progress import ConsoleWatcher
from gravbench.model.device import Device
from gravbench.verdicts.selftest import round_folder


def measure_rounds(
    sweep: Sweep,
    devices: list[Device],
    no_gpu: str | None,
    rounds: int,
    out: Path,
    arguments: Sequence[str],
    console: Console,
) -> None:
    """Measure a sweep in ``rounds`` folders below ``out``, each with processes and an order of its own.

    ``no_gpu`` says why there is no GPU among the devices; ``arguments`` are those of the ``gravbench`` command.

    Raises:
        InputError: ``out`` has rounds already.
    """
    if round_folder(out, 1).exists():
        raise InputError(f"--out {out}: it has rounds already; judge them with --from {out}, or name another folder")
    for number in range(1, rounds + 1):
        folder = round_folder(out, number)
        seed = sweep.measure.order_seed + number - 1
        own = replace(sweep, measure=sweep.measure.model_copy(update={"order_seed": seed}))
        todo = plan(own, devices, no_gpu, chosen=True)
        console.print(f"round {number} of {rounds}", markup=False)
        runner.open_run(folder, resume=False)
        runner.write_environment(folder, devices, arguments, sweep)
        with ConsoleWatcher(console, todo.estimates) as watcher:
            runner.run(own, todo, folder, watcher)
