"""Run a program that nobody trusts: without files, network and other processes, and within limits.

A fresh interpreter (``launcher.py``) confines itself and becomes the program. On Linux an unprivileged process can be
confined by namespaces, Landlock and a seccomp filter. Each is tried once per process; all that work are used together.
"""

from __future__ import annotations

import ast
import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import Signals
from typing import Any

from gravbench.errors import InputError

LAUNCHER = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import launcher; launcher.main()"
"""What a fresh interpreter does; it compiles a module once, and a file that is passed to it at each start."""
MEASURES = ("namespaces", "landlock", "seccomp")
GRACE_SECONDS = 10.0
"""How long the launcher may take beside what it runs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use: seconds of wall-clock time, address space and the largest file in bytes, and processes.

    With one process it can start no other, neither by fork nor by exec. More are for compilers, which run nothing of
    an author's: root's are not counted, and memory is limited for each. One process may have several ``threads``, of
    which root's are bounded by its memory alone.
    """

    seconds: float
    memory_bytes: int
    processes: int
    file_bytes: int
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code or the signal that ended it, and what it wrote.

    ``reason`` is one sentence if a limit or a protection ended it, and empty otherwise.
    """

    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Protections:
    """By what this system confines a program, for each of what is to be protected; empty where by nothing."""

    files: str
    network: str
    processes: str
    memory: str
    time: str

    @property
    def missing(self) -> tuple[str, ...]:
        """One sentence for each of what this system does not protect."""
        needs = (
            (self.files, "files: a program can read and write what you can; namespaces or Landlock would prevent it"),
            (self.network, "network: a program can reach it; namespaces or a seccomp filter would prevent it"),
            (self.processes, "processes: a program can start others; a seccomp filter would prevent it"),
            (self.memory, "memory: a program can use all of it; Linux would limit it"),
            (self.time, "time: a program can run on; Linux would limit it"),
        )
        return tuple(f"this system does not protect {text}" for by, text in needs if not by)


def protections() -> Protections:
    """Return by what a program is confined here; tries it at the first call."""
    names = {"namespaces": "namespaces", "landlock": "Landlock", "seccomp": "a seccomp filter"}
    limits = "limits of the process" if sys.platform == "linux" else ""

    def by(*suitable: str) -> str:
        return " and ".join(names[name] for name in suitable if name in measures())

    return Protections(
        by("namespaces", "landlock"),
        by("namespaces", "seccomp"),
        # Namespaces end what a program starts, and do not count it.
        by("namespaces", "seccomp") if "seccomp" in measures() else "",
        limits,
        limits and "the clock of its supervisor",
    )


@cache
def measures() -> tuple[str, ...]:
    """Return which of ``MEASURES`` this system grants, each tried in a process that ends at once."""
    return tuple(name for name in MEASURES if sys.platform == "linux" and _is_granted(name))


def _is_granted(measure: str) -> bool:
    limits = Limits(GRACE_SECONDS, 1 << 30, 1, 1 << 20)
    try:
        return _launched((measure,), (), b"", (), None, limits).exit_code == 0
    except InputError:
        return False


def run_confined(
    command: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    readable: Sequence[Path] = (),
    writable: Path | None = None,
    limits: Limits,
) -> Ended:
    """Run a command by all measures that this system grants; return how it ended.

    It sees its own file, what is ``readable`` and the folder ``writable``, where it begins and which ``TMPDIR`` names;
    the rest of its environment is empty. Whatever it starts ends with it. ``protections().missing`` says what
    this system cannot prevent.

    Raises:
        InputError: the system is not Linux, or refuses what it granted before.
    """
    if sys.platform != "linux":
        raise InputError(f"programs of others are confined on Linux alone; this is {sys.platform}")
    program, *words = map(str, command)
    program = str(Path(program).absolute())
    shown = [Path(program), *readable]
    return _launched(measures(), [program, *words], stdin, shown, writable, limits)


def _launched(
    used: Sequence[str],
    command: Sequence[str],
    stdin: bytes,
    readable: Sequence[Path],
    writable: Path | None,
    limits: Limits,
) -> Ended:
    """Start the launcher with a request, and read its report and what the program wrote."""
    receiver, report = os.pipe()
    request = {
        "report": report,
        "measures": used,
        "command": command,
        "readable": [str(path.absolute()) for path in readable],
        "writable": str(writable.resolve()) if writable else None,
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "several": limits.processes > 1,
        "threads": limits.threads,
        "file_bytes": limits.file_bytes,
    }
    # Files rather than pipes: the system bounds their size, and nothing waits for a reader.
    with (
        os.fdopen(receiver, "rb") as reader,
        tempfile.TemporaryDirectory() as root,
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
    ):
        given.write(stdin)
        given.seek(0)
        started = [sys.executable, "-I", "-S", "-c", LAUNCHER, marshal.dumps(request | {"root": root}).hex()]
        with subprocess.Popen(
            started, stdin=given, stdout=out, stderr=errors, env={}, cwd="/", pass_fds=(report,), start_new_session=True
        ) as launcher:
            os.close(report)
            try:
                launcher.wait(limits.seconds + GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                launcher.kill()
                return Ended(None, Signals.SIGKILL, b"", b"", _too_long(limits))
            except BaseException:
                launcher.kill()
                raise
        report_bytes = reader.read()
        return _ended(report_bytes, _content(out, limits), _content(errors, limits), limits)


def _content(file: Any, limits: Limits) -> bytes:
    file.seek(0)
    content: bytes = file.read(limits.file_bytes)
    return content


def _ended(report_bytes: bytes, stdout: bytes, stderr: bytes, limits: Limits) -> Ended:
    """Return what the launcher reports.

    Raises:
        InputError: it could not confine the program, or says nothing.
    """
    try:
        # A program that its own process could not become has two lines: why, and how that process ended.
        report = ast.literal_eval(report_bytes.decode().splitlines()[0])
    except (ValueError, SyntaxError, IndexError):
        lines = stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"a program could not be confined: {lines[-1] if lines else 'no reason given'}") from None
    if "failed" in report:
        raise InputError(f"a program could not be confined: {report['failed']}")
    return Ended(report["exit_code"], report["signal"], stdout, stderr, _reason(report, limits))


def _too_long(limits: Limits) -> str:
    return f"it did not end within {limits.seconds:g} s"


def _reason(report: dict[str, Any], limits: Limits) -> str:
    if report["over"] or report["signal"] == Signals.SIGXCPU:
        return _too_long(limits)
    return {
        Signals.SIGXFSZ: f"it wrote more than {limits.file_bytes:,} bytes",
        Signals.SIGSYS: "it asked the system for what is denied to it",
        Signals.SIGKILL: "it was killed, which the system does when memory is short",
        None: "",
    }.get(report["signal"], "")
