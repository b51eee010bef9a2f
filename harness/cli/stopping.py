"""Ctrl-C, SIGTERM and SIGHUP end a command as cleanly as an error does."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gravbench.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 30.0
"""Seconds for which further signals are passed over, so that the first can end workers and restore the terminal."""


@contextmanager
def stopping() -> Iterator[None]:
    """Raise ``Stopped`` at the first of the signals within the block, unless the process was told to ignore it."""
    last = -math.inf

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal last
        if time.monotonic() - last >= PATIENCE:
            last = time.monotonic()
            raise Stopped(number)

    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        # After a signal those that follow are passed over until the very end, which no handler of Python sees.
        for number, handler in before.items():
            signal.signal(number, handler if last < 0 else signal.SIG_IGN)


@contextmanager
def hinting(hint: str) -> Iterator[None]:
    """Have a stop within the block say what it means for what was done; the innermost block says it."""
    try:
        yield
    except Stopped as stopped:
        stopped.hint = stopped.hint or hint
        raise
