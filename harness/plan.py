"""What a run will do: which case on which device, in which order, and what an earlier run has done already."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness import bodies as initial_conditions
from harness import environment
from harness.config.load import Sweep, estimate_seconds
from harness.devices import CPU, Device
from harness.record import Case, Fingerprint, Record
from harness.toolkits.catalogue import CATALOGUE
from harness.variant import discover


@dataclass(frozen=True, slots=True)
class Task:
    """One case on one device; without a device, ``skip`` says why it will not run; ``anchor`` as in ``Record``."""

    case: Case
    fingerprint: Fingerprint
    device: Device | None = None
    skip: str | None = None
    anchor: int = 0


@dataclass(slots=True)
class Plan:
    """What a run will do, in order, and how many of its cases an earlier run has done already."""

    tasks: list[Task]
    reused: int = 0


def plan(
    sweep: Sweep,
    devices: Sequence[Device],
    no_gpu: str | None,
    existing: Sequence[Record] = (),
    *,
    chosen: bool = False,
    anchors: bool = True,
) -> Plan:
    """Pair cases with devices, leave out what ``existing`` records have, shuffle, and put the anchors in.

    ``no_gpu`` says why there is no GPU, None where there is one. Where the devices were ``chosen`` by hand, cases
    for other devices are left out instead of being recorded as skipped.

    An existing result is reused when it was ok or invalid and made from the same bodies, source, flags, toolkit,
    driver and device; what failed or was skipped is tried again.
    """
    result = Plan([])
    by_device: dict[str, list[Task]] = {}
    variants = discover(sweep.variant_folders)
    for case in sweep.cases:
        fitting = [device for device in devices if device.is_gpu == (case.toolkit != CPU)]
        reason = CATALOGUE[case.toolkit].missing if fitting else no_gpu or "no device was chosen that runs it"
        if reason:
            if fitting or not chosen:
                print_of = environment.fingerprint(case, variants[case.variant], None)
                result.tasks.append(Task(case, print_of, skip=reason))
            continue
        for device in fitting:
            task = Task(case, environment.fingerprint(case, variants[case.variant], device), device)
            by_device.setdefault(device.selector, []).append(task)

    finished = _Finished(existing)
    shuffler = random.Random(sweep.measure.order_seed)
    for own in by_device.values():
        shuffler.shuffle(own)
        missing = [task for task in own if not finished.has(task)]
        result.reused += len(own) - len(missing)
        if anchors and len(missing) > 1:
            typical = sorted(own, key=lambda task: estimate_seconds(task.case, sweep.measure))[len(own) // 2]
            missing = list(_with_anchors(missing, typical, sweep.measure.anchor_every, finished.repetitions(typical)))
        result.tasks += missing
    return result


class _Finished:
    """What earlier records have, by the case and all that its result depends on."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records: dict[tuple[str, str], list[Record]] = {}
        for record in records:
            if record.status in ("ok", "invalid"):
                same = (record.key, Fingerprint(**record.fingerprint).model_dump_json())
                self.records.setdefault(same, []).append(record)

    def _of(self, task: Task) -> list[Record]:
        return self.records.get((task.case.key, task.fingerprint.model_dump_json()), [])

    def has(self, task: Task) -> bool:
        found = self._of(task)
        if not found or task.case.bodies in initial_conditions.GENERATORS:
            return bool(found)
        # A file may have been edited, or be another of the same name.
        case = task.case
        bodies = initial_conditions.load(case.bodies, case.n, case.seed, case.eps, case.subset)
        return any(record.bodies_sha256 == bodies.sha256 for record in found)

    def repetitions(self, task: Task) -> int:
        return max((record.anchor for record in self._of(task)), default=0)


def _with_anchors(tasks: list[Task], typical: Task, every: int, repetitions: int) -> Iterator[Task]:
    """Put the ``typical`` task first, again after ``every`` others, and last."""
    others = [task for task in tasks if task is not typical]
    for position, task in enumerate(others):
        if position % every == 0:
            repetitions += 1
            yield replace(typical, anchor=repetitions)
        yield task
    yield replace(typical, anchor=repetitions + 1)
