"""What a run will do: which case on which device, in which order, and what an earlier run has done already."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gravbench.config.load import Sweep
from gravbench.config.settings import DRIFT_STEPS, FEWEST_SAMPLES, Measure
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.model.case import Case
from gravbench.model.device import Device, Kind
from gravbench.model.record import Fingerprint, Record
from gravbench.model.toolkits import catalogue, place_of
from gravbench.model.variant import CPU, Variant, discover
from gravbench.model.work import Work, work_of
from gravbench.toolkits.devices import others_like, too_few
from gravbench.verdicts.ranking import grouped
from gravbench.verifying.conserved import is_measured
from gravbench.verifying.verify import ALL_ROWS_ON_GPU, ALL_ROWS_UP_TO

# What estimate_seconds assumes, on the slow side.
CPU_INTERACTIONS_PER_SECOND = 2e8
GPU_INTERACTIONS_PER_SECOND = 1e12
REFERENCE_INTERACTIONS_PER_SECOND = 5e8
GPU_REFERENCE_INTERACTIONS_PER_SECOND = 2e11
LAUNCHES_JUDGED = 6
"""Beside those that are timed, where a launch takes long."""
COMPILE_SECONDS = 2.0

MANY = 30
"""Cases above which anchors at the smallest and the largest n cost little."""
IN_A_BUDGET = 20
"""Evaluations that a case's budget has to hold for it to be an anchor at the largest n: fewer bound no drift."""
ANCHOR_EVERY = 10
"""Cases between two repetitions of the anchor where the config does not say; more in a run of many cases."""
SHORT_RUN = 10
"""Cases up to which a run may have few repetitions of its anchor."""
FEWEST_TO_COMPARE = 2
"""Repetitions of the anchor of each kind of work, in a run of any length."""
FEWEST_REPETITIONS = 5
"""Of the anchor in a longer run, whatever ``anchor_every`` is: the scatter of two medians is all but unknown."""
MOST_REPETITIONS = 20
"""Of the anchor, about, where the config does not say how often: more would hardly tell its scatter better."""


Prints = Callable[[Case, "Device | None"], Fingerprint]
"""Tells what the result of a case on a device depends on."""


@dataclass(frozen=True, slots=True)
class Task:
    """One case on one device; without a device, ``skip`` says why it will not run; ``anchor`` as in ``Record``.

    ``fresh`` asks for processes that have not measured this case; they go on with those after it.
    """

    case: Case
    fingerprint: Fingerprint
    device: Device | None = None
    skip: str | None = None
    anchor: int = 0
    fresh: bool = False

    @property
    def identity(self) -> tuple[str, str]:
        """The case and everything that its result depends on."""
        return self.case.key, self.fingerprint.model_dump_json()


@dataclass(slots=True)
class Plan:
    """What a run will do, in order, how many of its cases an earlier run has done already, and by which processes.

    ``processes`` is the last number of those that have measured something. With ``each`` every device measures all of
    its cases, and takes over none of another. ``contests`` are all cases by the kind of
    device that measures them, ``known`` the records that are reused. Cases are ``left_out`` where devices were chosen
    by hand and none of them is fit.
    """

    measure: Measure
    tasks: list[Task] = field(default_factory=list)
    reused: int = 0
    processes: int = 0
    contests: dict[Kind, list[Case]] = field(default_factory=dict)
    known: list[Record] = field(default_factory=list)
    each: bool = False
    left_out: list[Case] = field(default_factory=list)

    @property
    def planned(self) -> int:
        """How many results there are when it has run: one for each case on each device, those reused included."""
        return self.reused + len({task.identity for task in self.tasks})

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
    anchor of most of them is repeated at the smallest and at the largest n too: at both each time, or in turns where
    that takes long.

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

    def on(task: Task, device: Device) -> Task:
        if task.device == device:
            return task
        # One of the same kind may have it already.
        same = (other for other in by_device[device] if other.case is task.case)
        return next(same, None) or replace(task, device=device, fingerprint=fingerprint(task.case, device))

    for device, tasks in by_device.items():
        missing = [task for task in tasks if task.identity not in finished]
        result.reused += len(tasks) - len(missing)
        done = {task.case.key for task in tasks} - {task.case.key for task in missing}
        result.known += [record for record in usable if record.key in done]
        if anchors and len(missing) > 1:
            # Without a UUID records do not tell devices of one kind apart.
            alike = by_kind[device.kind] if device.uuid else tasks
            missing = _anchored(missing, alike, sweep, variants, finished, partial(on, device=device), many=len(tasks))
        result.tasks += missing
    return result


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
    for case in sweep.cases:
        fitting = [device for device in devices if device.is_gpu == (case.toolkit != CPU)]
        reason = catalogue()[case.toolkit].missing if fitting else no_gpu or "none of the chosen devices can run it"
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
    found: dict[Kind, list[Device]] = {}
    for device in devices:
        found.setdefault(device.kind, []).append(device)
    return list(found.values())


def _anchored(
    missing: Sequence[Task],
    alike: Sequence[Task],
    sweep: Sweep,
    variants: Mapping[str, Variant],
    finished: Mapping[tuple[str, str], int],
    on: Callable[[Task], Task],
    *,
    many: int,
) -> list[Task]:
    """Put anchors of each kind of work among the ``missing`` tasks of a device, which has so ``many`` in all.

    They are chosen from the tasks of all devices that are ``alike``; ``on`` returns a task as one of this device.
    """

    def work(task: Task) -> Work:
        return work_of(task.case, on_host=variants[task.case.variant].on_host)

    of_work = grouped(alike, work)
    # Most of its cases first: the anchor of their work begins and ends the run.
    amounts = Counter(map(work, missing)).most_common()
    typical, *others = (on(_typical(of_work[which], variants, sweep.measure)) for which, _ in amounts)
    before = finished.get(typical.identity, 0)
    enough = FEWEST_REPETITIONS if len(sweep.cases) > SHORT_RUN else 0
    every = sweep.measure.anchor_every or max(ANCHOR_EVERY, -(-len(missing) // MOST_REPETITIONS))
    same_work = of_work[amounts[0][0]]
    beside = _ends(same_work, typical, sweep.measure) if many > MANY else []
    if work(typical) is Work.HOST and many > SHORT_RUN:
        beside += _last(same_work, typical, variants)
    anchored = list(
        _with_others(_with_anchors(missing, typical, every, before, enough - before), list(map(on, beside)), finished)
    )
    for other, (_, cases) in zip(others, amounts[1:], strict=True):
        before = finished.get(other.identity, 0)
        times = max(1 + -(-cases // every), enough - before, FEWEST_TO_COMPARE - before)
        anchored = list(_with_anchors_of_other_work(anchored, other, times, before))
    return anchored


def _typical(tasks: Sequence[Task], variants: Mapping[str, Variant], measure: Measure) -> Task:
    """Choose the anchor: of the tasks that take about as long as most, a simple kernel, which is compiled quickly.

    That is the lowest on the ladder, on one GPU where there is such a task, but not its foot: NumPy's temporaries make
    the time of the one for CPUs scatter.
    """
    seconds = [estimate_seconds(task.case, measure) for task in tasks]
    usual = sorted(seconds)[len(tasks) // 2]
    places = {name: (variant.parent is None, place) for place, (name, variant) in enumerate(variants.items())}
    alike = [task for task, own in zip(tasks, seconds, strict=True) if own == usual]
    return min(alike, key=lambda task: (task.case.gpus, places[task.case.variant]))


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


def _with_anchors(tasks: Sequence[Task], typical: Task, every: int, before: int, fewest: int) -> Iterator[Task]:
    """Put the ``typical`` task first, again after ``every`` others, and last; evenly where these are too few.

    It has been repeated ``before`` times; at least ``fewest`` are added, beside each other where there are few others.
    """
    others = [task for task in tasks if task is not typical]
    places = list(range(0, len(others), every))
    if len(places) < fewest - 1:
        places = [i * len(others) // (fewest - 1) for i in range(fewest - 1)]
    numbers = itertools.count(before + 1)
    repeated = Counter([*places, len(others)])
    for position in range(len(others) + 1):
        for _ in range(repeated[position]):
            yield replace(typical, anchor=next(numbers), fresh=True)
        yield from others[position : position + 1]


def _ends(tasks: Sequence[Task], typical: Task, measure: Measure) -> list[Task]:
    """Return the tasks of the smallest and the largest n with the variant and the toolkit of the ``typical`` one.

    The largest is one of which the budget holds ``IN_A_BUDGET`` evaluations.
    """
    most = max(measure.budget_seconds / IN_A_BUDGET, _evaluation_seconds(typical.case))
    alike = [task for task in tasks if _kernel(task) == _kernel(typical) and _evaluation_seconds(task.case) <= most]
    ends = [choose(alike, key=lambda task: task.case.n) for choose in (min, max)]
    return [task for task in ends if task.case.n != typical.case.n]


def _last(tasks: Sequence[Task], typical: Task, variants: Mapping[str, Variant]) -> list[Task]:
    """Return the task with the last variant of the ladder that is at the n of the ``typical`` one, where it is another.

    It is for processors: the variants far down use all cores, and differ between processes by more on a busy machine.
    """
    places = {name: place for place, name in enumerate(variants)}
    last = max((task for task in tasks if task.case.n == typical.case.n), key=lambda task: places[task.case.variant])
    return [] if _kernel(last) == _kernel(typical) else [last]


def _kernel(task: Task) -> tuple[str, str, int]:
    return task.case.variant, task.case.toolkit, task.case.gpus


def _with_others(
    tasks: Iterable[Task], others: Sequence[Task], finished: Mapping[tuple[str, str], int]
) -> Iterator[Task]:
    """Put other tasks after each repetition of the anchor; these are anchors too."""
    numbered = [(other, itertools.count(finished.get(other.identity, 0) + 1)) for other in others]
    for task in tasks:
        if any(task is other for other in others):
            continue
        yield task
        if task.anchor:
            for other, numbers in numbered:
                yield replace(other, anchor=next(numbers))


def _with_anchors_of_other_work(tasks: Sequence[Task], other: Task, times: int, before: int) -> Iterator[Task]:
    """Put the anchor of another kind of work ``times`` behind repetitions of the first, evenly from first to last.

    It has been repeated ``before`` times; ``times`` is two or more.
    """
    following = [*tasks[1:], None]
    behind = [
        place for place, task in enumerate(tasks) if task.anchor and not ((after := following[place]) and after.anchor)
    ]
    chosen = Counter(behind[round(i * (len(behind) - 1) / (times - 1))] for i in range(times))
    numbers = itertools.count(before + 1)
    for place, task in enumerate(tasks):
        if task is not other:
            yield task
        for _ in range(chosen[place]):
            yield replace(other, anchor=next(numbers), fresh=True)


def estimate_seconds(case: Case, measure: Measure) -> float:
    """Estimate, roughly and on the high side, how long a case takes from compiling to its record, in all processes.

    It knows nothing of the device: the speeds it assumes are the constants of this module.
    """
    evaluation = _evaluation_seconds(case)
    verifying = LAUNCHES_JUDGED * evaluation + case.n * (
        min(case.n, ALL_ROWS_UP_TO) / REFERENCE_INTERACTIONS_PER_SECOND
        if case.toolkit == CPU
        else min(case.n, ALL_ROWS_ON_GPU) / GPU_REFERENCE_INTERACTIONS_PER_SECOND
    )
    if case.timed == "step":
        verifying += evaluation * (DRIFT_STEPS if is_measured(case.n, lambda: evaluation) else 1)
    warming_up = max(measure.warm_up_seconds, evaluation)
    # A sample that has begun is finished, and a few are taken whatever the budget.
    least = FEWEST_SAMPLES * evaluation
    processes = min(measure.processes_on(gpu=case.toolkit != CPU), math.ceil(measure.budget_seconds / least))
    sampling = max(measure.budget_seconds / processes, least) + evaluation
    return processes * min(COMPILE_SECONDS + verifying + warming_up + sampling, measure.timeout_seconds)


def _evaluation_seconds(case: Case) -> float:
    """Estimate how long one evaluation takes."""
    return case.interactions / (CPU_INTERACTIONS_PER_SECOND if case.toolkit == CPU else GPU_INTERACTIONS_PER_SECOND)
