"""What a run will do: which case on which device, in which order, and what an earlier run has done already."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gravbench.config.load import Sweep
from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.anchors import with_anchors
from gravbench.measuring.tasks import Task, estimate_seconds
from gravbench.model.case import Case
from gravbench.model.device import Device, Kind
from gravbench.model.record import Fingerprint, Record
from gravbench.model.toolkits import catalogue, place_of
from gravbench.model.variant import Variant, discover
from gravbench.toolkits.devices import families, family, others_like, too_few

Prints = Callable[[Case, "Device | None"], Fingerprint]
"""Tells what the result of a case on a device depends on."""
NONE_CHOSEN = "none of the chosen devices can run it"


@dataclass(slots=True)
class Plan:
    """What a run will do, in order, how many of its cases an earlier run has done already, and by which processes.

    ``processes`` is the last number of those that have measured something. With ``each`` every device measures all of
    its cases, and takes over none of another. ``contests`` are all cases by the kind of device that measures them,
    ``known`` the records that are reused. Cases are ``left_out`` where devices were chosen by hand and none of them is
    fit.
    """

    measure: Measure
    tasks: list[Task] = field(default_factory=list)
    reused_tasks: set[tuple[str, str]] = field(default_factory=set)
    """Their identities. An anchor among them is still repeated."""
    processes: int = 0
    contests: dict[Kind, list[Case]] = field(default_factory=dict)
    known: list[Record] = field(default_factory=list)
    each: bool = False
    left_out: list[Case] = field(default_factory=list)

    @property
    def planned(self) -> int:
        """How many results there are when it has run: one for each case on each device, those reused included."""
        return len(self.reused_tasks | {task.identity for task in self.tasks})

    @property
    def reused(self) -> int:
        """How many results of an earlier run it takes over."""
        return len(self.reused_tasks)

    @property
    def estimates(self) -> list[float]:
        """Guess the seconds that each task takes; see ``estimate_seconds``."""
        return [0.0 if task.skip else estimate_seconds(task.case, self.measure) for task in self.tasks]


def plan(
    sweep: Sweep,
    devices: Sequence[Device],
    no_gpu: str | None,
    existing: Sequence[Record] = (),
    *,
    chosen: bool = False,
    anchors: bool = True,
    each: bool = False,
) -> Plan:
    """Pair cases with devices, leave out what ``existing`` records have, shuffle, and put the anchors in.

    Devices of one kind share the cases, about the same time for each; with ``each`` every one of them measures all.
    Each device with several cases to measure repeats an anchor of each kind of work that they have (the GPU, the host,
    or both), cards of one kind the same cases, by which they can be compared. Where it has many, the variant of the
    anchor of most of them is repeated at the smallest and at the largest n too.

    ``no_gpu`` says why there is no GPU, None where there is one. Where the devices were ``chosen`` by hand, cases for
    other devices are left out instead of being skipped. A case that asks for more GPUs than a host has is skipped.

    An existing result is reused when it was ok or invalid and made from the same bodies, source, flags, toolkit,
    driver and device; what failed or was skipped is tried again.

    Raises:
        InputError: the sweep has no case for the chosen devices.
    """
    processes = max((max(record.processes, default=0) for record in existing), default=0)
    result = Plan(sweep.measure, processes=processes, each=each)
    variants = discover(sweep.variant_folders)
    fingerprint = _fingerprints(variants)
    # What was outraced is known for a search alone.
    usable = [record for record in existing if sweep.search.strategy != "all" or not record.outraced]
    finished = _finished(usable)
    fitting = list(_fitting(sweep, devices, no_gpu, fingerprint, result, chosen=chosen))
    random.Random(sweep.measure.order_seed).shuffle(fitting)
    by_device, by_kind = _dealt(fitting, sweep, fingerprint, finished, result)
    if not by_device and not result.tasks:
        where = " ".join(f"--device {device.selector}" for device in devices) or "no device"
        toolkits = ", ".join(sorted({case.toolkit for case in sweep.cases}, key=place_of))
        raise InputError(f"{where}: no case of {sweep.path} runs on it; the sweep needs a device for {toolkits}")

    for device, tasks in by_device.items():
        missing = [task for task in tasks if task.identity not in finished]
        result.reused_tasks |= {task.identity for task in tasks if task.identity in finished}
        done = {task.case.key for task in tasks} - {task.case.key for task in missing}
        result.known += [record for record in usable if record.key in done]
        if anchors and len(missing) > 1:
            # Without a UUID records do not tell devices of one kind apart.
            alike = by_kind[device.kind] if device.uuid else tasks
            there = partial(_on, device, tasks, fingerprint)
            missing = with_anchors(missing, alike, sweep, variants, finished, there, many=len(tasks))
        result.tasks += missing
    return result


def _on(device: Device, tasks: Sequence[Task], fingerprint: Prints, task: Task) -> Task:
    """Return a task as one of a device, which may have it among its ``tasks`` already."""
    same = (other for other in tasks if other.case is task.case)
    return next(same, None) or replace(task, device=device, fingerprint=fingerprint(task.case, device))


def _fingerprints(variants: Mapping[str, Variant]) -> Prints:
    """Return what tells the fingerprint of a case on a device, and computes each once."""
    known: dict[tuple[object, ...], Fingerprint] = {}

    def fingerprint(case: Case, device: Device | None) -> Fingerprint:
        key = case.variant, case.toolkit, case.interaction, case.timed, device
        if key not in known:
            known[key] = environment.fingerprint(case, variants[case.variant], device)
        return known[key]

    return fingerprint


def _fitting(
    sweep: Sweep, devices: Sequence[Device], no_gpu: str | None, fingerprint: Prints, result: Plan, *, chosen: bool
) -> Iterator[tuple[Case, list[Device]]]:
    """Yield each case with the devices that can run it; the others become skipped, or are left out."""
    on_host = {device: 1 + len(others_like(device)) for device in devices if any(case.gpus > 1 for case in sweep.cases)}
    there = {device.family for device in devices}
    toolkits = {case.toolkit for case in sweep.cases}
    without = {name: _why_none(name, no_gpu) for name in toolkits if catalogue()[name].family not in there}
    for case in sweep.cases:
        fitting = [device for device in devices if device.family == catalogue()[case.toolkit].family]
        reason = catalogue()[case.toolkit].missing if fitting else without[case.toolkit]
        if not reason and case.gpus > 1:
            most = max(on_host[device] for device in fitting)
            reason = too_few(case.gpus, most) if most < case.gpus else None
            fitting = [device for device in fitting if on_host[device] >= case.gpus]
        if not reason:
            yield case, fitting
        elif fitting or not chosen:
            result.tasks.append(Task(case, fingerprint(case, None), skip=reason))
        else:
            result.left_out.append(case)


def _why_none(toolkit: str, no_gpu: str | None) -> str:
    """Say why there is no device for a toolkit; ``no_gpu`` says it of the first family of GPUs, where there is none."""
    entry = catalogue()[toolkit]
    if entry.family == families()[0]:
        return no_gpu or NONE_CHOSEN
    devices, reason = family(entry.family).devices()
    named_only = f"the command names none of its devices; accepted: --device {devices[0].selector}" if devices else ""
    return entry.missing or reason or named_only or NONE_CHOSEN


def _dealt(
    fitting: Sequence[tuple[Case, list[Device]]],
    sweep: Sweep,
    fingerprint: Prints,
    finished: Mapping[tuple[str, str], int],
    result: Plan,
) -> tuple[dict[Device, list[Task]], dict[Kind, list[Task]]]:
    """Deal cases to devices, about the same time to each of a kind; return the tasks by device and by kind."""
    loads: dict[Device, float] = defaultdict(float)
    by_device: dict[Device, list[Task]] = {}
    by_kind: dict[Kind, list[Task]] = defaultdict(list)
    for case, able in fitting:
        for alike in [[device] for device in able] if result.each else kinds(able):
            tasks = {device: Task(case, fingerprint(case, device), device) for device in alike}
            result.contests.setdefault(alike[0].kind, []).append(case)
            has_it = next((device for device, task in tasks.items() if task.identity in finished), None)
            # What nobody has done yet is for whoever has least to do.
            device = has_it or min(tasks, key=lambda device: loads[device])
            loads[device] += 0 if has_it else estimate_seconds(case, sweep.measure)
            by_device.setdefault(device, []).append(tasks[device])
            by_kind[device.kind].append(tasks[device])
    return by_device, by_kind


def kinds(devices: Sequence[Device]) -> list[list[Device]]:
    """Group devices that a case may be measured on alike: of the same name and driver."""
    by_kind: dict[Kind, list[Device]] = {}
    for device in devices:
        by_kind.setdefault(device.kind, []).append(device)
    return list(by_kind.values())


def _finished(records: Sequence[Record]) -> dict[tuple[str, str], int]:
    """Find the identity of every task that has a result, and how often it was repeated as an anchor.

    Without the first of them, repetitions of an anchor are no result.
    """
    repeated: dict[tuple[str, str], int] = {}
    having: set[tuple[str, str]] = set()
    for record in records:
        if record.status in ("ok", "invalid"):
            same = record.key, Fingerprint(**record.fingerprint).model_dump_json()
            repeated[same] = max(record.anchor, repeated.get(same, 0))
            if record.anchor <= 1:
                having.add(same)
    return {same: times for same, times in repeated.items() if same in having}
