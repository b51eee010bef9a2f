"""The folders that runs are kept in, and the records in them."""

from __future__ import annotations

import contextlib
import datetime
import gc
import json
import os
import re
import shlex
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.errors import InputError
from gravbench.model import derived
from gravbench.model.limits import printable, without_controls
from gravbench.model.lock import alone
from gravbench.model.record import Record
from gravbench.model.regular import open_file, read_bytes, saying, write_all
from gravbench.model.rescue import keep_elsewhere

RECORDS = "records.jsonl"
ENVIRONMENT = "environment.json"
CEILINGS = "ceilings.json"
"""What ``gravbench peaks`` writes: the peak rates of a device, beside records or in a folder without any."""
REPORTS = Path("reports")
TO_MEASURE_AGAIN = "remove the line, and continue the run with --resume"
"""What helps where a line states what was not measured: as long as it is there, it is refused."""
MOST_SAID = 3
"""Lines of a file that a sentence says what is wrong with."""
HASHES = ("code_sha256", "source_sha256", "bodies_sha256")
LISTS = ("flags", "sm_clock_mhz")
MAPPINGS = ("axes", "protocol")
"""Fields of a record that have the same value in many: hashes; lists of words or of whole numbers; what has names."""
SELDOM = (
    *("processes", "throttle_reasons", "counters", "computed", "error_max_of", "untimed_seconds"),
    *("stages_seconds", "stages_bytes"),
)
"""Fields of a record that are empty in most."""
NO_LIST: list[Any] = []
NO_MAPPING: dict[str, Any] = {}
SWITCHES = ("--resume", "--dry-run", "--counters")
"""Options of ``gravbench run`` without a value."""


def new_folder(name: str) -> Path:
    """Make reports/NAME-DATE-TIME and return it: where that is taken, with the next second that is free.

    Raises:
        InputError: it cannot be made.
    """
    moment = datetime.datetime.now()
    while True:
        folder = REPORTS / f"{name}-{moment:%Y%m%d-%H%M%S}"
        with saying(folder, "cannot be made"), contextlib.suppress(FileExistsError):
            REPORTS.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            return folder
        moment += datetime.timedelta(seconds=1)


def newest(name: str, *, measured: bool = False) -> Path:
    """Return the newest reports/NAME-DATE-TIME; with ``measured`` the newest that measured anything, if one did.

    Raises:
        InputError: there is none.
    """
    pattern = re.compile(re.escape(name) + r"-\d{8}-\d{6}")
    folders = sorted(
        path.parent for path in REPORTS.glob(f"*/{RECORDS}") if pattern.fullmatch(path.parent.name) and path.is_file()
    )
    if not folders:
        raise InputError(f"there is no run {REPORTS / name}-DATE-TIME yet; name the folder of one with --out")
    return next((folder for folder in reversed(folders) if measured and has_measurements(folder)), folders[-1])


def has_measurements(folder: Path) -> bool:
    """Tell whether a run has a record that is ok; a line that cannot be read counts as none.

    Raises:
        InputError: its file of records cannot be read.
    """
    return any(record.status == "ok" for record in RecordFile(folder).records(intervals=False))


def environment(folder: Path) -> list[dict[str, Any]]:
    """Return what was noted at each start of a run, the newest last; nothing where it is not there or not readable."""
    with contextlib.suppress(InputError):
        return [without_controls(entry) for entry in starts(folder)]
    return []


def starts(folder: Path) -> list[dict[str, Any]]:
    """Return what was noted at each start of a run, the newest last; nothing where nothing was.

    Raises:
        InputError: the file is not what ``gravbench run`` writes.
    """
    path = folder / ENVIRONMENT
    try:
        entries = json.loads(read_bytes(path).decode())
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{path}: is not a JSON list with one object per start of a run; repair it or move it away")
    return entries


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
    """The records of one run: appended line by line, each flushed to the disk before the next case starts.

    Within ``with`` no other process writes to the folder, and what is written must stay as it is: each append and
    ``check`` look first. Where it was changed, moved or removed, all of it is written once more, to another folder, and
    an error says so. Without ``with`` each append is a block of its own.
    """

    def __init__(self, folder: Path) -> None:
        """Use ``folder``/records.jsonl; neither has to exist."""
        self.folder = folder
        self.path = folder / RECORDS
        self.environment = b""
        """What environment.json holds, for a copy of the run."""
        self._blocks = 0
        self._held = contextlib.ExitStack()
        self._file: int | None = None
        self._content = bytearray()

    def __enter__(self) -> RecordFile:
        """Be the only one who writes to the folder, which is made where it is not there.

        Raises:
            InputError: another process writes to it, or the folder or the file cannot be written.
        """
        if not self._blocks:
            with contextlib.ExitStack() as stack:
                stack.enter_context(alone(self.folder))
                stack.callback(self._close)
                self._content.clear()
                with saying(self.path, "cannot be written"):
                    self._absolute, self._own = self.folder.resolve(), self.folder.stat()
                    if os.path.lexists(self.path):
                        self._file = open_file(self.path, os.O_RDWR | os.O_APPEND)
                        self._content += read_bytes(self.path)
                self._held = stack.pop_all()
        self._blocks += 1
        return self

    def __exit__(self, *error: object) -> None:
        """Let others write."""
        self._blocks -= 1
        if not self._blocks:
            self._held.close()

    def append(self, record: Record) -> None:
        """Add one line and wait until the disk has it.

        Raises:
            InputError: the file cannot be written, or is not what was written; all records are then kept elsewhere.
        """
        # What is no text (a lone surrogate, from a file's name) must not cost the record that names it.
        words = {name: value.encode(errors="replace").decode() for name, value in record if isinstance(value, str)}
        line = record.model_copy(update=words).model_dump_json().encode() + b"\n"
        with self:
            size = len(self._content)
            self._content += line
            if objection := self._objection(size):
                raise self._kept_elsewhere(objection)
            try:
                if self._file is None:
                    self._file = open_file(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
                write_all(self._file, line)
            except OSError as error:
                if self._file is not None:
                    with contextlib.suppress(OSError):
                        os.ftruncate(self._file, size)
                raise self._kept_elsewhere(f"cannot be written: {error.strerror}") from error

    def check(self) -> None:
        """Make sure, within ``with``, that the disk has every line that this object wrote or found there.

        Raises:
            InputError: it has not; all records are then kept elsewhere.
        """
        objection = self._objection(len(self._content))
        if not objection and self._file is not None and self._read() != self._content:
            objection = "was changed during the run"
        if objection:
            raise self._kept_elsewhere(objection)

    def _objection(self, size: int) -> str | None:
        """Say what happened to the file since it was opened or last written, when it had ``size`` bytes."""
        try:
            if not os.path.samestat(self.folder.stat(), self._own):
                return "its folder was replaced by another during the run"
            if self._file is None:
                return "was made by another process during the run" if os.path.lexists(self.path) else None
            status = self.path.stat()
        except OSError:
            return "was moved or removed during the run"
        if not os.path.samestat(status, os.fstat(self._file)):
            return "was replaced by another file during the run"
        if status.st_size != size:
            return f"was changed during the run: it has {status.st_size:,} bytes instead of {size:,}"
        return None

    def _kept_elsewhere(self, objection: str) -> InputError:
        """Write all records to a new folder, and return what to say of it."""
        count = self._content.count(b"\n")
        files = {RECORDS: self._content} | ({ENVIRONMENT: self.environment} if self.environment else {})
        place = keep_elsewhere(self._absolute, files)
        if place is None:
            return InputError(f"{self.path}: {objection}; nor can its records be written anywhere else")
        return InputError(
            f"{self.path}: {objection}; all records of the run ({count}) are in {place}; to continue, repeat the "
            "command with --resume, and with that folder as --out"
        )

    def _read(self) -> bytes:
        assert self._file is not None
        return os.pread(self._file, os.fstat(self._file).st_size, 0)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def repair(self) -> str | None:
        """Cut off a last line that a killed process left half-written, and say so.

        Returns a sentence about what was cut, or None when the file is whole or absent.

        Raises:
            InputError: another process writes to the folder, or the file cannot be written.
        """
        if not os.path.lexists(self.path):
            return None
        with self, saying(self.path, "cannot be written"):
            assert self._file is not None
            whole = self._content.rfind(b"\n") + 1
            half = len(self._content) - whole
            if not half:
                return None
            try:
                Record.model_validate_json(self._content[whole:])
            except ValidationError:
                os.ftruncate(self._file, whole)
                del self._content[whole:]
                return (
                    f"{self.path}: the last line was half-written ({half} bytes); "
                    "it was removed and its case will be measured again"
                )
            self._content += b"\n"
            write_all(self._file, b"\n")
        return f"{self.path}: the last line had no line end; it was added"

    def read(
        self,
        say: Callable[[str], object] = warnings.warn,
        without: Collection[str] = (),
    ) -> list[Record]:
        """Read every record, and say in one sentence which lines are none and why: the others count.

        What a record derives from its samples is computed again; a line that states something else is none.

        A half-written last line is passed over: only ``repair`` changes the file. The lists that ``without`` names are
        checked and not kept, which saves room where there are many records.

        Raises:
            InputError: there is no such file, it cannot be read, or it has lines and none of them is a record.
        """
        return list(self.read_lines(say, without).values())

    def read_lines(
        self,
        say: Callable[[str], object] = warnings.warn,
        without: Collection[str] = (),
        *,
        refuse: bool = False,
    ) -> dict[int, Record]:
        """Read every record as ``read`` does, by the number of its line.

        Raises:
            InputError: as ``read``; where it is to ``refuse`` them, also a record states what its samples do not give.
        """
        bad: list[str] = []
        with _uncollected():
            records = {}
            for number, record in self._numbered(bad.append, intervals=True, refuse=refuse):
                for name in without:
                    record.__dict__[name] = NO_LIST
                records[number] = record
        if bad and not records:
            raise InputError(f"{self.path}, {bad[0]}; accepted: a file with records, which `gravbench run` writes")
        if bad:
            which = "1 line that is not a record" if len(bad) == 1 else f"{len(bad):,} lines that are not records"
            more = f"; and {len(bad) - MOST_SAID:,} more" if len(bad) > MOST_SAID else ""
            say(f"{self.path}: skipped {which}: {'; '.join(bad[:MOST_SAID])}{more}")
        return records

    def records(
        self,
        pass_over: Callable[[str], object] = lambda _: None,
        *,
        intervals: bool = True,
    ) -> Iterator[Record]:
        """Read one record after the other, and tell which lines are none and why; a half-written last one is not told.

        Without ``intervals``, which is faster, those that it states are taken as they are: nothing may be judged by
        them.

        Raises:
            InputError: there is no such file, or it cannot be read.
        """
        return (record for _, record in self._numbered(pass_over, intervals=intervals))

    def _numbered(
        self, pass_over: Callable[[str], object], *, intervals: bool, refuse: bool = False
    ) -> Iterator[tuple[int, Record]]:
        memory: dict[Hashable, Any] = {}
        try:
            with os.fdopen(open_file(self.path, os.O_RDONLY), "rb") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        if line.strip():
                            record = Record.of_line(line)
                            derived.check(record, intervals=intervals)
                            yield number, _shared(record, memory)
                    except derived.ContradictionError as error:
                        if refuse:
                            raise InputError(f"{self.path}, line {number}: {error}; {TO_MEASURE_AGAIN}") from error
                        pass_over(f"line {number}: {_why(error)}")
                    except ValueError as error:
                        if line.endswith(b"\n"):
                            pass_over(f"line {number}: {_why(error)}")
        except FileNotFoundError:
            raise InputError(f"{self.path}: no such file; gravbench run writes it") from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error


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


def _shared(record: Record, memory: dict[Hashable, Any]) -> Record:
    """Let equal values of many records be one: most have the same code, protocol and axes, and hold nothing else."""
    stored = record.__dict__
    for name in HASHES:
        stored[name] = memory.setdefault(stored[name], stored[name])
    for name in LISTS:
        if value := stored[name]:
            stored[name] = memory.setdefault(tuple(value), value)
    for name in MAPPINGS:
        if value := stored[name]:
            # 1, 1.0 and True are equal in Python, and different values of an axis.
            stored[name] = memory.setdefault((*value, *value.values(), *map(type, value.values())), value)
    for name in SELDOM:
        if not (value := stored[name]):
            stored[name] = NO_LIST if isinstance(value, list) else NO_MAPPING
    return record


def latest(records: Iterable[Record]) -> list[Record]:
    """Keep the newest record of each case on each device, and of a repeated anchor the first.

    A case that was skipped for want of a device is left out once some device has it.
    """
    kept: dict[tuple[Hashable, str | None], Record] = {}
    for record in records:
        if record.anchor <= 1:
            kept[record.identity, record.device_uuid or record.device] = record
    measured_keys = {key for key, device in kept if device is not None}
    return [record for (key, device), record in kept.items() if device is not None or key not in measured_keys]
