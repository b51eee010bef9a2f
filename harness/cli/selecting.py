"""Options that select records of a run: n, variant and device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.errors import InputError, listed, nearest

if TYPE_CHECKING:
    from gravbench.model.record import Record

SizesOption = Annotated[
    str | None, typer.Option("--n", metavar="N,N", help="Show only these numbers of bodies, e.g. 65536 or 2^14,2^16.")
]
VariantsOption = Annotated[
    list[str] | None,
    typer.Option("--variant", help="Show only this variant; repeat for more.", autocompletion=completion.variants),
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Show only this device: cpu, gpu, or part of a name or UUID.")
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a person selects of a run; what is empty or None selects everything."""

    sizes: tuple[int, ...] = ()
    variants: tuple[str, ...] = ()
    device: str | None = None

    def __bool__(self) -> bool:
        return bool(self.sizes or self.variants or self.device)

    def places(self, records: Sequence[Record]) -> list[Record]:
        """Keep the records of these n and this device, of every variant: gains are over variants not chosen, too.

        Raises:
            InputError: there are records, and none is left, or none is of a chosen variant.
        """
        from gravbench.verdicts.best import is_of

        if not records:
            return []
        there = sorted({record.n for record in records})
        if missing := [n for n in self.sizes if n not in there]:
            raise InputError(f"--n {missing[0]}: no record has this n; accepted: {listed(map(str, there))}")
        names = sorted({record.variant for record in records})
        for name in self.variants:
            if name not in names:
                raise InputError(f"--variant {name}: no record matches; {nearest(name, names)}")
        kept = [record for record in records if not self.sizes or record.n in self.sizes]
        if self.device is not None:
            devices = sorted({record.device for record in kept if record.device})
            kept = [record for record in kept if is_of(record, self.device)]
            if not kept:
                raise InputError(
                    f"--device {self.device}: no record matches; accepted: cpu, gpu, or a part of {listed(devices)}"
                )
        return kept

    def of(self, records: Iterable[Record]) -> list[Record]:
        """Keep the records of the chosen variants."""
        return [record for record in records if not self.variants or record.variant in self.variants]


def chosen(sizes: str | None, variants: Sequence[str] | None, device: str | None) -> Chosen:
    """Read the options.

    Raises:
        InputError: a number of bodies is none.
    """
    from gravbench.config.override import parse

    numbers: list[int] = []
    if sizes is not None:
        try:
            values = parse(f"n={sizes}").values
        except InputError as error:
            raise InputError(str(error).replace("-p n=", "--n ", 1)) from None
        from gravbench.config.numbers import abbreviated

        for value in values:
            number = abbreviated(value) if isinstance(value, str) else value
            if isinstance(number, bool) or not isinstance(number, int):
                raise InputError(
                    f"--n {sizes}: {value} is not a number of bodies; accepted: whole numbers such as 65536 or 2^16"
                )
            numbers.append(number)
    return Chosen(tuple(numbers), tuple(variants or ()), device)
