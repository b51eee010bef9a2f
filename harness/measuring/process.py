"""The process of one device, as the process that runs a sweep sees it: started, asked, stopped."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path

from gravbench.config.settings import Measure
from gravbench.measuring.guard import Limits
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.tally import READY, STARTING
from gravbench.measuring.worker import Job, Phase, Ready, serve
from gravbench.model.device import Device

LOOK_SECONDS = 1.0
"""Between two looks at the clock while a worker is waited for."""
PRELOADED = ("__main__", "gravbench.measuring.worker", "scipy.special", "numba.cuda", "cupy", "pynvml")
"""What most workers of GPUs import. None of it opens a device when imported: a CUDA context does not survive a fork."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Let the signals that stop a run wait: a worker starts whole, and is known before it has to be stopped."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _context(*, gpu: bool) -> SpawnContext | ForkServerContext:
    """Return how a worker is started: for a CPU from nothing, so that each has its own layout of memory.

    Those of GPUs are forked from one process that has imported what all of them need, and that has no CUDA context:
    to import it takes seconds, several times as long as to open the device.
    """
    if not gpu:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


class Worker:
    """The worker of one device, behind its guard.

    The process that is started becomes the guard and forks the worker. Once the guard has ended, so has everything that
    the worker started.
    """

    def __init__(self, device: Device, folders: tuple[Path, ...], log: Path, measure: Measure) -> None:
        """Start it; ``measure`` has the limits of what it may use and how long it may take."""
        context = _context(gpu=device.is_gpu)
        self.timeout = measure.timeout_seconds
        self.connection, theirs = context.Pipe()
        self.words, says = context.Pipe(duplex=False)
        self.process = context.Process(
            target=serve,
            args=(theirs, says, device, folders, log, Limits.of(measure), time.monotonic()),
            daemon=True,
        )
        with held_back():
            self.process.start()
        # Only the worker and its guard may hold their ends, so that the pipes show when they are gone.
        theirs.close()
        says.close()

    def ask(self, job: Job, begins: Callable[[str], None], turn: Callable[[bool], None] = lambda _: None) -> Outcome:
        """Have one job done; ``begins`` is told each of its phases.

        Once it is prepared, ``turn`` waits until it may be verified and measured, on its argument alone: whether that
        uses the host's cores. A worker that hangs, dies or uses too much gives a failed outcome and is of no further
        use.
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
                if isinstance(message, Ready):
                    asked = time.monotonic()
                    begins(READY)
                    turn(message.alone)
                    deadline += time.monotonic() - asked
                    self.connection.send(True)
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
        said = f"no end after {self.timeout:g} s (measure.timeout_seconds) while {phase}"
        return Outcome("failed", said, broken=True)

    def _ending(self) -> tuple[str, str]:
        """Ask the guard what became of the worker; where the guard died too, say how."""
        with suppress(EOFError, OSError):
            if self.words.poll(10):
                verb, why = self.words.recv()
                return verb, why
        self.process.join(10)
        return "died", f"its guard ended with exit code {self.process.exitcode}"

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
