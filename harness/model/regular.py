"""Files that are files: a pipe would block whoever opens it, and a device keeps nothing."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gravbench.errors import InputError


@contextmanager
def saying(path: Path, what: str) -> Iterator[None]:
    """Say of an ``OSError`` in one sentence that ``path`` is ``what``, such as "cannot be written", and why."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {what}: {error.strerror or error}") from error


def open_file(path: Path, flags: int) -> int:
    """Open a file as ``os.open`` does; return its descriptor, which no child process inherits.

    Raises:
        OSError: it is not there, cannot be opened, or is no regular file but a folder, a pipe or a device.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a name with a null byte", str(path))
    try:
        # Looked at before it is opened: to open some devices does something.
        _check(path, path.stat())
    except FileNotFoundError:
        if path.is_symlink():
            raise OSError(errno.EINVAL, "a link to nothing", str(path)) from None
    # Does not wait, should it have become a pipe since.
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    try:
        _check(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_bytes(path: Path) -> bytes:
    """Read a file.

    Raises:
        InputError: it cannot be read, or is no regular file.
        FileNotFoundError: it is not there.
    """
    try:
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name of a new file beside a path; at the end of the block it is moved into place, or is gone."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside and move it into place, so that a kill leaves the old one or the new one.

    Raises:
        InputError: it cannot be written.
    """
    with (
        saying(path, "cannot be written"),
        replacing(path) as temporary,
        temporary.open("xb", buffering=0) as file,
    ):
        write_all(file.fileno(), content)


def check_unchanged(path: Path, text: str) -> None:
    """Make sure that nothing else would be lost if this text were written.

    Raises:
        InputError: the file is there and has another content.
    """
    if os.path.lexists(path) and read_bytes(path) != text.encode():
        raise InputError(f"{path}: exists already, with another content; accepted: another name, or move it away")


def write_all(descriptor: int, content: bytes | bytearray) -> None:
    """Write all of ``content`` and wait until the disk has it; an ``OSError`` where it has no more room."""
    while content:
        content = content[os.write(descriptor, content) :]
    os.fsync(descriptor)
