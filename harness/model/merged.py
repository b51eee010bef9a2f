"""A run that is to be merged, and whether its records are what its sweep plans for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from gravbench.errors import InputError, listed
from gravbench.model import initial_conditions, interaction_files, rounding, runs, sources
from gravbench.model.device import Device
from gravbench.model.extent import Extent
from gravbench.model.generated_bodies import generated_by, is_generated
from gravbench.model.interaction import GRAVITY
from gravbench.model.limits import Count, Hash, Text
from gravbench.model.record import Record
from gravbench.model.runs import ENVIRONMENT, RECORDS, TO_MEASURE_AGAIN
from gravbench.model.shard import PATTERN, Shard, parse
from gravbench.model.variant import Variant, discover

MOST_GENERATED = 1 << 22
"""Bodies above which they are not generated again: it takes seconds and a gigabyte."""
FEWEST_DISTINCT = 16
"""Bodies from which another seed makes other ones: a single one is at rest at the origin."""
NOT_MEASURED = {"processes", "anchor", "counters", "counters_unavailable"}
"""Fields in which two records of one measurement may differ: counters are added later, and merged runs are numbered."""


class Start(BaseModel, frozen=True):
    """What has to be known of each start of a run: of which sweep, which shard of it, by which gravbench."""

    harness_version: Text
    config: Text = "merged"
    sweep_sha256: Hash | None = None
    shard: Annotated[str, Field(pattern=PATTERN)] | None = None
    planned: Count | None = None
    sweep: Extent | None = None
    search: dict[str, Any] | None = None
    devices: list[Device] = Field(default_factory=list)
    generated_by: dict[str, Text] = Field(default_factory=dict)

    @property
    def part(self) -> Shard | None:
        """The shard, None of a whole sweep."""
        return parse(self.shard) if self.shard else None

    @property
    def keys(self) -> set[str]:
        """The keys of the cases that it was to measure."""
        return self.sweep.planned(self.part) if self.sweep else set()

    @property
    def kinds(self) -> int:
        """How many kinds of GPUs, or of processors if these are more, it was to measure every case on."""
        kinds = Counter(family for _, _, family in {device.kind for device in self.devices})
        return max(kinds.values(), default=1)


@dataclass(frozen=True, slots=True)
class Source:
    """A run to be merged: its records by their lines, what environment.json has of its starts, and what it means."""

    folder: Path
    lines: Mapping[int, Record]
    entries: list[dict[str, Any]]
    starts: list[Start]
    shards: frozenset[Shard]

    @property
    def records(self) -> list[Record]:
        """All of its records, in their order."""
        return list(self.lines.values())

    @property
    def keys(self) -> set[str]:
        """The keys of the cases that it was to measure."""
        return set[str]().union(*(start.keys for start in self.starts))

    @property
    def lacking(self) -> int:
        """How many results were planned that are not there: the run was stopped before its end, or was a search."""
        planned: dict[str | None, int] = {}
        for start in self.starts:
            planned[start.shard] = max(start.planned or 0, planned.get(start.shard, 0))
        without = len(self.keys.difference(record.key for record in self.records))
        return max(sum(planned.values()) - len(runs.latest(self.records)), without)

    @property
    def searched(self) -> bool:
        """Whether a search chose which of the planned cases it measures."""
        return any(start.search for start in self.starts)

    def line_of(self, record: Record) -> str:
        """Say in which line of which file a record stands."""
        number = next(number for number, read in self.lines.items() if read is record)
        return f"{self.folder / RECORDS}, line {number}"


def check_starts(source: Source) -> None:
    """Make sure that what each start of a run planned follows from its sweep, its shard and its devices.

    Raises:
        InputError: it does not, or is not known.
    """
    path = source.folder / ENVIRONMENT
    for start in source.starts:
        if start.sweep_sha256 is None or start.sweep is None:
            lacks = "which sweep was measured" if start.sweep_sha256 is None else "the list of the cases of its sweep"
            raise InputError(
                f"{path}: does not record {lacks}, as in older versions of gravbench; measure it again, in a new folder"
            )
        if start.sweep.sha256 != start.sweep_sha256:
            raise InputError(
                f"{path}: sweep_sha256 is not the hash of the cases and settings in sweep; restore the file"
            )
        cases = len(start.keys)
        most = cases * start.kinds
        if start.planned is not None and not cases <= start.planned <= most:
            accepted = f"{cases:,}" if cases == most else f"{cases:,} to {most:,}"
            of = f"shard {start.shard}" if start.shard else "the sweep"
            raise InputError(f"{path}: planned is {start.planned:,}; accepted: {accepted}, the cases of {of}")


def check_cases(source: Source) -> None:
    """Make sure that every record of a run is of a case that its sweep has, and gives to its shard.

    Raises:
        InputError: one is not.
    """
    of_shards: set[str] = set()
    of_sweep: set[str] = set()
    for start in source.starts:
        assert start.sweep is not None
        of_shards.update(start.sweep.share(start.part))
        of_sweep.update(start.sweep.cases)
    for record in source.records:
        if record.key in of_shards:
            continue
        where = source.line_of(record)
        if record.key not in of_sweep:
            raise InputError(
                f"{where}: the sweep has no case {record.label}; remove the line, or merge it with its sweep"
            )
        shards = listed(map(str, sorted(source.shards)))
        raise InputError(f"{where}: {record.label} is a case of another shard than {shards}; remove the line")


def check_devices(source: Source) -> None:
    """Make sure that every record of a run is of a device that it had, if of any.

    Raises:
        InputError: one is not.
    """
    devices = [device for start in source.starts for device in start.devices]
    known = {(device.name, device.uuid, device.driver) for device in devices}
    for record in source.records:
        stated = record.device, record.device_uuid, record.driver
        if stated != (None, None, None) and stated not in known:
            words = ", ".join(str(word) for word in stated if word is not None)
            names = listed(dict.fromkeys(device.name for device in devices)) or "none"
            raise InputError(
                f"{source.line_of(record)}: no device of the run is {words}; accepted: what {ENVIRONMENT} has "
                f"({names}); {TO_MEASURE_AGAIN}"
            )


def check_moments(sources: Iterable[Source]) -> None:
    """Make sure that no two results say that they are the same measurement: of one case, device and moment.

    Raises:
        InputError: two do, and differ.
    """
    known: dict[Hashable, tuple[Source, Record]] = {}
    for source in sources:
        for record in source.records:
            if not record.samples_seconds:
                continue
            moment = record.key, record.device_uuid or record.device, record.started
            first, other = known.setdefault(moment, (source, record))
            if other is not record and _measured(other) != _measured(record):
                raise InputError(
                    f"{first.line_of(other)} and {source.line_of(record)} are two results of {record.label} that began "
                    f"at {record.started}; remove the line that is wrong"
                )


def _measured(record: Record) -> str:
    # As text, NaN is equal to NaN.
    return record.model_dump_json(exclude=NOT_MEASURED)


def check_tolerances(source: Source) -> None:
    """Make sure that no result that is ok has an error above the tolerance of its variant.

    Of a variant that is not here, or whose code is another, the tolerance is not known.

    Raises:
        InputError: one has.
    """
    variants = discover()
    for record in source.records:
        variant = variants.get(record.variant)
        if record.status != "ok" or variant is None:
            continue
        if record.cycle > 1 and variant.approximates is None:
            raise InputError(
                f"{source.line_of(record)}: a cycle of {record.cycle}; accepted: 1, because {record.variant} computes "
                f"all pairs in each launch; {TO_MEASURE_AGAIN}"
            )
        if record.cycle > 1 and record.error_cycle_max is None:
            raise InputError(f"{source.line_of(record)}: error_cycle_max: none, of a cycle of {record.cycle}")
        error = record.error_max if record.error_magnitude_max is None else record.error_magnitude_max
        error = record.error_cycle_max if record.cycle > 1 else error
        most = _tolerated(record, variant)
        if error is not None and error > most:
            raise InputError(
                f"{source.line_of(record)}: the largest error is {error:.2g} and the status ok; accepted: up to "
                f"{most:.2g}, the tolerance of {record.variant}; {TO_MEASURE_AGAIN}"
            )


def _tolerated(record: Record, variant: Variant) -> float:
    """Return the largest accepted error of a body, relative to the magnitudes of contributions; infinity if unknown."""
    try:
        if record.interaction_sha256 or record.code_sha256 != sources.code_sha256(record, variant):
            return math.inf
        tolerance = variant.accepted(record.dtype, record.axes)
    except (InputError, KeyError):  # no such interaction, or no such axis, in this version
        return math.inf
    factor = interaction_files.find(record.interaction).tolerance
    if not tolerance.of_rounding:
        return factor * tolerance.max
    if record.interaction != GRAVITY:
        return math.inf
    return factor * rounding.largest_accepted(record.n, record.dtype)


def check_bodies(sources_to_merge: Sequence[Source], say: Callable[[str], object]) -> None:
    """Make sure that the bodies of each result are those that its generator makes of its seed.

    That is decided where the run's host and this one generate the same bits, of bodies that are generated soon enough;
    ``say`` is told of the others. Bodies from files are not here.

    Raises:
        InputError: they are not.
    """
    owners: dict[str, tuple[object, Record]] = {}
    for source in sources_to_merge:
        made = _generated(source)
        for bodies, records in made.items():
            for record in records:
                assert record.bodies_sha256 is not None
                other, first = owners.setdefault(record.bodies_sha256, (bodies, record))
                if other != bodies and record.n >= FEWEST_DISTINCT <= first.n:
                    raise InputError(
                        f"{source.line_of(record)}: bodies_sha256 is that of other bodies, those of {first.bodies} "
                        f"n={first.n} seed={first.seed}; {TO_MEASURE_AGAIN}"
                    )
        if made and (why := _unlike(source)):
            say(f"{source.folder}: {why}, so the hashes of its bodies are not checked")
            continue
        small = [records for records in made.values() if records[0].n <= MOST_GENERATED]
        for records in small:
            _check_hashes(source, records)
        if len(small) < len(made):
            say(
                f"{source.folder}: the hashes of more than {MOST_GENERATED:,} bodies are not checked, because it takes "
                "long to generate these again"
            )


def _generated(source: Source) -> dict[Hashable, list[Record]]:
    """Return the records with a hash of generated bodies, by what these are made of."""
    by_case: dict[Hashable, list[Record]] = {}
    for record in source.records:
        if is_generated(record.bodies) and not record.bodies_file_sha256 and record.bodies_sha256 is not None:
            made_of = record.bodies, record.n, record.seed, record.eps, record.planar
            by_case.setdefault(made_of, []).append(record)
    return by_case


def _unlike(source: Source) -> str | None:
    """Say why this host may generate other last bits of bodies than those of a run; None where it does not."""
    if not all(start.generated_by for start in source.starts):
        return "it does not record what generated its bodies, as in older versions of gravbench"
    if any(start.generated_by != generated_by() for start in source.starts):
        return "its bodies were generated with another NumPy, C library or processor, whose last bits may differ"
    # The workers of another host, as HOST:cuda:0, may have another processor than the host that started the run.
    if any(device.selector.count(":") > 1 for start in source.starts for device in start.devices):
        return "its bodies were generated on other hosts, whose processors, and so their last bits, are not known"
    return None


def _check_hashes(source: Source, records: Sequence[Record]) -> None:
    expected = initial_conditions.of_case(records[0]).sha256
    for record in records:
        if record.bodies_sha256 != expected:
            raise InputError(
                f"{source.line_of(record)}: bodies_sha256 is {str(record.bodies_sha256)[:8]}..., but {record.bodies} "
                f"n={record.n} seed={record.seed} makes {expected[:8]}...; {TO_MEASURE_AGAIN}"
            )
