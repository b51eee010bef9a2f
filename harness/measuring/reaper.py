"""Ends what a run has started, once the run itself is gone: ``python -m gravbench.measuring.reaper MARK``.

Everything that a run starts has a mark in its environment, and so has what that starts in its turn, whatever becomes of
its parents. The run holds the other end of this process's standard input: when it ends, or is killed, the input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

MARK = "GRAVBENCH_STARTED_BY"
"""The environment variable."""
PAUSE = 0.02
TRIES = 250


def end_marked(mark: str) -> None:
    """Kill all processes whose mark begins so, and what they start meanwhile; this one is left."""
    for _ in range(TRIES):
        processes = list(marked(mark))
        if not processes:
            return
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(PAUSE)


def marked(mark: str, passed_over: set[psutil.Process] | None = None) -> Iterator[psutil.Process]:
    """Find the processes whose mark begins so, but for this one.

    Those that are ``passed_over`` are not asked for their marks again, and what is found to have another is added.
    """
    for process in psutil.process_iter():
        if process.pid == os.getpid() or (passed_over and process in passed_over):
            continue
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK, "").startswith(mark):
                yield process
                continue
        if passed_over is not None:
            passed_over.add(process)


@contextmanager
def reaping(mark: str) -> Iterator[None]:
    """Have a process wait beside this one, which ends everything of the mark after the block, however that ends."""
    command = [sys.executable, "-m", "gravbench.measuring.reaper", mark]
    # Ctrl-C reaches a whole group of processes.
    waiting = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert waiting.stdin is not None
    try:
        yield
    finally:
        waiting.stdin.close()
        waiting.wait()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
