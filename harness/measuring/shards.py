"""Split a sweep over hosts: each host finds its own part, the same whatever devices any of them has."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from gravbench.config.load import Sweep
from gravbench.errors import InputError
from gravbench.measuring.plan import estimate_seconds
from gravbench.model import runs
from gravbench.model.case import Case
from gravbench.model.runs import ENVIRONMENT
from gravbench.model.shard import Shard
from gravbench.model.variant import CPU


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
    seed = sweep.measure.order_seed

    def place(case: Case) -> tuple[bool, float, str]:
        shuffled = hashlib.sha256(f"{seed} {case.key}".encode()).hexdigest()
        return case.toolkit == CPU, -estimate_seconds(case, sweep.measure), shuffled

    own = {case.key for case in sorted(sweep.cases, key=place)[shard.number - 1 :: shard.count]}
    cases = [case for case in sweep.cases if case.key in own]
    return replace(sweep, cases=cases, shard=shard, whole=tuple(sweep.cases))


def check_resumed(folder: Path, sweep: Sweep) -> None:
    """Make sure that a run which goes on in ``folder`` measures the part of the sweep that was begun there.

    Raises:
        InputError: the folder has another shard, a shard of another sweep, or shards merged.
    """
    entries = runs.starts(folder)
    own = str(sweep.shard) if sweep.shard else None
    begun = {entry.get("shard") for entry in entries if isinstance(entry.get("shard"), str | None)}
    if begun - {own}:
        if len(begun) > 1:
            has, advice = "several shards", "resume the runs that it was merged from"
        elif None in begun:
            has, advice = "a whole sweep", "leave --shard out"
        else:
            has = f"shard {next(iter(begun))}"
            advice = f"add --{has}"
        raise InputError(
            f"{folder / ENVIRONMENT}: the run there is of {has}, not of {f'shard {own}' if own else 'a whole sweep'}; "
            f"{advice}, or name another folder with --out"
        )
    if own and any(entry.get("sweep_sha256") != sweep.sha256 for entry in entries):
        raise InputError(
            f"{folder / ENVIRONMENT}: the run there is of shard {own} of another sweep, which is split differently; "
            "resume it with the configuration, options and files that it was started with, or name another folder"
        )
