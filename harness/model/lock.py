"""One writer per folder: a lock that the operating system takes back when its process ends, however it ends."""

from __future__ import annotations

import datetime
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model.regular import open_file, saying

LOCK = "run.lock"
"""Is locked by the process that writes to its folder, and says which that is; without the lock it means nothing."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make the folder where it is not there, and be the only one who writes to it while the block lasts.

    Raises:
        InputError: another holds it, the folder cannot be made or written, or its file system keeps no locks.
    """
    with saying(folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    descriptor = _locked(path)
    try:
        since = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds")
        with saying(path, "cannot be written"):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode())
        yield
    finally:
        with suppress(OSError):
            # Not that of another, where the folder was moved and made again.
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                path.unlink()
        os.close(descriptor)


def writer(folder: Path) -> str | None:
    """Say which process writes to a folder at this moment, None where none does; changes nothing.

    Raises:
        InputError: the lock cannot be looked at.
    """
    path = folder / LOCK
    try:
        descriptor = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    except OSError as error:
        raise InputError(f"{path}: cannot be locked ({error.strerror}); copy the folder to a local disk") from None
    finally:
        os.close(descriptor)
    return None


def _holder(descriptor: int) -> str:
    return os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"


def _locked(path: Path) -> int:
    while True:
        with saying(path, "cannot be written"):
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the file after it was opened here.
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise InputError(
                f"{path.parent}: {holder} is writing to it; wait until it has finished, or name another folder"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise InputError(
                f"{path}: cannot be locked ({error.strerror}), so a second run could write to it too; "
                "use a folder on a local disk"
            ) from None
        os.close(descriptor)
