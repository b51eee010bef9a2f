"""The extent of a run: which cases its sweep has, which of them are a shard's, and how they are measured.

``environment.json`` records it for each start of a run, so that nobody takes the records of another sweep for its.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, Field

from gravbench.model.shard import Shard

Keys = Annotated[str, Field(pattern=r"^([0-9a-f]{16}( [0-9a-f]{16})*)?$")]
"""Keys of cases (``Case.key``), separated by blanks: a list would fill a line for each case."""


def sha256_of(keys: Iterable[str], measure: Mapping[str, Any], flops_per_interaction: Mapping[str, float]) -> str:
    """Return what tells a sweep from others: the hash of its cases in any order and of how they are measured."""
    described = [sorted(keys), measure, flops_per_interaction]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


class Extent(BaseModel, frozen=True):
    """What one start of a run was to measure.

    ``dealt`` are the keys of all cases of the sweep in the order in which shards take them, ``left_out`` those for
    which none of the devices that were chosen by hand is fit. ``measure`` is without the limits of a host.
    """

    dealt: Keys
    left_out: Keys = ""
    measure: dict[str, Any]
    flops_per_interaction: dict[str, float]

    @classmethod
    def of(
        cls,
        keys: Sequence[str],
        left_out: Iterable[str],
        measure: Mapping[str, Any],
        flops_per_interaction: Mapping[str, float],
    ) -> Extent:
        """Make it of keys in lists."""
        return cls(
            dealt=" ".join(keys),
            left_out=" ".join(sorted(left_out)),
            measure=dict(measure),
            flops_per_interaction=dict(flops_per_interaction),
        )

    @cached_property
    def cases(self) -> list[str]:
        """The keys of all cases of the sweep."""
        return self.dealt.split()

    def share(self, shard: Shard | None) -> list[str]:
        """Return the keys of the cases of a shard, of all cases without one."""
        return self.cases[shard.number - 1 :: shard.count] if shard else self.cases

    def planned(self, shard: Shard | None) -> set[str]:
        """Return the keys of the cases that this start was to measure."""
        return set(self.share(shard)).difference(self.left_out.split())

    @property
    def sha256(self) -> str:
        """The hash of the sweep, which all of its shards share."""
        return sha256_of(self.cases, self.measure, self.flops_per_interaction)

    def differences(self, other: Extent) -> Iterator[str]:
        """Say in a few words each in what another sweep differs, as ``other`` stands here and this one there."""
        here, there = set(other.cases), set(self.cases)
        if here != there:
            shared = f"{len(here & there):,} of which are the same"
            yield f"the run has {_cases(len(there))} and this sweep {_cases(len(here))}, {shared}"
        for part in ("measure", "flops_per_interaction"):
            mine, others = getattr(self, part), getattr(other, part)
            for name in sorted({*mine, *others}):
                if mine.get(name) != others.get(name):
                    field = f"{part}.{name}".rstrip(".")
                    yield f"{field} is {mine.get(name)} in the run and {others.get(name)} in this sweep"


def _cases(count: int) -> str:
    return f"{count:,} case{'s' * (count != 1)}"
