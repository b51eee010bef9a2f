"""A lock between the threads of a process that a fork waits for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock, get_ident
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ForkLock:
    """A lock that one thread has at a time, as an ``RLock``; a process is only forked while no other thread has it.

    A child that was forked meanwhile could neither finish the work of that thread nor give the lock back. A fork that
    waits is next, even if other threads take the lock again at once.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._turn = RLock()
        self._holder: int | None = None
        self._depth = 0
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after)

    def __enter__(self) -> None:
        """Wait until no other thread has it, and no other fork waits for it."""
        if not self._is_mine():
            with self._turn:
                pass
        self._lock.acquire()
        self._holder = get_ident()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._depth -= 1
        if not self._depth:
            self._holder = None
        self._lock.release()

    def _is_mine(self) -> bool:
        return self._holder == get_ident()

    def _before(self) -> None:
        if not self._is_mine():
            self._turn.acquire()
            self._lock.acquire()

    def _after(self) -> None:
        if not self._is_mine():
            self._lock.release()
            self._turn.release()


def one_thread_at_a_time(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function with a lock of its own: other threads, and a fork, wait until it returns."""
    lock = ForkLock()

    @wraps(function)
    def locked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        with lock:
            return function(*arguments, **options)

    return locked
