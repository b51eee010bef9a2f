"""Make one run of several that were measured apart: the shards of a sweep, or one sweep on several hosts.

What does not belong together is refused, with the reason: a merged run has to be what one run would have been.
"""

from __future__ import annotations

import datetime
import heapq
import json
import os
import shutil
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.errors import InputError, listed
from gravbench.model import runs
from gravbench.model.case import PARTS
from gravbench.model.limits import printable
from gravbench.model.lock import writer
from gravbench.model.merged import Source, Start, check_bodies, check_cases, check_starts, check_tolerances
from gravbench.model.method import method_words
from gravbench.model.record import Record
from gravbench.model.regular import saying, write_whole
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.shard import Shard, parse

BODIES = [name for name, part in PARTS.items() if part.kind == "bodies"]
CODE = ["variant", "toolkit", *(name for name, part in PARTS.items() if part.kind == "work" and name != "dt")]


@dataclass(frozen=True, slots=True)
class Merged:
    """What was merged into a folder: how many records, of how many cases, and a sentence about each thing missing."""

    folder: Path
    records: int
    cases: int
    missing: list[str]


def merge(folders: Sequence[Path], out: Path | None, *, partial: bool = False, say: Callable[[str], object]) -> Merged:
    """Write the records and the environments of several runs to one new folder, and leave theirs as they are.

    Records that are identical are kept once. Processes get new numbers, so that those of different folders differ; the
    repetitions of an anchor that several folders have are numbered in the order in which they were started. The result
    does not depend on the order of ``folders``.

    Args:
        folders: those of the runs; a merged run is one too.
        out: the folder to make; by default reports/CONFIG-DATE-TIME.
        partial: accept that shards are missing, or results of a run that was stopped.
        say: is given a sentence about the lines of a run that are no records.

    Raises:
        InputError: the runs do not belong together, one cannot be read or is being written, something is missing and
            not ``partial``, or ``out`` exists or cannot be written.
    """
    if out is not None and os.path.lexists(out):
        raise InputError(f"--out {out}: exists already; accepted: the name of a folder that does not exist yet")
    _told_apart(folders)
    sources = [_read(folder, say) for folder in folders]
    _of_one_sweep(sources)
    missing = _missing(sources)
    if missing and not partial:
        raise InputError(f"{'; '.join(missing[:3])}; merge it all the same with --partial")
    for source in sources:
        check_starts(source)
        check_cases(source)
        check_tolerances(source)
    _of_same_input(sources)
    check_bodies(sources, say)
    sources.sort(key=_place)
    records = _numbered(sources)
    entries = [entry for source in sources for entry in source.entries]
    if out is None:
        out = runs.new_folder(printable(Path(sources[0].starts[-1].config).stem) or "merged")
    else:
        with saying(out, "cannot be made"):
            out.mkdir(parents=True)
    _write(out, records, entries)
    return Merged(out, len(records), len({record.key for record in records}), missing)


def _told_apart(folders: Sequence[Path]) -> None:
    known: dict[Path, Path] = {}
    for folder in folders:
        if (same := known.setdefault(folder.resolve(), folder)) is not folder:
            raise InputError(f"{folder}: is the same folder as {same}; accepted: each run once")


def _read(folder: Path, say: Callable[[str], object]) -> Source:
    records: list[Record] = []
    # A run that begins while its records are read is seen by the second look.
    for step in ("before", "after"):
        if holder := writer(folder):
            raise InputError(f"{folder}: {holder} is writing to it; merge it when that run has finished")
        if step == "before":
            records = RecordFile(folder).read(say, intervals=True, refuse=True)
    path = folder / ENVIRONMENT
    entries = runs.starts(folder)
    if not entries:
        raise InputError(f"{path}: is missing or empty, so the sweep is not known")
    try:
        starts = [Start.model_validate(entry) for entry in entries]
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{path}: {where} is not what `gravbench run` writes there; repair it") from None
    shards = {parse(start.shard, f"{path}: shard") for start in starts if start.shard}
    if shards and not all(start.shard for start in starts):
        raise InputError(
            f"{path}: some of its starts belong to a shard and others to a whole sweep; accepted: one or the other"
        )
    return Source(folder, records, entries, starts, frozenset(shards))


def _of_one_sweep(sources: Sequence[Source]) -> None:
    """Refuse runs of several sweeps, by several versions, or of parts that do not make a whole."""
    said: dict[str, tuple[Path, object]] = {}

    def agree(source: Source, what: str, value: object, advice: str) -> None:
        folder, other = said.setdefault(what, (source.folder, value))
        if other != value:
            where = f"{folder} and {source.folder}" if folder != source.folder else f"the starts of {folder}"
            raise InputError(f"{where} differ in {what} ({other!s:.40}, {value!s:.40}); {advice}")

    for source in sources:
        versions = [start.harness_version for start in source.starts]
        for version in dict.fromkeys([*versions, *(record.harness_version for record in source.records)]):
            agree(source, "the version of gravbench", version, "measure all with one version")
        for method in dict.fromkeys(record.method for record in runs.latest(source.records)):
            agree(source, "the method", method_words(method), "measure all with one version")
        for start in source.starts:
            if start.sweep_sha256 is None or start.sweep is None:
                raise InputError(
                    f"{source.folder / ENVIRONMENT}: does not record which sweep was measured, as in older versions of "
                    "gravbench; measure it again"
                )
            agree(
                source,
                "the sweep that was measured",
                start.sweep_sha256[:8],
                "accepted: runs of one configuration, with the same options and the same files",
            )
        agree(source, "what they are", "shards" if source.shards else "whole runs", "accepted: one or the other")
        for shard in sorted(source.shards):
            agree(source, "the number of shards", shard.count, "accepted: shards K/N of one N")
    held: dict[Shard, Path] = {}
    for source in sources:
        for shard in sorted(source.shards):
            if shard in held:
                raise InputError(f"{held[shard]} and {source.folder} are both shard {shard}; accepted: each shard once")
            held[shard] = source.folder


def _missing(sources: Sequence[Source]) -> list[str]:
    """Say which shards are not there, and which runs were stopped before their end."""
    shards = {shard for source in sources for shard in source.shards}
    count = max((shard.count for shard in shards), default=0)
    there = {shard.number for shard in shards}
    # A count that somebody wrote may be a billion.
    some = [f"{number}/{count}" for number in range(1, min(count, len(there) + 1000) + 1) if number not in there]
    found = []
    if lacking := count - len(there):
        found.append(f"of {count:,} shards {lacking:,} {'is' if lacking == 1 else 'are'} missing: {listed(some)}")
    return found + [
        f"{source.folder} was stopped early: at least {source.lacking:,} of its results are missing, "
        "which `gravbench run` with --resume measures"
        for source in sources
        if source.lacking
    ]


def _of_same_input(sources: Sequence[Source]) -> None:
    """Refuse runs that computed other bodies or ran other code where the cases are to differ in neither."""
    bodies: dict[object, tuple[str, Path]] = {}
    code: dict[object, tuple[str, Path]] = {}

    def same(known: dict[object, tuple[str, Path]], key: object, sha256: str | None, folder: Path, what: str) -> None:
        if sha256 is None:
            return
        other, first = known.setdefault(key, (sha256, folder))
        if other != sha256 and first != folder:
            raise InputError(
                f"{first} and {folder} differ in {what} ({other[:8]}, {sha256[:8]}); measure one of them again"
            )

    for source in sources:
        for record in runs.latest(source.records):
            own = *(record.part(name) for name in BODIES), record.n, record.planar
            what = f"the bodies that {record.bodies} n={record.n} seed={record.seed} makes"
            same(bodies, own, record.bodies_sha256, source.folder, what)
            ran = tuple(record.part(name) for name in CODE)
            sha256 = record.code_sha256 or record.source_sha256
            same(code, ran, sha256, source.folder, f"the source of {record.variant} in {record.toolkit}")


def _place(source: Source) -> tuple[list[Shard], float, str]:
    return sorted(source.shards), min(map(_moment, source.records), default=0.0), str(source.folder)


def _moment(record: Record) -> float:
    return datetime.datetime.fromisoformat(record.started).timestamp()


def _numbered(sources: Iterable[Source]) -> list[Record]:
    """Return the records in the order in which they were started, each once, with numbers as one run has them.

    Those of one source keep their order, whatever its clock did.
    """
    renumbered: list[list[tuple[Path, Record]]] = []
    processes = 0
    for source in sources:
        numbers = sorted({number for record in source.records for number in record.processes})
        new = {number: place for place, number in enumerate(numbers, processes + 1)}
        processes += len(numbers)
        renumbered.append([
            (source.folder, record.model_copy(update={"processes": [new[number] for number in record.processes]}))
            for record in source.records
        ])  # fmt: skip
    once: dict[str, Record] = {}
    repeated: dict[Hashable, list[tuple[Path, str]]] = {}
    for folder, record in heapq.merge(*renumbered, key=lambda one: _moment(one[1])):
        # The numbers are not of the measurement: a run that was merged before has others.
        which = record.model_dump_json(exclude={"processes", "anchor"})
        if once.setdefault(which, record) is record and record.anchor:
            repeated.setdefault(record.what_ran, []).append((folder, which))
    for anchors in repeated.values():
        if len({folder for folder, _ in anchors}) > 1:
            for number, (_, which) in enumerate(anchors, 1):
                once[which] = once[which].model_copy(update={"anchor": number})
    return list(once.values())


def _write(out: Path, records: Sequence[Record], entries: Sequence[Mapping[str, Any]]) -> None:
    """Fill a new folder, its records last and moved into place: a folder without them is no run."""
    lines = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
    contents = {ENVIRONMENT: (json.dumps(entries, indent=2) + "\n").encode(), RECORDS: lines}
    try:
        for name, content in contents.items():
            write_whole(out / name, content)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
