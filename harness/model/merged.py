"""A run that is to be merged, and whether its records are what its sweep plans for it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from gravbench.errors import InputError, listed
from gravbench.model import initial_conditions, interaction_files, rounding, runs, sources
from gravbench.model.device import Device
from gravbench.model.extent import Extent
from gravbench.model.generators import GENERATORS, generated_by
from gravbench.model.interaction import GRAVITY
from gravbench.model.limits import Count, Hash, Text
from gravbench.model.record import Record
from gravbench.model.regular import read_bytes
from gravbench.model.runs import ENVIRONMENT, RECORDS
from gravbench.model.shard import PATTERN, Shard, parse
from gravbench.model.variant import Variant, discover

MOST_GENERATED = 1 << 22
"""Bodies above which they are not generated again: it takes seconds and a gigabyte."""
FEWEST_DISTINCT = 16
"""Bodies from which another seed makes other ones: a single one is at rest at the origin."""


class Start(BaseModel, frozen=True):
    """What has to be known of each start of a run: of which sweep, which shard of it, by which gravbench."""

    harness_version: Text
    config: Text = "merged"
    sweep_sha256: Hash | None = None
    shard: Annotated[str, Field(pattern=PATTERN)] | None = None
    planned: Count | None = None
    sweep: Extent | None = None
    devices: list[dict[str, Any]] = Field(default_factory=list)
    generated_by: dict[str, Text] = Field(default_factory=dict)

    @property
    def part(self) -> Shard | None:
        """The shard, None of a whole sweep."""
        return parse(self.shard) if self.shard else None

    @property
    def keys(self) -> set[str]:
        """The keys of the cases that it was to measure."""
        return self.sweep.planned(self.part) if self.sweep else set()


@dataclass(frozen=True, slots=True)
class Source:
    """A run to be merged: its records, what environment.json has of its starts, and what is known of these."""

    folder: Path
    records: list[Record]
    entries: list[dict[str, Any]]
    starts: list[Start]
    shards: frozenset[Shard]

    @property
    def lacking(self) -> int:
        """How many results were planned that are not there: the run was stopped before its end."""
        planned: dict[str | None, int] = {}
        for start in self.starts:
            planned[start.shard] = max(start.planned or 0, planned.get(start.shard, 0))
        keys = set[str]().union(*(start.keys for start in self.starts))
        without = len(keys.difference(record.key for record in self.records))
        return max(sum(planned.values()) - len(runs.latest(self.records)), without)

    def line_of(self, record: Record) -> str:
        """Say in which line of which file a record stands."""
        path = self.folder / RECORDS
        for number, line in enumerate(read_bytes(path).splitlines(), 1):
            with contextlib.suppress(ValueError):
                if Record.of_line(line) == record:
                    return f"{path}, line {number}"
        return str(path)


def check_starts(source: Source) -> None:
    """Make sure that what each start of a run planned follows from its sweep, its shard and its devices.

    Raises:
        InputError: it does not.
    """
    path = source.folder / ENVIRONMENT
    for start in source.starts:
        assert start.sweep is not None
        if start.sweep.sha256 != start.sweep_sha256:
            raise InputError(
                f"{path}: sweep_sha256 is not the hash of the cases and settings in sweep; restore the file"
            )
        cases = len(start.keys)
        # Each kind of GPU measures every case.
        kinds = {(device.get("name"), device.get("driver")) for device in start.devices if _is_gpu(device)}
        most = cases * max(len(kinds), 1)
        if start.planned is not None and not cases <= start.planned <= most:
            accepted = f"{cases:,}" if cases == most else f"{cases:,} to {most:,}"
            of = f"shard {start.shard}" if start.shard else "the sweep"
            raise InputError(f"{path}: planned is {start.planned:,}; accepted: {accepted}, the cases of {of}")


def _is_gpu(device: dict[str, Any]) -> bool:
    return Device(str(device.get("selector")), "").is_gpu


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
        own = listed(map(str, sorted(source.shards)))
        raise InputError(f"{where}: {record.label} is a case of another shard than {own}; remove the line")


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
        error = record.error_max if record.error_magnitude_max is None else record.error_magnitude_max
        error = record.error_cycle_max if record.cycle > 1 else error
        most = _tolerated(record, variant)
        if error is not None and error > most:
            raise InputError(
                f"{source.line_of(record)}: the largest error is {error:.2g} and the status ok; accepted: up to "
                f"{most:.2g}, the tolerance of {record.variant}; measure it again"
            )


def _tolerated(record: Record, variant: Variant) -> float:
    """Return the largest accepted error of a body, relative to the magnitudes of the pulls; infinity if not known."""
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


def check_bodies(runs_to_merge: Sequence[Source], say: Callable[[str], object]) -> None:
    """Make sure that the bodies of each result are those that its generator makes of its seed.

    That is decided where the run's host and this one generate the same bits; ``say`` is told of the other runs. Bodies
    from files are not here.

    Raises:
        InputError: they are not.
    """
    owners: dict[str, tuple[object, Record]] = {}
    for source in runs_to_merge:
        made = _generated(source)
        for bodies, records in made.items():
            for record in records:
                assert record.bodies_sha256 is not None
                other, first = owners.setdefault(record.bodies_sha256, (bodies, record))
                if other != bodies and record.n >= FEWEST_DISTINCT <= first.n:
                    raise InputError(
                        f"{source.line_of(record)}: bodies_sha256 is that of other bodies, those of {first.bodies} "
                        f"n={first.n} seed={first.seed}; measure it again"
                    )
        if not made:
            continue
        if not _generates_alike(source):
            say(
                f"{source.folder}: its bodies were generated with another NumPy, C library or processor, whose last "
                "bits may differ, so the hashes of its bodies are not checked"
            )
            continue
        for records in made.values():
            _check_hashes(source, records)


def _generated(source: Source) -> dict[Hashable, list[Record]]:
    """Return the records with a hash of generated bodies, by what these are made of."""
    found: dict[Hashable, list[Record]] = {}
    for record in source.records:
        if record.bodies in GENERATORS and not record.bodies_file_sha256 and record.bodies_sha256 is not None:
            made_of = record.bodies, record.n, record.seed, record.eps, record.planar
            found.setdefault(made_of, []).append(record)
    return found


def _generates_alike(source: Source) -> bool:
    here = generated_by()
    # The workers of another host, as HOST:cuda:0, may have another processor than the host that started the run.
    remote = any(str(device.get("selector")).count(":") > 1 for start in source.starts for device in start.devices)
    return not remote and all(start.generated_by == here for start in source.starts)


def _check_hashes(source: Source, records: Sequence[Record]) -> None:
    if records[0].n > MOST_GENERATED:
        return
    expected = initial_conditions.of_case(records[0]).sha256
    for record in records:
        if record.bodies_sha256 != expected:
            raise InputError(
                f"{source.line_of(record)}: bodies_sha256 is {str(record.bodies_sha256)[:8]}..., but {record.bodies} "
                f"n={record.n} seed={record.seed} makes {expected[:8]}...; measure it again"
            )
