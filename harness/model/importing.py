"""Find and import Python files that a person wrote: whatever is wrong with one is a sentence with the file and line."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import NoReturn

from gravbench.errors import InputError, Stopped, shortened

SECONDS = 60.0
"""After which an import that has not ended is given up; a large library takes a few."""
MOST_FILES = 10_000
"""Files and folders that are looked at below a folder."""


class _Endless(BaseException):
    """An import has taken too long. No Exception, so that the module does not catch it."""


def sources(folder: Path) -> list[Path]:
    """Return the Python files below a folder, sorted. Hidden ones, such as an editor's lock files, are passed over.

    Raises:
        InputError: a folder cannot be read or has the name of a Python file, or there is too much below it.
    """
    paths: list[Path] = []
    seen = 0
    try:
        for place, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".")]
            if wrong := [name for name in folders if name.endswith(".py")]:
                raise InputError(f"{Path(place, wrong[0])}: a directory; accepted: a file")
            seen += len(folders) + len(names)
            if seen > MOST_FILES:
                too_many = f"more than {MOST_FILES} files and folders below it"
                raise InputError(f"{folder}: {too_many}; accepted: a folder that contains only variants")
            paths += [Path(place, name) for name in names if name.endswith(".py") and not name.startswith(".")]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return sorted(paths)


class _TextLoader(SourceFileLoader):
    """Compiles the text that is there: bytecode on the disk is of this text only as far as time and size tell."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def module(path: Path, name: str, *, from_text: bool = True) -> ModuleType:
    """Import a file under a name, once; unless ``from_text``, by its bytecode on the disk, which is faster.

    Raises:
        InputError: it is not Python, fails, ends the program, or does not end in ``SECONDS``; the last is known only
            in the main thread.
    """
    if name in sys.modules:
        return sys.modules[name]
    loader = _TextLoader if from_text else SourceFileLoader
    spec = importlib.util.spec_from_file_location(name, path, loader=loader(name, str(path)))
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: not a Python file")
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _at_most(SECONDS):
            spec.loader.exec_module(made)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt | Stopped):  # whatever is imported at that moment
            raise
        raise InputError(f"{_place(path, error)}: {_said(error)}") from error
    return made


def _raise(error: OSError) -> NoReturn:
    raise error


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - as signal calls it
        raise _Endless

    handler = signal.signal(signal.SIGALRM, ring)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
        if left:  # somebody else's alarm
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3), interval)


def _place(path: Path, error: BaseException) -> str:
    """Name the file and the line that failed: of the file itself, or of what it imports where that is not Python."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}" if error.lineno else error.filename
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    return f"{path}, line {lines[-1]}" if lines else str(path)


def _said(error: BaseException) -> str:
    match error:
        case InputError():
            return str(error)
        case SyntaxError():
            return f"invalid Python: {error.msg}"
        case SystemExit():
            return "exits when it is imported; accepted: a module that only contains definitions"
        case _Endless():
            return f"its import took more than {SECONDS:g} s; accepted: a module that only contains definitions"
        case ImportError():
            return f"cannot be imported: {shortened(str(error), 300)}"
        case _:
            return f"cannot be imported: {type(error).__name__}: {shortened(str(error), 300)}"
