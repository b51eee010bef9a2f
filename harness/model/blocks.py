"""Work on the rows of host arrays block by block, so that a block stays in a core's cache; on threads for many rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from typing import TypeVar

LEAST_ROWS, MOST_ROWS = 1 << 14, 1 << 16
"""Rows of a block: fewer are not worth a thread, and three float64 columns of more do not fit into a core's cache."""
MOST_THREADS = 8
"""Beyond so many, the memory is the bound."""

Made = TypeVar("Made")


def cores() -> int:
    """Return how many of the host's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(MOST_THREADS, cores()), "gravbench-rows")


# A fork does not bring threads along.
os.register_at_fork(after_in_child=_pool.cache_clear)


def in_blocks(
    n: int, work: Callable[[slice], Made], *, alone: int = LEAST_ROWS, blocks: int | None = None
) -> Iterator[Made]:
    """Call ``work`` with slices that together are all ``n`` rows; yield what it returns, as soon as it does.

    Up to ``alone`` rows are one block, in this thread; more are so many ``blocks``, or as many as stay in a cache.
    NumPy's loops over a block let other threads run.
    """
    if n <= alone:
        yield work(slice(n))
        return
    threads = min(MOST_THREADS, cores(), blocks or MOST_THREADS)
    rows = -(-n // blocks) if blocks else min(max(n // (2 * threads), LEAST_ROWS), MOST_ROWS)
    firsts = iter(range(0, n, rows))
    made: SimpleQueue[tuple[Made, None] | tuple[None, BaseException]] = SimpleQueue()

    def take_blocks() -> None:
        for first in firsts:  # of which each thread gets others
            try:
                made.put((work(slice(first, min(first + rows, n))), None))
            except BaseException as error:
                made.put((None, error))

    # One task for each thread: to wake a thread takes as long as it takes to copy a block.
    for _ in range(threads):
        _pool().submit(take_blocks)
    for _ in range(0, n, rows):
        result, error = made.get()
        if error is not None:
            raise error
        yield result  # type: ignore[misc]
