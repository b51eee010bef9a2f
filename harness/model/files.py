"""Read files once per process, and again when they have changed.

A plan asks the same few files for the hash of every case. What is made of files is remembered here together with the
stamps of the files that were read for it, and made again as soon as one of them has another stamp. So nothing is read
twice, and an edit during a run still shows.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from gravbench.model.regular import open_file

Stamp = tuple[int, int, int] | None
"""Time of the last change, size and inode; None where there is no such file."""

MOST_TEXT = 2**22
"""Bytes of a file of source code."""

P = ParamSpec("P")
T = TypeVar("T")

_noted: ContextVar[dict[Path, Stamp] | None] = ContextVar("noted", default=None)


def opened(path: Path) -> io.BufferedReader:
    """Open a regular file to read its bytes; anything else, such as a pipe, might never answer.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    return io.BufferedReader(io.FileIO(open_file(path, os.O_RDONLY)))


def content(path: Path, most: int) -> bytes:
    """Return the bytes of a file that has up to ``most``.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger.
    """
    with opened(path) as file:
        bytes_read = file.read(most + 1)
    if len(bytes_read) > most:
        raise OSError(errno.EFBIG, f"too large; accepted: up to {most} bytes", str(path))
    return bytes_read


def stamp(path: Path) -> Stamp:
    """Return what changes when a file is edited or replaced, or a file is added to a folder."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # a name with a null byte is a ValueError
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def remembered(make: Callable[P, T]) -> Callable[P, T]:
    """Keep what the function returns, by its arguments, until a file that it read here has changed.

    The function reads by ``text`` and ``content_sha256``, lists by ``listing``, and may call others that are
    remembered. An error is not kept.
    """
    kept: dict[object, tuple[T, dict[Path, Stamp]]] = {}

    @wraps(make)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        key = (arguments, tuple(sorted(options.items())))
        known = kept.get(key)
        if known is None or any(stamp(path) != before for path, before in known[1].items()):
            noted: dict[Path, Stamp] = {}
            token = _noted.set(noted)
            try:
                known = kept[key] = (make(*arguments, **options), noted)
            finally:
                _noted.reset(token)
        _note(known[1])
        return known[0]

    return call


def _note(stamps: dict[Path, Stamp]) -> None:
    """Tell whoever is making something of files that it was made of these."""
    if (outer := _noted.get()) is not None:
        outer.update(stamps)


# In each of these the stamp is taken before the file is read: an edit in between makes it read again, never too late.


@remembered
def text(path: Path) -> str:
    """Return the text of a file in UTF-8.

    Raises:
        OSError: it cannot be read, is no regular file, or has more than ``MOST_TEXT`` bytes.
        ValueError: it is no text in UTF-8.
    """
    _note({path: stamp(path)})
    return content(path, MOST_TEXT).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


@remembered
def content_sha256(path: Path) -> str:
    """Hash the bytes of a file.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    _note({path: stamp(path)})
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@remembered
def listing(folder: Path, pattern: str) -> tuple[Path, ...]:
    """Return the files directly in a folder that match, sorted."""
    _note({folder: stamp(folder)})
    return tuple(sorted(folder.glob(pattern)))
