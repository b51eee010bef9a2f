"""Which cases of a run are anchors, which are repeated to show drift and scatter, and where they stand.

The anchor of the most frequent kind of work begins and ends the run. In a run of many cases, others are beside each of
its repetitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gravbench.config.load import Sweep
from gravbench.config.settings import Measure
from gravbench.measuring.tasks import Task, estimate_seconds, evaluation_seconds
from gravbench.model.variant import Variant
from gravbench.model.work import Work, work_of
from gravbench.verdicts.ranking import grouped

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


def with_anchors(
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
    ``finished`` tells how often a task was repeated before.
    """

    def work(task: Task) -> Work:
        return work_of(task.case, on_host=variants[task.case.variant].on_host)

    def lacking(anchor: Task, times: int) -> int:
        return times - finished.get(anchor.identity, 0)

    of_work = grouped(alike, work)
    # Most of its cases first: the anchor of their work begins and ends the run.
    amounts = Counter(map(work, missing)).most_common()
    typical, *others = (on(_typical(of_work[which], variants, sweep.measure)) for which, _ in amounts)
    enough = FEWEST_REPETITIONS if len(sweep.cases) > SHORT_RUN else 0
    every = sweep.measure.anchor_every or max(ANCHOR_EVERY, -(-len(missing) // MOST_REPETITIONS))
    same_work = of_work[amounts[0][0]]
    beside = _ends(same_work, typical, sweep.measure) if many > MANY else []
    if work(typical) is Work.HOST and many > SHORT_RUN:
        beside += _last(same_work, typical, variants)
    beside = list(map(on, beside))
    chosen = {id(anchor) for anchor in (typical, *others, *beside)}
    rest = [task for task in missing if id(task) not in chosen]
    together = [replace(typical, anchor=1, fresh=True), *(replace(task, anchor=1) for task in beside)]
    tasks = list(_spread(rest, together, every, lacking(typical, enough)))
    for other, (_, cases) in zip(others, amounts[1:], strict=True):
        times = max(1 + -(-cases // every), lacking(other, enough), lacking(other, FEWEST_TO_COMPARE))
        tasks = list(_with_other_work(tasks, replace(other, anchor=1, fresh=True), times))
    return list(_numbered(tasks, finished))


def _typical(tasks: Sequence[Task], variants: Mapping[str, Variant], measure: Measure) -> Task:
    """Choose the anchor: of the tasks that take about as long as most, a simple kernel, which is compiled quickly.

    That is the lowest on the ladder, on one GPU where there is such a task, but not its foot: NumPy's temporaries make
    the time of the one for CPUs scatter.
    """
    seconds = [estimate_seconds(task.case, measure) for task in tasks]
    usual = sorted(seconds)[len(tasks) // 2]
    places = {name: (variant.parent is None, place) for place, (name, variant) in enumerate(variants.items())}
    alike = [task for task, estimate in zip(tasks, seconds, strict=True) if estimate == usual]
    return min(alike, key=lambda task: (task.case.gpus, places[task.case.variant]))


def _ends(tasks: Sequence[Task], typical: Task, measure: Measure) -> list[Task]:
    """Return the tasks of the smallest and the largest n with the variant and the toolkit of the ``typical`` one.

    The largest is one of which the budget holds ``IN_A_BUDGET`` evaluations.
    """
    most = max(measure.budget_seconds / IN_A_BUDGET, evaluation_seconds(typical.case))
    alike = [task for task in tasks if _kernel(task) == _kernel(typical) and evaluation_seconds(task.case) <= most]
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


def _spread(tasks: Sequence[Task], anchors: Sequence[Task], every: int, fewest: int) -> Iterator[Task]:
    """Put ``anchors`` first, again after ``every`` tasks, and last; evenly where these times are too few.

    At least ``fewest`` times, beside each other where there are few tasks.
    """
    places = list(range(0, len(tasks), every))
    if len(places) < fewest - 1:
        places = [i * len(tasks) // (fewest - 1) for i in range(fewest - 1)]
    times = Counter([*places, len(tasks)])
    for place in range(len(tasks) + 1):
        for _ in range(times[place]):
            yield from anchors
        yield from tasks[place : place + 1]


def _with_other_work(tasks: Sequence[Task], anchor: Task, times: int) -> Iterator[Task]:
    """Put the anchor of another kind of work, two ``times`` or more, behind some of those that are there, evenly."""
    following = [*(task.anchor for task in tasks[1:]), 0]
    ends = [place for place, task in enumerate(tasks) if task.anchor and not following[place]]
    chosen = Counter(ends[round(i * (len(ends) - 1) / (times - 1))] for i in range(times))
    for place, task in enumerate(tasks):
        yield task
        for _ in range(chosen[place]):
            yield anchor


def _numbered(tasks: Iterable[Task], finished: Mapping[tuple[str, str], int]) -> Iterator[Task]:
    """Number the repetitions of each anchor, on from those that were ``finished`` before."""
    times: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        if task.anchor:
            times[task.identity] += 1
            task = replace(task, anchor=finished.get(task.identity, 0) + times[task.identity])
        yield task
