"""What of a run is shown: some n, variants and devices.

It is no filter of what is read: uncertainties, drifts and winners are those of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gravbench.errors import InputError, listed, nearest
from gravbench.model.record import Record
from gravbench.verdicts.ladder import Ladders
from gravbench.verdicts.question import is_of
from gravbench.verdicts.ranking import Drift


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a person selects of a run; what is empty or None selects everything."""

    sizes: tuple[int, ...] = ()
    variants: tuple[str, ...] = ()
    device: str | None = None

    def __bool__(self) -> bool:
        return bool(self.sizes or self.variants or self.device)

    def check(self, records: Sequence[Record]) -> None:
        """Check that ``records``, all of a run, have what was selected.

        Raises:
            InputError: there are records, and none is left, or none is of a chosen n or variant.
        """
        if not records:
            return
        there = sorted({record.n for record in records})
        if missing := [n for n in self.sizes if n not in there]:
            raise InputError(f"--n {missing[0]}: no record has this n; accepted: {listed(map(str, there))}")
        names = sorted({record.variant for record in records})
        for name in self.variants:
            if name not in names:
                raise InputError(f"--variant {name}: no record matches; {nearest(name, names)}")
        if not self.comparable(records):
            devices = sorted({record.device for record in records if record.device and self._has_size(record)})
            raise InputError(
                f"--device {self.device}: no record matches; accepted: cpu, gpu, or a part of {listed(devices)}"
            )

    def comparable(self, records: Iterable[Record]) -> list[Record]:
        """Keep the records of these n and this device, of every variant: gains are over variants not chosen, too."""
        return [record for record in records if self._has_size(record) and self._has_device(record)]

    def shown(self, records: Iterable[Record]) -> list[Record]:
        """Keep the records that are shown."""
        return list(filter(self.has, records))

    def has(self, record: Record) -> bool:
        """Tell whether a record is shown."""
        return self._has_size(record) and self._has_device(record) and self._has_variant(record)

    def rungs(self, ladders: Ladders) -> Ladders:
        """Keep the rungs that are shown."""
        kept = {
            shared: {n: [rung for rung in rungs if self.has(rung.best)] for n, rungs in by_n.items()}
            for shared, by_n in ladders.items()
        }
        there = {shared: {n: rungs for n, rungs in by_n.items() if rungs} for shared, by_n in kept.items()}
        return {shared: by_n for shared, by_n in there.items() if by_n}

    def drifts(self, drifts: Iterable[Drift]) -> list[Drift]:
        """Keep the drifts of the chosen device, whatever the n and the variant of the anchor."""
        return [drift for drift in drifts if self._has_device(drift.anchor)]

    def _has_size(self, record: Record) -> bool:
        return not self.sizes or record.n in self.sizes

    def _has_device(self, record: Record) -> bool:
        return self.device is None or is_of(record, self.device)

    def _has_variant(self, record: Record) -> bool:
        return not self.variants or record.variant in self.variants


EVERYTHING = Chosen()
