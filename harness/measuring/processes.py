"""The processes of a run: started from nothing, known by a mark, and gone with everything they started when it ends."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType

import psutil
from filelock import FileLock, Timeout

from gravbench.errors import InputError
from gravbench.measuring.reaper import MARK, end_marked, marked, reaping

CONTEXT = multiprocessing.get_context("spawn")
"""How processes are started: from nothing, so that each has its own layout of memory and no lock of another."""
WORKPLACE, LOCK = "gravbench-run-", "lock"
"""What the names of the temporary folders of runs begin with, and the file in them that a run locks."""


def check_may_start() -> None:
    """Check that this process may start others.

    Raises:
        InputError: it is daemonic, which multiprocessing forbids to start processes.
    """
    if multiprocessing.current_process().daemon:
        raise InputError(
            "a run starts processes, which multiprocessing does not let a daemonic process do, such as a worker of "
            "multiprocessing.Pool; call it from the main process or a thread"
        )


@dataclass(slots=True)
class Workplace:
    """What all sessions of a run share: a temporary folder, and the mark by which its processes are known."""

    folder: Path
    mark: str
    numbers: Iterator[int]


def lock_file(name: str) -> str:
    """Return the path of the file that this user's processes lock for what ``name`` says."""
    return str(Path(tempfile.gettempdir(), f"gravbench-{name}-{os.getuid() if hasattr(os, 'getuid') else 0}.lock"))


@contextmanager
def workplace() -> Iterator[Workplace]:
    """Make the temporary folder of a run for the block, and end with it whatever the run has started.

    Those of runs that were killed are removed: nobody holds their locks.
    """
    mark = f"{secrets.token_hex(8)}."
    if os.name == "posix":  # a process of multiprocessing's own, which is not the run's to end
        resource_tracker.ensure_running()
    with ExitStack() as stack:
        with FileLock(lock_file("runs")):  # so that no other run finds the folder before its lock is held
            for lock in Path(tempfile.gettempdir()).glob(f"{WORKPLACE}*/{LOCK}"):
                with suppress(OSError, Timeout), FileLock(lock, timeout=0):
                    shutil.rmtree(lock.parent, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=WORKPLACE))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(FileLock(folder / LOCK, timeout=0, thread_local=False))
        stack.enter_context(reaping(mark))
        yield Workplace(folder, mark, itertools.count(1))


class Started:
    """A process of a run, with the connection to it: ``target`` gets the other end, and then ``arguments``."""

    def __init__(
        self,
        workplace: Workplace,
        target: Callable[..., None],
        arguments: tuple[object, ...],
        *,
        starts_others: bool = True,
    ) -> None:
        """Start it; where it ``starts_others``, these are suspended with it."""
        self.mark = f"{workplace.mark}{next(workplace.numbers)}."
        self.connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=target, args=(theirs, *arguments), daemon=True)
        with _marked(self.mark), interrupts_held_back(), _without_main():
            self._process.start()
        # Nobody but the process may hold its end, so that the connection shows when it is gone.
        theirs.close()
        assert self._process.pid is not None
        self.root = psutil.Process(self._process.pid)
        self.others: set[psutil.Process] = set()
        """What it has started, also what has lost its parents."""
        self._strangers: set[psutil.Process] = set()
        self._starts_others = starts_others
        self._is_suspended = False
        self.sentinel = self._process.sentinel

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    def list_others(self) -> None:
        """Note which processes it has started."""
        self._list_children()
        self.others |= {*marked(self.mark, self._strangers)} - {self.root}

    def _list_children(self) -> None:
        with suppress(psutil.Error):
            self.others |= {*self.root.children(recursive=True)}

    def suspend(self) -> None:
        """Let it compute nothing for a while, nor what it has started, itself first, so that it starts nothing more."""
        self._is_suspended = True
        self._for_all(psutil.Process.suspend)

    def resume(self) -> None:
        """Let it go on computing, if it was suspended."""
        if self._is_suspended:
            self._is_suspended = False
            self._for_all(psutil.Process.resume)

    def _for_all(self, act: Callable[[psutil.Process], None]) -> None:
        with suppress(psutil.Error):
            act(self.root)
        if not self._starts_others:  # to look for them takes a millisecond, and more where many processes run
            return
        with suppress(psutil.Error):
            for child in self.root.children(recursive=True):
                with suppress(psutil.Error):
                    act(child)

    def end(self) -> None:
        """End it with everything that it started, and return when nothing of that is left."""
        self._list_children()  # what has lost its parents is found by its mark, below
        for process in [self.root, *self.others]:
            with suppress(psutil.Error):
                process.kill()
        self._process.join()
        psutil.wait_procs(list(self.others), timeout=10)
        end_marked(self.mark)
        self.connection.close()

    def exit(self) -> str:
        """Say how it has ended."""
        self._process.join(10)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        name = next((each.name for each in signal.Signals if each == -code), str(-code))
        return f"signal {name}" + (", which the system sends when memory runs out" if name == "SIGKILL" else "")


@contextmanager
def _marked(mark: str) -> Iterator[None]:
    """Give the mark to what is started within the block."""
    before = os.environ.get(MARK)
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if before is not None:
            os.environ[MARK] = before


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes within the block without the program's main module.

    A session needs nothing of it, and to import it would run a program that does not expect that once more.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Hold Ctrl-C back, also from what is started within the block, until that says what it means there."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
