"""Make one run of several that were measured apart: the shards of a sweep, or one sweep on several hosts.

What does not belong together is refused, with the reason: a merged run has to be what one run would have been.
"""

from __future__ import annotations

import datetime
import hashlib
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
from gravbench.model.merged import (
    Source,
    Start,
    check_bodies,
    check_cases,
    check_devices,
    check_moments,
    check_starts,
    check_tolerances,
)
from gravbench.model.method import method_words
from gravbench.model.record import Record
from gravbench.model.regular import saying, write_whole
from gravbench.model.runs import ENVIRONMENT, RECORDS, TO_MEASURE_AGAIN, RecordFile
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
        say: is given a sentence about what is no record, about what cannot be checked, and about cases that no device
            was fit for.

    Raises:
        InputError: the runs do not belong together, one cannot be read or is being written, something is missing and
            not ``partial``, or ``out`` exists or cannot be written.
    """
    if out is not None and os.path.lexists(out):
        raise InputError(f"--out {out}: exists already; accepted: the name of a folder that does not exist yet")
    _told_apart(folders)
    sources = [_read(folder, say) for folder in folders]
    for source in sources:
        check_starts(source)
    _of_one_sweep(sources)
    for source in sources:
        check_cases(source)
        check_devices(source)
        check_tolerances(source)
    check_moments(sources)
    missing = _missing(sources)
    if missing and not partial:
        raise InputError(f"{'; '.join(missing[:3])}; merge it all the same with --partial")
    check_bodies(sources, say)
    _of_same_input(sources)
    if count := len(_left_out(sources)):
        cases = "1 case was" if count == 1 else f"{count:,} cases were"
        say(f"{cases} left out, because no chosen device fits")
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
    lines: dict[int, Record] = {}
    # A run that begins while its records are read is seen by the second look.
    for step in ("before", "after"):
        if holder := writer(folder):
            raise InputError(f"{folder}: {holder} is writing to it; merge it when that run has finished")
        if step == "before":
            lines = RecordFile(folder).read_lines(say, refuse=True)
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
    return Source(folder, lines, entries, starts, frozenset(shards))


def _of_one_sweep(sources: Sequence[Source]) -> None:
    """Refuse runs of several sweeps, by several versions, or of parts that do not make a whole."""
    stated: dict[str, tuple[Path, object]] = {}

    def agree(source: Source, what: str, value: object, advice: str) -> None:
        folder, other = stated.setdefault(what, (source.folder, value))
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
            assert start.sweep is not None
            agree(
                source,
                "the sweep that was measured",
                start.sweep.sha256[:8],
                "accepted: runs of one configuration, with the same options and the same files",
            )
            dealt = hashlib.sha256(start.sweep.dealt.encode()).hexdigest()[:8]
            agree(source, "the order in which shards take the cases", dealt, f"restore sweep.dealt in {ENVIRONMENT}")
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
    sentences = []
    if lacking := count - len(there):
        sentences.append(f"of {count:,} shards {lacking:,} {'is' if lacking == 1 else 'are'} missing: {listed(some)}")
    return sentences + [_lacking(source) for source in sources if source.lacking]


def _lacking(source: Source) -> str:
    """Say how many results of a run are not there, and why."""
    if source.searched:
        return (
            f"{source.folder}: at least {source.lacking:,} of its results are missing, which its search left out "
            "unless it was stopped early"
        )
    return (
        f"{source.folder} was stopped early: at least {source.lacking:,} of its results are missing, "
        "which `gravbench run` with --resume measures"
    )


def _left_out(sources: Sequence[Source]) -> set[str]:
    """Return the keys of the cases that no run was to measure or measured, although they are in the share of one."""
    starts = [start for source in sources for start in source.starts]
    shares = {key for start in starts if start.sweep for key in start.sweep.share(start.part)}
    measured = (record.key for source in sources for record in source.records)
    return shares.difference(measured, *(start.keys for start in starts))


def _of_same_input(sources: Sequence[Source]) -> None:
    """Refuse runs that computed other bodies or ran other code where the cases are to differ in neither."""
    known: dict[Hashable, tuple[str, Source, Record]] = {}

    def same(source: Source, record: Record, key: Hashable, sha256: str | None, what: str, advice: str) -> None:
        if sha256 is None:
            return
        other, first, earlier = known.setdefault(key, (sha256, source, record))
        if other != sha256 and first is not source:
            where = f"{first.line_of(earlier)} and {source.line_of(record)}"
            raise InputError(f"{where} differ in {what} ({other[:8]}, {sha256[:8]}); {advice}")

    for source in sources:
        for record in runs.latest(source.records):
            made_of = "bodies", *(record.part(name) for name in BODIES), record.n, record.planar
            what = f"the bodies that {record.bodies} n={record.n} seed={record.seed} makes"
            same(source, record, made_of, record.bodies_sha256, what, f"where it is wrong, {TO_MEASURE_AGAIN}")
            ran = "code", *(record.part(name) for name in CODE)
            sha256 = record.code_sha256 or record.source_sha256
            what = f"the source of {record.variant} in {record.toolkit}"
            same(source, record, ran, sha256, what, "continue one run with --resume, with the source of the other")


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
    for folder, record in heapq.merge(*renumbered, key=lambda pair: _moment(pair[1])):
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
