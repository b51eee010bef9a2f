"""Compiled binaries, kept on the disk under a hash of everything that they were compiled from.

What is found is what would be compiled, so nothing ever has to be marked as out of date. Several processes and runs
share the folder: a file appears whole or not at all, and carries a hash of its content, so that one that was cut off
is compiled again. Of many, those that were used longest ago are deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from platformdirs import user_cache_dir

MOST_BYTES = 1 << 30
"""Bytes of all files together; beyond, those go that were used longest ago."""
STORED_PER_LOOK = 256
"""Files stored, on average, per scan of the whole folder, which takes long if there are many files."""
DIGEST = hashlib.sha256().digest_size
"""Bytes at the front of a file: the hash of all after them."""


@dataclass(frozen=True, slots=True)
class Binary:
    """What a compiler made: the code, the name of the kernel in it, and the ``working_seconds`` that compiling took."""

    code: bytes
    kernel: str
    seconds: float


def folder() -> Path:
    """Return the folder of binaries: below ``NUMBA_CACHE_DIR``, or in the user's folder for caches."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen) / "gravbench"
    return Path(user_cache_dir("gravbench", appauthor=False)) / "binaries"


def working_seconds() -> float:
    """Return the processor time of this process and of the compilers it waited for.

    Builders are suspended while a case is measured, so the time that passes says nothing of what compiling takes.
    """
    times = os.times()
    return process_time() + times.children_user + times.children_system


def binary(key_parts: Sequence[str], compile: Callable[[], tuple[bytes, str]]) -> tuple[Binary, bool]:  # noqa: A002
    """Return what was compiled from ``key_parts``, and whether it was compiled just now.

    ``compile`` returns the code and the kernel's name in it. ``key_parts`` name all that decides these: text, flags,
    architecture, compiler and its version.
    """
    if kept := stored(key_parts):
        return kept, False
    began = working_seconds()
    code, kernel = compile()
    made = Binary(code, kernel, working_seconds() - began)
    store(key_parts, made)
    return made, True


def stored(key_parts: Sequence[str]) -> Binary | None:
    """Return what was compiled before from ``key_parts``; None where there is nothing, or no whole file."""
    path = _path(key_parts)
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = path.read_bytes()
        digest, content = content[:DIGEST], content[DIGEST:]
        if hashlib.sha256(content).digest() == digest:
            head, _, code = content.partition(b"\n")
            facts = json.loads(head)
            kept = Binary(code, facts["kernel"], facts["seconds"])
            with suppress(OSError):  # a folder that can only be read
                os.utime(path)
            return kept
    return None


def store(key_parts: Sequence[str], made: Binary) -> None:
    """Keep what was compiled from ``key_parts``; where the folder cannot be written, it is compiled again next time."""
    head = json.dumps({"kernel": made.kernel, "seconds": made.seconds})
    content = head.encode() + b"\n" + made.code
    with suppress(OSError):
        _write(_path(key_parts), hashlib.sha256(content).digest() + content)


def _path(key_parts: Sequence[str]) -> Path:
    # As JSON, two sequences that differ anywhere are different texts.
    return folder() / hashlib.sha256(json.dumps(list(key_parts)).encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a whole file, or none.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:  # the disk is full, or another process has the file open on Windows
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    if int(path.name, 16) % STORED_PER_LOOK == 0:
        _prune(path.parent)


def _prune(parent: Path) -> None:
    """Delete the files that were used longest ago, beyond ``MOST_BYTES``."""
    files = []
    for entry in os.scandir(parent):
        with suppress(OSError):  # another process has just deleted it
            facts = entry.stat()
            files.append((facts.st_mtime_ns, facts.st_size, entry.path))
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= MOST_BYTES:
            return
        with suppress(OSError):
            Path(path).unlink()
        left -= size
