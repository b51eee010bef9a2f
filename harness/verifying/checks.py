"""What right results do not show: whether what was timed is what computes them.

Each check returns a sentence that says what is wrong, and None where nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

import numpy as np

from gravbench.model.bodies import Bodies
from gravbench.model.variant import Prepared
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import DeviceToolkit

HELD_MICROSECONDS = 3_000, 50_000
"""How long the queue waits while the host looks for results that should not be there yet; longer where the first time
was over before the host had looked."""

LONGER = 2.0
"""How many times as long a launch may take for bodies that changed as for those of the launch before."""
JITTER = {True: 3e-6, False: 50e-6}
"""Seconds by which single launches differ without a reason: on a GPU's own clock, and on the host's."""
SLOW = 1.0
"""Seconds of an evaluation above which it is not repeated for a check."""
SHORT = 0.1
"""Seconds of an evaluation up to which it is repeated several times for one."""
MOST_STEPS = 8
"""Units in the last place by which a number of moved bodies is larger, one less at most."""
REPEATING_SECONDS = 0.5
"""For which launches for the same bodies are repeated at most, before one of them is timed."""

BY_THE_WALL = 0.002, 0.01, 0.05, 0.05, 0.05, 0.05
"""Seconds of launches in a row that are timed by the host's clock as well, one after another while that seems wrong."""
MORE = 1.5
"""How many times as long they may take by that clock."""
QUEUED = 512


def queue(toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies) -> str | None:
    """Launch behind a held queue: nothing may be computed while it is held, and all of it when the queue has ended.

    Leaves what the last launch computed, whether or not the host had time to look. Only for toolkits that look beside
    their queue: elsewhere there is nothing to look through.
    """
    if not toolkit.looks_beside_queue or prepared.on_host:
        return None
    result = prepared.accelerations[0] if isinstance(prepared.accelerations, tuple) else prepared.accelerations
    for microseconds in HELD_MICROSECONDS:
        buffers.spoil(toolkit, prepared, bodies)
        toolkit.synchronize()
        held = toolkit.launch_held(prepared.launch, result, microseconds)
        if held.early:
            return "it computes while the timed queue is held, so its work runs in another"
        if held.late:
            return "its results arrive after the timed queue has ended"
        if held.looked:
            break
    return None


def memory(
    toolkit: DeviceToolkit,
    prepared: Prepared,
    bodies: tuple[np.ndarray, ...],
    seconds: float,
    known: float | None = None,
    launches: int = 0,
) -> str | None:
    """Time launches for bodies that move a little in between, and for the same ones again.

    ``bodies`` are as ``buffers.host_bodies`` makes them; they are left on the device. ``seconds`` is about the time of
    a launch, ``known`` that of launches for the same bodies again, where it has been measured in so many ``launches``:
    then a single launch for others is enough, if it is no slower. Else as many come before one that is timed.
    """
    if seconds > SLOW:
        return None
    generator = np.random.default_rng()

    def again_and_again() -> None:
        until = perf_counter() + REPEATING_SECONDS
        for _ in range(launches):
            prepared.launch()
            if perf_counter() > until:
                break

    def timed(values: tuple[np.ndarray, ...]) -> float:
        buffers.write_bodies(toolkit, prepared, values)
        toolkit.synchronize()
        return toolkit.time(prepared.launch, prepared.cycle, lambda: None).seconds

    jitter = JITTER[toolkit.has_own_clock]
    again, fresh = math.inf, math.inf

    def slower() -> bool:
        return fresh > LONGER * again + jitter

    if known is not None:
        again, fresh = known, timed(_moved(bodies, generator))
    if known is None or slower():
        # Measured anew, side by side.
        few = 3 if seconds < SHORT and not SHORT < fresh < math.inf else 1
        again, fresh = math.inf, math.inf
        # Both in turns, so that what else the machine does meets both; more of them where that seems wrong.
        for many in (1, few, 3 * few, 9 * few):
            for _ in range(many):
                timed(bodies)
                again_and_again()
                again = min(again, timed(bodies))
                fresh = min(fresh, timed(_moved(bodies, generator)))
            if not slower():
                break
    buffers.write_bodies(toolkit, prepared, bodies)
    if not slower():
        return None
    return (
        f"a launch takes {fresh / again:.2g} times as long once the bodies have moved: it reuses results for bodies "
        "that it has already seen"
    )


def _moved(bodies: tuple[np.ndarray, ...], generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Move every body by a few units in the last place: what is known of most bodies is then known of none."""
    first = bodies[0]
    steps = generator.integers(1, MOST_STEPS, first.shape).astype(first.dtype)
    return (first + steps * np.spacing(np.maximum(abs(first), first.dtype.type(1e-3))), *bodies[1:])


def wall(
    toolkit: DeviceToolkit,
    launch: Callable[[], None],
    seconds: float,
    launch_seconds: float,
    known: float = math.inf,
) -> str | None:
    """Time launches in a row by the host's clock, until everything on the device has ended.

    ``seconds`` is what the device's own clock said of one, ``launch_seconds`` what the host needs for one. ``known`` is
    what the quickest of those before took by the host's clock: where that is no more, there is nothing to time. Where
    others use the device as well, both clocks see it: the launches are timed by events too.
    """
    if not toolkit.has_own_clock or seconds > SLOW:
        return None
    expected = max(seconds, launch_seconds)
    least = known
    for wanted in BY_THE_WALL:
        if least <= MORE * expected + JITTER[False]:
            return None
        # What has been seen says how many there is time for, since ``seconds`` may be a lie.
        longest = max(expected, least) if math.isfinite(least) else expected
        count = min(max(1, round(wanted / longest)), QUEUED)
        took, by_the_device = toolkit.time_by_both(launch, count)
        if took <= MORE * by_the_device + JITTER[False]:
            return None
        least = min(least, took)
    if least <= MORE * expected + JITTER[False]:
        return None
    return f"it takes {least:.2g} s by the host's clock, and {seconds:.2g} s by the events around it"


def speed(toolkit: DeviceToolkit, interactions: float, seconds: float) -> str | None:
    """Compare interactions per second with what no device of this kind can compute."""
    ceiling = toolkit.ceiling
    rate = interactions / seconds
    if ceiling is None or rate <= ceiling.interactions_per_second:
        return None
    return f"{rate:.2g} interactions/s are more than {ceiling.what} can compute"
