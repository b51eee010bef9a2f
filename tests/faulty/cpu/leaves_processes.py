"""Starts processes that would outlive it, writes their ids to a file, and reads address zero."""

import ctypes
import os
import subprocess
import time
from pathlib import Path

from faulty_direct import direct

from gravbench.model.variant import variant


def fork_twice():
    """Leave a process whose parent is gone, in a session of its own; return its id."""
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (child := os.fork()) == 0:
            time.sleep(600)
            os._exit(0)
        os.write(writes, str(child).encode())
        os._exit(0)
    return int(os.read(reads, 20))


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        started = [subprocess.Popen(["sleep", "600"], start_new_session=own).pid for own in (False, True)]
        Path(os.environ["GRAVBENCH_TEST_PROCESSES"]).write_text(" ".join(map(str, [*started, fork_twice()])))
        ctypes.string_at(0)

    return direct(cpu, bodies, spoil)
