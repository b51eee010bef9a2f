"""Sessions forked from one process that has imported what they need, where each would import it for itself.

That takes a second and more of computing for each of the hundreds that the tests start. A run in a process of its own
(``python -m gravbench run``, which some tests start) has sessions as everybody has them.
"""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

import pytest

from gravbench.measuring.reaper import MARK


def within(environment, target, *arguments):
    """Call ``target`` with the environment of the process that asked, which the one that forks does not have."""
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments)


class Forking:
    """Has of a context of multiprocessing what starts a session; ``preloaded`` is the module that is imported once."""

    def __init__(self, preloaded: str):
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([preloaded])
        self.Pipe = self.context.Pipe

    def Process(self, *, target, args, daemon):  # noqa: N802 - as multiprocessing calls it
        """Make a process that calls ``target``."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
            # It is of no run: the end of one would end it.
            patch.delenv(MARK, raising=False)
            forkserver.ensure_running()
        return self.context.Process(target=within, args=(dict(os.environ), target, *args), daemon=daemon)


@contextmanager
def forked() -> Iterator[None]:
    """Let the sessions that this process starts be forked."""
    from gravbench.measuring import processes

    forking = Forking("preloaded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "CONTEXT", forking)
        yield
