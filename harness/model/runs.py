"""The folders that runs are kept in, and how a person names them."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shlex
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from gravbench.errors import InputError, nearest
from gravbench.model.limits import printable, without_controls
from gravbench.model.record import Record

RECORDS = "records.jsonl"
ENVIRONMENT = "environment.json"
REPORTS = Path("reports")
MOST_SAID = 3
"""Lines of a file that a sentence says what is wrong with."""
ALIKE = ("axes", "protocol", "flags", "code_sha256", "source_sha256", "bodies_sha256", "sm_clock_mhz")
"""Fields of a record that have the same value in many."""
SELDOM = (
    *("throttle_reasons", "counters", "computed", "error_max_of", "untimed_seconds", "stages_seconds", "stages_bytes"),
)
"""Fields of a record that are empty in most."""
SWITCHES = ("--resume", "--dry-run", "--counters")
"""Options of ``gravbench run`` without a value."""


def new_folder(name: str) -> Path:
    """Return reports/NAME-DATE-TIME, a folder that no earlier run has."""
    return REPORTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def newest(name: str, *, measured: bool = False) -> Path:
    """Return the newest reports/NAME-DATE-TIME; with ``measured`` the newest that measured anything, if one did.

    Raises:
        InputError: there is none.
    """
    pattern = re.compile(re.escape(name) + r"-\d{8}-\d{6}")
    found = sorted(path.parent for path in REPORTS.glob(f"*/{RECORDS}") if pattern.fullmatch(path.parent.name))
    if not found:
        raise InputError(f"there is no run {REPORTS / name}-DATE-TIME yet; name the folder of one with --out")
    return next((folder for folder in reversed(found) if measured and has_measurements(folder)), found[-1])


def has_measurements(folder: Path) -> bool:
    """Tell whether a run has a record that is ok; a line that cannot be read counts as none."""
    with (folder / RECORDS).open("rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                if Record.of_line(line).status == "ok":
                    return True
    return False


def find(run: str) -> Path:
    """Return the folder of a run: a path to it or to its records, or a name below reports/.

    A bare name such as ``quick`` means reports/quick, or else the newest reports/quick-DATE-TIME that measured
    anything, or the newest where none did.

    Raises:
        InputError: there is no such run.
    """
    path = Path(run)
    if path.name == RECORDS and path.is_file():
        return path.parent
    for folder in (path, REPORTS / run):
        if (folder / RECORDS).is_file():
            return folder
    with contextlib.suppress(InputError):
        return newest(run, measured=True)
    known = sorted(str(found.parent.relative_to(REPORTS)) for found in REPORTS.glob(f"**/{RECORDS}"))
    if known:
        raise InputError(f"{run}: no such run, neither a folder with a {RECORDS} nor a name; {nearest(run, known)}")
    raise InputError(
        f"{run}: no such run; there is none below {REPORTS.resolve()} yet, `gravbench run quick` makes one"
    )


def environment(folder: Path) -> list[dict[str, Any]]:
    """Return what was noted at each start of a run, the newest last; nothing where it is not there or not readable."""
    path = folder / ENVIRONMENT
    with contextlib.suppress(OSError, ValueError):
        # No pipe: whoever opened it might wait for ever.
        entries = from_json(path.read_bytes()) if path.is_file() else []
        if isinstance(entries, list):
            return [without_controls(entry) for entry in entries if isinstance(entry, dict)]
    return []


def published(folder: Path) -> str | None:
    """Return the name of the source that the newest start of a run was to be set beside, as far as it is recorded."""
    entries = environment(folder)
    name = entries[-1].get("published") if entries else None
    return name if isinstance(name, str) else None


def config_of(command: str) -> str | None:
    """Return the configuration that a recorded ``gravbench run`` names, for runs that did not note it by itself.

    Options stand before or behind it, and all have a value but those in ``SWITCHES``.
    """
    try:
        words = iter(shlex.split(command)[1:])
    except ValueError:  # a quote without its partner: nothing that gravbench wrote
        return None
    if next(words, None) != "run":
        return None
    for word in words:
        if not word.startswith("-"):
            return word
        if word not in SWITCHES and "=" not in word:
            next(words, None)
    return None


class RecordFile:
    """The records of one run: appended line by line, each flushed to the disk before the next case starts."""

    def __init__(self, folder: Path) -> None:
        """Use ``folder``/records.jsonl; neither has to exist."""
        self.path = folder / RECORDS

    def append(self, record: Record) -> None:
        """Add one line and wait until the disk has it."""
        # What is no text (a lone surrogate, from a file's name) must not cost the record that names it.
        words = {name: value.encode(errors="replace").decode() for name, value in record if isinstance(value, str)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(record.model_copy(update=words).model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def repair(self) -> str | None:
        """Cut off a last line that a killed process left half-written, and say so.

        Returns a sentence about what was cut, or None when the file is whole or absent.
        """
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole == len(content):
            return None
        try:
            Record.model_validate_json(content[whole:])
        except ValidationError:
            with self.path.open("r+b") as file:
                file.truncate(whole)
            return (
                f"{self.path}: the last line was half-written ({len(content) - whole} bytes); "
                "removed it, its case will be measured again"
            )
        with self.path.open("ab") as file:
            file.write(b"\n")
        return f"{self.path}: the last line lacked its end; completed it"

    def read(self, say: Callable[[str], object] = warnings.warn) -> list[Record]:
        """Read every record, and say in one sentence which lines are none and why: the others count.

        A half-written last line is passed over: only ``repair`` changes the file.

        Raises:
            InputError: there is no such file, or it cannot be read.
        """
        records, bad = [], []
        memory: dict[object, Any] = {}
        try:
            if not self.path.is_file():
                raise InputError(f"{self.path}: no such file; a run writes it")
            with self.path.open("rb") as lines, _uncollected():
                for number, line in enumerate(lines, 1):
                    try:
                        if line.strip():
                            records.append(_shared(Record.of_line(line), memory))
                    except ValueError as error:
                        if line.endswith(b"\n"):
                            bad.append(f"line {number}: {_why(error)}")
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if bad:
            which = "1 line that is no record" if len(bad) == 1 else f"{len(bad):,} lines that are no records"
            more = f"; and {len(bad) - MOST_SAID:,} more" if len(bad) > MOST_SAID else ""
            say(f"{self.path}: skipped {which}: {'; '.join(bad[:MOST_SAID])}{more}")
        return records


def _why(error: ValueError) -> str:
    """Say what is wrong with a line, in the first of Pydantic's words, without what it holds."""
    if not isinstance(error, ValidationError):
        return printable(str(error))
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:50] for part in first["loc"][:3])
    return printable(": ".join(filter(None, [where, first["msg"].removeprefix("Value error, ")])))[:300]


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: among a hundred thousand records that are kept there is none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _shared(record: Record, memory: dict[object, Any]) -> Record:
    """Let equal values of many records be one: most have the same code, protocol and axes, and hold nothing else."""
    own = record.__dict__
    for name in ALIKE:
        value = own[name]
        # 1, 1.0 and True are equal in Python, and different values of an axis.
        word = (*value.items(), *map(type, value.values())) if isinstance(value, dict) else value
        own[name] = memory.setdefault((name, tuple(value) if isinstance(value, list) else word), value)
    for name in SELDOM:
        if not own[name]:
            own[name] = memory.setdefault(type(own[name]), own[name])
    return record


def latest(records: Iterable[Record]) -> list[Record]:
    """Keep the newest record of each case on each device, and of a repeated anchor the first.

    A case that was skipped for want of a device is left out once some device has it.
    """
    kept: dict[tuple[Hashable, str | None], Record] = {}
    for record in records:
        if record.anchor <= 1:
            kept[record.identity, record.device_uuid or record.device] = record
    found = {key for key, device in kept if device is not None}
    return [record for (key, device), record in kept.items() if device is not None or key not in found]
