"""The process of one device, as the process that runs a sweep sees it: started, asked, stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from gravbench.measuring.worker import Job, Outcome, Phase, serve
from gravbench.model.device import Device


class Worker:
    """The process of one device, seen from the parent."""

    def __init__(self, device: Device, folders: tuple[Path, ...], log: Path) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, device, folders, log, os.getpid(), time.time()), daemon=True
        )
        # A Ctrl-C now would end the worker before it could say that it leaves them to us.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        # Only the worker may hold its end, so that the pipe shows when the worker is gone.
        theirs.close()

    def ask(self, job: Job, timeout: float, begins: Callable[[str], None]) -> Outcome:
        """Have one job done; ``begins`` is told each of its phases.

        A worker that hangs or dies gives a failed outcome and is of no further use.
        """
        deadline = time.monotonic() + timeout
        phase = "starting"
        try:
            self.connection.send(job)
            while self.connection.poll(max(0.0, deadline - time.monotonic())):
                message = self.connection.recv()
                if isinstance(message, Outcome):
                    return message
                assert isinstance(message, Phase)
                phase = message.name
                begins(phase)
        except (EOFError, OSError):
            return Outcome("failed", f"the worker died while {phase}: {self._epitaph()}", broken=True)
        return Outcome("failed", f"no end after {timeout:g} s (measure.timeout_seconds) while {phase}", broken=True)

    def _epitaph(self) -> str:
        self.process.join(10)
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = ", which the system sends when memory runs out" if name == "SIGKILL" else ""
            return f"signal {name}{hint}"
        return f"exit code {code}"

    def stop(self) -> None:
        """End it at once; it holds nothing that needs cleaning up."""
        self.connection.close()
        self.process.kill()
        self.process.join(10)
