"""Options that select records of a run, n, variant and device, and those that say what is asked of the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.report.chosen import Chosen
    from gravbench.verdicts.question import Question

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

ErrorOption = Annotated[
    float | None,
    typer.Option("--error", help="The relative error to accept in one evaluation (default: 1e-3).", min=0),
]
QuantileOption = Annotated[
    float | None,
    typer.Option(
        "--quantile",
        help="The fraction of the bodies that --error applies to: 0.5, 0.9, 0.99 or 1, which is all of them "
        "(default: 0.99).",
    ),
]


def chosen(sizes: str | None, variants: Sequence[str] | None, device: str | None) -> Chosen:
    """Read the options.

    Raises:
        InputError: a number of bodies is none.
    """
    from gravbench.report.chosen import Chosen

    return Chosen(tuple(sizes_of(sizes) if sizes is not None else ()), tuple(variants or ()), device)


def sizes_of(text: str) -> list[int]:
    """Read the numbers of bodies of an option ``--n``.

    Raises:
        InputError: one of them is none.
    """
    from gravbench.config.numbers import abbreviated
    from gravbench.config.override import parse

    try:
        values = parse(f"n={text}").values
    except InputError as error:
        raise InputError(str(error).replace("-p n=", "--n ", 1)) from None
    sizes: list[int] = []
    for value in values:
        size = abbreviated(value) if isinstance(value, str) else value
        if isinstance(size, bool) or not isinstance(size, int):
            accepted = "whole numbers such as 65536 or 2^16"
            raise InputError(f"--n {text}: {value} is not a number of bodies; accepted: {accepted}")
        sizes.append(size)
    return sizes


def question_of(error: float | None, quantile: float | None) -> Question:
    """Return the question of what is fastest, with the usual error and quantile where none is given.

    Raises:
        InputError: records have no such quantile.
    """
    from gravbench.verdicts.question import USUAL, check_quantile

    if quantile is not None:
        check_quantile(quantile)
    return replace(
        USUAL,
        error=USUAL.error if error is None else error,
        quantile=USUAL.quantile if quantile is None else quantile,
    )
