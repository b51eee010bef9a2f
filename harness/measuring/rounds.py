"""Measure a sweep several times, each round a whole run of its own: what the self-test judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gravbench.config.load import Sweep
from gravbench.errors import InputError
from gravbench.measuring import runner
from gravbench.measuring.plan import Plan, plan
from gravbench.measuring.progress import ConsoleWatcher
from gravbench.model.device import Device
from gravbench.verdicts.selftest import round_folder

Round = tuple[Sweep, Plan]


def plan_rounds(sweep: Sweep, devices: list[Device], no_gpu: str | None, rounds: int) -> list[Round]:
    """Plan a sweep ``rounds`` times, each time in an order of its own.

    ``no_gpu`` says why there is no GPU among the devices.

    Raises:
        InputError: the sweep has no case for the devices.
    """
    planned = []
    for number in range(rounds):
        own = sweep.measure.model_copy(update={"order_seed": sweep.measure.order_seed + number})
        shuffled = replace(sweep, measure=own)
        planned.append((shuffled, plan(shuffled, devices, no_gpu, chosen=True)))
    return planned


def measure_rounds(
    rounds: Sequence[Round], devices: list[Device], out: Path, arguments: Sequence[str], console: Console
) -> None:
    """Measure each round in a folder of its own below ``out``, with processes of its own.

    ``arguments`` are those of the ``gravbench`` command.

    Raises:
        InputError: ``out`` has rounds already, another process writes to one, or they cannot be written.
    """
    if round_folder(out, 1).exists():
        raise InputError(f"--out {out}: it has rounds already; judge them with --from {out}, or name another folder")
    for number, (sweep, todo) in enumerate(rounds, 1):
        folder = round_folder(out, number)
        existing = runner.recorded(folder, resume=False)
        console.print(f"round {number} of {len(rounds)}", markup=False)
        with (
            runner.open_run(folder, existing, devices, arguments, sweep) as (store, _),
            ConsoleWatcher(console) as watcher,
        ):
            runner.run(sweep, todo, store, watcher)
