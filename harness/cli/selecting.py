"""Options that select records of a run: n, variant and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.report.chosen import Chosen

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


def chosen(sizes: str | None, variants: Sequence[str] | None, device: str | None) -> Chosen:
    """Read the options.

    Raises:
        InputError: a number of bodies is none.
    """
    from gravbench.config.override import parse
    from gravbench.report.chosen import Chosen

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
