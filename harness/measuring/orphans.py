"""End processes when the one that started them is gone, even those that are suspended.

A process that waits for its parent ends by itself when that is gone, but not while it is suspended. So another one, run
as ``python -m gravbench.measuring.orphans``, reads the numbers of processes, one in a line, and ends them with all that
they have started when its input ends, however the parent has ended.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

import psutil


def tree(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all that it and they have started, itself first; nothing where it is gone."""
    with suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return []


def end(process: psutil.Process) -> None:
    """End a process and all that it has started, suspended or not."""
    for each in tree(process):
        with suppress(psutil.Error):
            each.kill()


def main() -> None:
    """Read process numbers until the input ends, and end those processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, which every process gets
    processes = []
    for line in sys.stdin:
        with suppress(psutil.Error):  # it is gone already
            processes.append(psutil.Process(int(line)))
    for process in processes:
        end(process)


if __name__ == "__main__":
    main()
