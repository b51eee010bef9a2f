"""Measure a sweep several times, or once on each of several cards: what the self-test judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gravbench.config.load import Sweep
from gravbench.config.search import Search
from gravbench.errors import InputError
from gravbench.measuring import runner
from gravbench.measuring.plan import Plan, kinds, plan
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
        measure = sweep.measure.model_copy(update={"order_seed": sweep.measure.order_seed + number})
        shuffled = replace(sweep, measure=measure)
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
        raise InputError(f"--out {out}: it already has rounds; judge them with --from {out}, or name another folder")
    for number, planned in enumerate(rounds, 1):
        console.print(f"round {number} of {len(rounds)}", markup=False)
        measure_round(planned, devices, round_folder(out, number), arguments, console)


def plan_on_each(sweep: Sweep, devices: Sequence[Device], no_gpu: str | None) -> tuple[Round, list[Device]]:
    """Plan every case of a sweep on each of the GPUs among ``devices`` that are of one kind with another; return these.

    ``no_gpu`` says why there is no GPU among the devices.

    Raises:
        InputError: no two GPUs are of one kind, or the sweep has no case for them.
    """
    by_kind = kinds([device for device in devices if device.is_gpu])
    cards = [device for kind in by_kind if len(kind) > 1 for device in kind]
    if not cards:
        there = ", ".join(f"{kind[0].selector} ({kind[0].name})" for kind in by_kind)
        why = f"there is only one of each kind, {there}" if there else no_gpu or "no GPU was chosen"
        raise InputError(f"--across-devices needs two GPUs of one kind (the same name and driver): {why}")
    # A search would ask for each case once.
    whole = replace(sweep, search=Search())
    return (whole, plan(whole, cards, None, chosen=True, each=True)), cards


def measure_round(
    planned: Round, devices: list[Device], folder: Path, arguments: Sequence[str], console: Console
) -> None:
    """Measure what is planned as one run in a folder.

    ``arguments`` are those of the ``gravbench`` command.

    Raises:
        InputError: the folder has records already, cannot be written, or another process writes to it.
    """
    sweep, todo = planned
    existing = runner.recorded(folder, resume=False)
    with (
        runner.open_run(folder, existing, devices, arguments, sweep) as (store, _),
        ConsoleWatcher(console) as watcher,
    ):
        runner.run(sweep, todo, store, watcher)
