"""One change each that is made to the text of a kernel, or to how it is compiled or launched, to see what it costs.

Results of a changed kernel are wrong on purpose. A change of the text has to be found there: where its place is not in
a kernel, it does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gravbench.config.fitting import needed_by
from gravbench.model.variant import Axes, AxisValue, Variant

BOUNDS = re.compile(r"__launch_bounds__\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
ROOT = re.compile(r"\binverse_sqrt\((r2|a|b|r2 \+ eps2|dx \* dx \+ \(dy \* dy \+ \(dz \* dz \+ eps2\)\))\)")
STAGED = re.compile(r"^(\s*)((?:if \([^;{]*\) )?(?:tile|bag|partners)\[(?:thread|lane|lane \+ 32|k)\] = [^;]*;)", re.M)
ADDED = re.compile(r"(void add_atomically\(Sums\* to, const Sums& sums\) \{)")
ATOMIC = re.compile(r"^(\s*)(atomicAdd\((?:to|&to->a[xyz])[^;,]*, ([^;]*)\);)", re.M)
PULL = re.compile(r"\b((?:interact|pull|pair<\w+>)\([^;]*), eps2\)(?=;)")
REPLACED = "static_cast<real>(0.25) * ("
"""What stands where a root was: one multiplication."""
PRODUCTS = re.compile(r"\bmma\.sync\b")
NEVER = "static_cast<real>(1.25e33)"
TWICE = "each product twice"
LEAST_REGISTERS = 24
WHOLE = 8
"""Registers are given to threads in groups of so many."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change: the text of a kernel after it, options of its compiler, and values of axes in place of others.

    ``changes_results`` says that it may not be made where results decide what is computed next, ``roots`` how many of
    them, or of what stands in their place, an interaction has.
    """

    name: str
    what: str
    text: str
    options: tuple[str, ...] = ()
    axes: Mapping[str, AxisValue] = field(default_factory=dict)
    changes_results: bool = False
    roots: int = 1


def changes(variant: Variant, axes: Axes, source: str, registers: int) -> tuple[list[Change], dict[str, str]]:
    """Return the changes that apply to a kernel with so many registers, and why the others do not, by name."""
    found: list[Change] = []
    left: dict[str, str] = {}
    texts: Sequence[tuple[str, str, tuple[str, int]]] = (
        ("no square root", "each inverse square root is replaced by one multiplication", _rootless(source)),
        ("no staging", "the loads that fill a tile are skipped", _unstaged(source)),
        ("no atomic additions", "sums are computed, but not added to memory", _unadded(source)),
        (
            TWICE,
            "every interaction is computed a second time, with another softening length",
            _doubled(source),
        ),
    )
    for name, what, (text, count) in texts:
        if count:
            found.append(
                Change(
                    name,
                    f"{what} ({count} place{'s' if count > 1 else ''})",
                    text,
                    changes_results=True,
                    roots=2 if name == TWICE else 1,
                )
            )
        else:
            left[name] = "its kernel has no such operation"
    half = max(LEAST_REGISTERS, registers // 2 // WHOLE * WHOLE)
    free = BOUNDS.sub("", source)
    if half < registers:
        found.append(
            Change(
                "half the registers", f"at most {half} registers per thread instead of {registers}", free,
                (f"--maxrregcount={half}",)
            )
        )  # fmt: skip
    else:
        left["half the registers"] = f"it uses only {registers}"
    shapes = _shapes(variant, axes)
    for shape in shapes:
        said = ", ".join(f"{name} {value}" for name, value in shape.items())
        found.append(Change(f"launched with {said}", f"blocks of another shape: {said}", source, axes=shape))
    if not shapes:
        left["other launch shapes"] = "it has no axis p, or the other axes allow no other value of it"
    return found, left


def _rootless(source: str) -> tuple[str, int]:
    return ROOT.subn(rf"({REPLACED}\1))", source)


def _unstaged(source: str) -> tuple[str, int]:
    # A condition that never holds: the compiler cannot know.
    return STAGED.subn(r"\1if (n < 0) \2", source)


def _unadded(source: str) -> tuple[str, int]:
    text, count = ADDED.subn(rf"\1 if (sums.ax != {NEVER}) return;", source)
    own, more = ATOMIC.subn(rf"\1if ((\3) == {NEVER}) \2", text)
    return (own, count + more) if count or more else (source, 0)


def _doubled(source: str) -> tuple[str, int]:
    if PRODUCTS.search(source):  # most of its interactions are products of matrices
        return source, 0
    return PULL.subn(r"\1, eps2), \1, eps2 * static_cast<real>(1.25))", source)


def _shapes(variant: Variant, axes: Axes) -> list[dict[str, AxisValue]]:
    """Return half and twice the threads of a block, as far as the variant takes them."""
    own = variant.complete(axes)
    p = own.get("p")
    if not isinstance(p, int):
        return []
    able = needed_by(variant)
    found: list[dict[str, AxisValue]] = []
    for other in (p // 2, 2 * p):
        value = variant.find_value("p", other)
        if value is not None and not able.broken({"toolkit": "cupy", **own, "p": value}):
            found.append({"p": value})
    return found
