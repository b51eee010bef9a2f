"""Split a sweep over hosts: each host finds its own part, the same whatever devices any of them has."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.config.load import Sweep
from gravbench.errors import InputError, shortened
from gravbench.measuring.tasks import estimate_seconds
from gravbench.model import runs
from gravbench.model.case import Case
from gravbench.model.extent import Extent
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.shard import Shard
from gravbench.model.variant import CPU

MOST_OF_A_COMMAND = 300
"""Characters of a command that a sentence repeats."""


def take(sweep: Sweep, shard: Shard) -> Sweep:
    """Return the part of a sweep that is this shard: every case of the sweep is in exactly one of them.

    The cases of GPUs, then those of processors, are dealt out from the longest to the shortest by ``estimate_seconds``,
    equally long ones in an order that their keys and ``order_seed`` decide. So the shards have equally many cases but
    for one, and of each kind the estimates of two shards differ by no more than the longest case.

    Raises:
        InputError: the sweep has fewer cases than shards.
    """
    if shard.count > len(sweep.cases):
        raise InputError(
            f"--shard {shard}: {sweep.path} has {len(sweep.cases)} cases; accepted: K/N with N up to {len(sweep.cases)}"
        )
    keys = {case.key for case in dealt(sweep)[shard.number - 1 :: shard.count]}
    cases = [case for case in sweep.cases if case.key in keys]
    return replace(sweep, cases=cases, shard=shard, whole=tuple(sweep.cases))


def dealt(sweep: Sweep) -> list[Case]:
    """Return all cases of a sweep in the order in which its shards take them in turns."""
    seed = sweep.measure.order_seed

    def place(case: Case) -> tuple[bool, float, str]:
        shuffled = hashlib.sha256(f"{seed} {case.key}".encode()).hexdigest()
        return case.toolkit == CPU, -estimate_seconds(case, sweep.measure), shuffled

    return sorted(sweep.whole or sweep.cases, key=place)


def extent(sweep: Sweep, left_out: Iterable[Case] = ()) -> Extent:
    """Return what a run of the sweep is to measure, without the cases that are ``left_out``."""
    keys = [case.key for case in dealt(sweep)]
    rest = [case.key for case in left_out]
    return Extent.of(keys, rest, sweep.measure_of_all_hosts, sweep.flops_per_interaction)


def check_resumed(folder: Path, sweep: Sweep) -> None:
    """Make sure that a run which goes on in ``folder`` measures the sweep, and the part of it, that was begun there.

    How a search chooses among the cases, and the limits on memory and log, may be others.

    Raises:
        InputError: the folder has another sweep, another shard, or shards merged; the sentence says how they differ.
    """
    entries = runs.starts(folder)
    asked_for = str(sweep.shard) if sweep.shard else None
    begun = {entry.get("shard") for entry in entries if isinstance(entry.get("shard"), str | None)}
    if begun - {asked_for}:
        if len(begun) > 1:
            has, advice = "several shards", "resume the runs that it was merged from"
        elif None in begun:
            has, advice = "a whole sweep", "leave --shard out"
        else:
            has = f"shard {next(iter(begun))}"
            advice = f"add --{has}"
        which = f"shard {asked_for}" if asked_for else "a whole sweep"
        raise InputError(
            f"{folder / ENVIRONMENT}: the run there is of {has}, not of {which}; {advice}, or name "
            "another folder with --out"
        )
    _check_sweep(folder, entries, sweep)


def _check_sweep(folder: Path, entries: Sequence[dict[str, Any]], sweep: Sweep) -> None:
    begun = [entry for entry in entries if isinstance(entry.get("sweep_sha256"), str)]
    other = next((entry for entry in begun if entry["sweep_sha256"] != sweep.sha256), None)
    if begun and other is None:
        return
    differences = _differences(folder, other or {}, sweep)
    if not begun and not differences:
        return
    shard = f"shard {sweep.shard} of " if sweep.shard else ""
    command = next((entry["command"] for entry in entries if isinstance(entry.get("command"), str)), None)
    started = f"; it was started by `{shortened(command, MOST_OF_A_COMMAND)}`" if command else ""
    raise InputError(
        f"{folder / (ENVIRONMENT if entries else RECORDS)}: the run there is of {shard}another sweep"
        f"{': ' * bool(differences)}{'; '.join(differences[:3])}{started}; resume it with the configuration, "
        "options and files that it was started with, or name another folder with --out"
    )


def _differences(folder: Path, entry: Mapping[str, Any], sweep: Sweep) -> list[str]:
    """Say in what the sweep of a run differs: as a start of it noted, or else as far as its records tell."""
    with suppress(ValidationError):
        return list(Extent.model_validate(entry.get("sweep")).differences(extent(sweep)))
    store = RecordFile(folder)
    records = list(store.records()) if os.path.lexists(store.path) else []
    keys = {case.key for case in sweep.cases}
    strange = sum(record.key not in keys for record in records)
    differences = [f"{strange:,} of its records are of no case of this sweep"] if strange else []
    if entry:
        measure = sweep.measure_of_all_hosts
        protocols = [record.protocol for record in records if record.protocol][:1]
        differences += [
            f"measure.{name} is {value} in the run and {measure[name]} in this sweep"
            for protocol in protocols
            for name, value in protocol.items()
            if measure.get(name) not in (None, value)
        ]
    if entry and not differences:
        there = len(keys.intersection(record.key for record in records))
        differences = [f"it has results of {there:,} of the {len(keys):,} cases of this sweep"]
    return differences
