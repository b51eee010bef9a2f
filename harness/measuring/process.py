"""The process of one device, as the process that runs a sweep sees it: started, asked, stopped."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import mkdtemp

from gravbench.config.settings import Measure
from gravbench.measuring import forking
from gravbench.measuring.guard import Limits
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.tally import READY, STARTING
from gravbench.measuring.turns import Turn
from gravbench.measuring.worker import BEGIN, Job, Phase, Ready, serve
from gravbench.model.device import Device

LOOK_SECONDS = 1.0
"""Between two looks at the clock while a worker is waited for."""


def _context(*, gpu: bool) -> SpawnContext | ForkServerContext:
    """Return how a worker is started: for a CPU from nothing, so that each has its own layout of memory."""
    return forking.context() if gpu else multiprocessing.get_context("spawn")


@cache
def _shared() -> Path:
    """Make the folder that all workers share. It is gone when this process ends; one forked from it has its own."""
    folder = Path(mkdtemp(prefix="gravbench-"))
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=0)
    return folder


os.register_at_fork(after_in_child=_shared.cache_clear)


class Worker:
    """The worker of one device, behind its guard.

    The process that is started becomes the guard and forks the worker. Once the guard has ended, so has everything that
    the worker started.
    """

    def __init__(
        self, device: Device, folders: tuple[Path, ...], log: Path, measure: Measure, *, several: bool = False
    ) -> None:
        """Start it; ``measure`` has the limits of what it may use and how long it may take.

        Where ``several`` GPUs are asked for it sees the others of the device's kind too. The libraries of other cases
        may open whatever they see: their worker sees one.
        """
        context = _context(gpu=device.is_gpu)
        self.timeout = measure.timeout_seconds
        self.connection, theirs = context.Pipe()
        self.words, says = context.Pipe(duplex=False)
        self.process = context.Process(
            target=serve,
            args=(theirs, says, device, folders, log, Limits.of(measure), time.monotonic(), several, _shared()),
            daemon=True,
        )
        with forking.held_back():
            self.process.start()
        # Only the worker and its guard may hold their ends, so that the pipes show when they are gone.
        theirs.close()
        says.close()

    def ask(self, job: Job, begins: Callable[[str], None], turn: Callable[[Turn], bool] = lambda _: False) -> Outcome:
        """Have one job done; ``begins`` is told each of its phases.

        Once it is prepared, ``turn`` waits until it may be verified or measured; it returns whether the device is warm.
        A worker that hangs, dies or uses too much gives a failed outcome and is of no further use.
        """
        deadline = time.monotonic() + self.timeout
        phase = STARTING
        try:
            self.connection.send(job)
            while (left := deadline - time.monotonic()) > 0:
                if not self.connection.poll(min(left, LOOK_SECONDS)):
                    continue
                message = self.connection.recv()
                if isinstance(message, Outcome):
                    return message
                if message == BEGIN:  # it has begun
                    continue
                if isinstance(message, Ready):
                    asked = time.monotonic()
                    begins(READY)
                    warm = turn(message.turn)
                    deadline += time.monotonic() - asked
                    self.connection.send(warm)
                    continue
                assert isinstance(message, Phase)
                phase = message.name
                begins(phase)
        except (EOFError, OSError):
            verb, why = self._ending()
            return Outcome("failed", f"the worker {verb} while {phase}: {why}", broken=True)
        except Exception as error:  # not a message, so that nothing that follows can be trusted
            said = f"the worker sent what cannot be read while {phase}: {type(error).__name__}"
            return Outcome("failed", said, broken=True)
        said = f"no result within {self.timeout:g} s (measure.timeout_seconds) while {phase}"
        return Outcome("failed", said, broken=True)

    def _ending(self) -> tuple[str, str]:
        """Ask the guard what became of the worker; where the guard died too, say how."""
        with suppress(EOFError, OSError):
            if self.words.poll(10):
                verb, why = self.words.recv()
                return verb, why
        self.process.join(10)
        return "died", f"its guard ended with exit code {self.process.exitcode}"

    def begin(self) -> None:
        """Have it import what cases need before it is given one, and do not wait for that."""
        with suppress(OSError):  # it has died: the next case says so
            self.connection.send(BEGIN)

    def ready(self) -> None:
        """Wait until it has; one that dies or hangs meanwhile shows when it is asked."""
        with suppress(OSError):
            self.connection.poll(self.timeout)

    def end(self) -> None:
        """Have it end, from another thread than the one that asks and stops it."""
        self.process.terminate()

    def stop(self) -> None:
        """End it at once, with everything that it started; it holds nothing that needs cleaning up."""
        self.connection.close()
        self.process.terminate()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(10)
        self.words.close()
