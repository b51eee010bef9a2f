"""Work on the rows of host arrays block by block, so that a block stays in a core's cache; on threads for many rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
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


def in_blocks(n: int, work: Callable[[slice], Made]) -> Iterator[Made]:
    """Call ``work`` with slices that together are all ``n`` rows; yield what it returns, in the order of the rows.

    Up to ``LEAST_ROWS`` rows are one block, in this thread. NumPy's loops over a block let other threads run.
    """
    if n <= LEAST_ROWS:
        return iter((work(slice(n)),))
    threads = min(MOST_THREADS, cores())
    rows = min(max(n // (2 * threads), LEAST_ROWS), MOST_ROWS)
    blocks = (slice(first, min(first + rows, n)) for first in range(0, n, rows))
    return map(work, blocks) if threads == 1 else _pool().map(work, blocks)
