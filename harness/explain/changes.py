"""One change each that is made to the text of a kernel, or to how it is compiled or launched, to see what it costs.

Results of a changed kernel are wrong on purpose. What is changed in a text is what the variant declares as its
``operations``: where it declares none of a kind, a change does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gravbench.config.fitting import needed_by
from gravbench.errors import InputError
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Axes, AxisValue, Operations, Variant

BOUNDS = re.compile(r"__launch_bounds__\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
RSQRT = "inverse_sqrt("
"""What a reciprocal square root begins with."""
RSQRT_OF_PAIR = re.compile(r"\binverse_sqrt\(([^()]*)\)")
"""One of an interaction."""
REPLACED = "static_cast<real>(0.25) * ("
"""What stands where a reciprocal square root was: one multiplication."""
EPS2 = "eps2)"
"""What a call that adds an interaction ends with."""
NEVER = "static_cast<real>(1.25e33)"
OTHER_SOFTENING = "static_cast<real>(1.25)"
NO_RSQRT, NO_STAGING, NO_ADDITIONS = "no square root", "no staging", "no atomic additions"
TWICE = "each product twice"
CHANGING_RESULTS = (NO_RSQRT, NO_STAGING, NO_ADDITIONS, TWICE)
"""May not be made where results decide what is computed next."""
LEAST_REGISTERS = 24
WHOLE = 8
"""Registers are given to threads in groups of so many."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change: the text of a kernel after it, options of its compiler, and values of axes in place of others.

    ``rsqrts`` says how many reciprocal square roots, or what stands in their place, an interaction has.
    """

    name: str
    what: str
    text: str
    options: tuple[str, ...] = ()
    axes: Mapping[str, AxisValue] = field(default_factory=dict)
    rsqrts: int = 1


def changes(
    variant: Variant, axes: Axes, interaction: Interaction, registers: int
) -> tuple[list[Change], dict[str, str]]:
    """Return the changes that apply to a kernel with so many registers, and why the others do not, by name.

    Raises:
        InputError: an operation that the variant declares is not in its CUDA C.
    """
    source = variant.cuda_source(interaction)
    applying: list[Change] = []
    left: dict[str, str] = {}
    for name, what, edits in _edits(variant.operations):
        text, count = _edited(variant, source, edits)
        if name == NO_RSQRT:
            of_pair = interaction.cuda_source()
            without, more = RSQRT_OF_PAIR.subn(rf"({REPLACED}\1))", of_pair)
            text, count = text.replace(of_pair, without), count + more
        if count:
            places = f"{count} place{'s' if count > 1 else ''}"
            applying.append(Change(name, f"{what} ({places})", text, rsqrts=2 if name == TWICE else 1))
        else:
            left[name] = "the variant declares no such operation"
    half = max(LEAST_REGISTERS, registers // 2 // WHOLE * WHOLE)
    free = BOUNDS.sub("", source)
    if half < registers:
        applying.append(
            Change(
                "half the registers", f"at most {half} registers per thread instead of {registers}", free,
                (f"--maxrregcount={half}",)
            )
        )  # fmt: skip
    else:
        left["half the registers"] = f"it uses only {registers}"
    shapes = _shapes(variant, axes)
    for shape in shapes:
        values = ", ".join(f"{name} {value}" for name, value in shape.items())
        applying.append(Change(f"launched with {values}", f"blocks of another shape: {values}", source, axes=shape))
    if not shapes:
        left["other launch shapes"] = "it has no axis p, or the other axes allow no other value of it"
    return applying, left


def _edits(operations: Operations) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Give the name of each change of the text, what it is, and what stands in the place of each operation after it."""
    yield (
        NO_RSQRT,
        "each reciprocal square root is replaced by one multiplication",
        {call: f"({REPLACED}{call.removeprefix(RSQRT)})" for call in operations.rsqrts},
    )
    yield (
        NO_STAGING,
        "the loads that fill a tile are skipped",
        # A condition that never holds: the compiler cannot know.
        {statement: f"if (n < 0) {statement}" for statement in operations.staging},
    )
    yield (
        NO_ADDITIONS,
        "sums are computed, but not added to memory",
        {statement: f"if (({number}) == {NEVER}) {statement}" for statement, number in operations.additions.items()},
    )
    yield (
        TWICE,
        "every interaction is computed a second time, with another softening length",
        {call: f"{call}, {call.removesuffix(EPS2)}eps2 * {OTHER_SOFTENING})" for call in operations.contributions},
    )


def _edited(variant: Variant, source: str, edits: Mapping[str, str]) -> tuple[str, int]:
    """Make each edit at every place of its operation; return also how many places these are."""
    count = 0
    for operation, edited in edits.items():
        if operation not in source:
            raise InputError(f"{variant.path}: operations has {operation!r}, which is not in its CUDA C")
        count += source.count(operation)
        source = source.replace(operation, edited)
    return source, count


def _shapes(variant: Variant, axes: Axes) -> list[dict[str, AxisValue]]:
    """Return half and twice the threads of a block, as far as the variant takes them."""
    complete = variant.complete(axes)
    p = complete.get("p")
    if not isinstance(p, int):
        return []
    able = needed_by(variant)
    shapes: list[dict[str, AxisValue]] = []
    for other in (p // 2, 2 * p):
        value = variant.find_value("p", other)
        if value is not None and not able.broken({"toolkit": "cupy", **complete, "p": value}):
            shapes.append({"p": value})
    return shapes
