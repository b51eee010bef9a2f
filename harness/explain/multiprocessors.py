"""When the last block of a grid ends, where its warps have different amounts of work.

A block begins as soon as a multiprocessor has room for it, in the order of their numbers, and makes room when all its
warps have ended. The warps of a multiprocessor share it evenly: the fewer they are, the faster is each.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def makespan(
    work: NDArray[np.float64], warps: int, resident: int, multiprocessors: int, slowness: Sequence[float]
) -> float:
    """Return when the last warp ends, in the unit of ``work``, which has shape (warps of the grid,).

    ``warps`` are those of a block, and ``resident`` blocks are on a multiprocessor at the same time. ``slowness[k]`` is
    how long a warp takes for one unit of work while k warps are on its multiprocessor.
    """
    whole = -(-len(work) // warps)
    blocks = np.concatenate([work, np.zeros(whole * warps - len(work))]).reshape(whole, warps).tolist()
    waiting = iter(blocks)
    # Of each multiprocessor: what each of its warps has done so far, when that was, and its warps by their ends.
    done = [0.0] * multiprocessors
    at = [0.0] * multiprocessors
    ends: list[list[tuple[float, int]]] = [[] for _ in range(multiprocessors)]
    left: dict[int, int] = {}
    events: list[tuple[float, int]] = []
    begun = 0

    def begin(place: int) -> bool:
        nonlocal begun
        block = next(waiting, None)
        if block is None:
            return False
        begun += 1
        left[begun] = warps
        for amount in block:
            heapq.heappush(ends[place], (done[place] + amount, begun))
        return True

    def next_event(place: int) -> None:
        if ends[place]:
            when = at[place] + (ends[place][0][0] - done[place]) * slowness[len(ends[place])]
            heapq.heappush(events, (when, place))

    for _ in range(resident):
        for place in range(multiprocessors):
            begin(place)
    for place in range(multiprocessors):
        next_event(place)
    now = 0.0
    while events:
        now, place = heapq.heappop(events)
        end, block = heapq.heappop(ends[place])
        done[place], at[place] = end, now
        left[block] -= 1
        if not left[block]:
            del left[block]
            begin(place)
        next_event(place)
    return now
