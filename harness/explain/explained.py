"""What ``gravbench explain`` was asked for, and the ledgers that answer it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gravbench.errors import InputError
from gravbench.explain.assembling import missing
from gravbench.explain.bounds import Bound, bound
from gravbench.explain.ledger import Inner, Ledger, ledgers
from gravbench.explain.recorded_kernels import asked_of
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import AxisValue, Dtype, Variant
from gravbench.toolkits import nvrtc

MULTIPROCESSORS = 132
MHZ = 1980.0
"""Together an NVIDIA H200 at its highest clock."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A variant with all its axes, for n bodies of a number type."""

    variant: Variant
    axes: Mapping[str, AxisValue]
    n: int
    dtype: Dtype

    @property
    def conditions(self) -> str:
        """Say in one line for what it is compiled."""
        axes = [f"{name}={value}" for name, value in self.axes.items()]
        return ", ".join([f"{self.variant.name}: {self.dtype}", f"n={self.n:,}", *axes])


@dataclass(frozen=True, slots=True)
class Row:
    """An inner loop of a kernel; ``copy`` counts those that come from the same lines, of which there are ``copies``.

    ``side`` is the place of what was asked for, and ``axes`` names the values by which two of one variant differ.
    """

    ledger: Ledger
    inner: Inner
    copy: int = 1
    copies: int = 1
    side: int = 0
    axes: str = ""

    @property
    def name(self) -> str:
        """The kernel, and the function that the loop is in."""
        ledger, inner = self.ledger, self.inner
        kernel = ledger.kernel if inner.function in (ledger.kernel, "") else f"{ledger.kernel}: {inner.function}"
        named = kernel if ledger.kernel.startswith(ledger.variant) else f"{ledger.variant}: {kernel}"
        named = f"{named} {self.axes}" if self.axes else named
        return f"{named}, copy {self.copy}" if self.copies > 1 else named

    @property
    def place(self) -> str:
        """The file and the line of the loop."""
        return f"{self.inner.file}:{self.inner.line}"


@dataclass(frozen=True, slots=True)
class Explained:
    """The ledgers of what was asked for first, and of what it was set against, on ``multiprocessors`` at ``mhz``.

    ``sides`` has those of each, and ``without`` are the kernels that have no loop over interactions.
    """

    asked: tuple[Asked, ...]
    sides: tuple[tuple[Ledger, ...], ...]
    compiler: str
    without: tuple[str, ...] = ()
    multiprocessors: int = MULTIPROCESSORS
    mhz: float = MHZ

    @property
    def title(self) -> str:
        """Name the variants."""
        return " against ".join(case.variant.name for case in self.asked)

    @property
    def conditions(self) -> list[str]:
        """Say for what the variants are compiled, and by what."""
        architectures = dict.fromkeys(ledger.architecture for ledger in self.ledgers)
        made = f"Compiled for {', '.join(architectures)} by {self.compiler}."
        rest = [f"Kernels with no loop over interactions: {', '.join(self.without)}."] if self.without else []
        return [*(case.conditions for case in self.asked), made, *rest]

    @property
    def ledgers(self) -> list[Ledger]:
        """Those of all sides."""
        return [ledger for side in self.sides for ledger in side]

    @property
    def rows(self) -> list[Row]:
        """All inner loops."""
        return [
            replace(row, side=number, axes=self._differing(number))
            for number, side in enumerate(self.sides)
            for ledger in side
            for row in rows_of(ledger)
        ]

    def _differing(self, side: int) -> str:
        """Name the values of the axes by which one side differs from others of the same variant."""
        case = self.asked[side]
        others = [other for other in self.asked if other is not case and other.variant is case.variant]
        axes = [name for name, value in case.axes.items() if any(other.axes[name] != value for other in others)]
        return " ".join(f"{name}={case.axes[name]}" for name in axes)

    @property
    def main(self) -> list[Row]:
        """Of each side and architecture the loop with the most interactions in a turn, the first of equal ones."""
        best: dict[tuple[int, str], Row] = {}
        for row in self.rows:
            key = row.side, row.ledger.architecture
            if key not in best or row.inner.turn > best[key].inner.turn:
                best[key] = row
        return list(best.values())

    def bound(self, row: Row) -> Bound:
        """Return what bounds a loop."""
        return bound(row.inner, row.ledger.architecture, self.multiprocessors, self.mhz)


def rows_of(ledger: Ledger) -> Iterator[Row]:
    """Give the inner loops of a kernel."""
    places = [(inner.file, inner.line) for inner in ledger.inner]
    for number, inner in enumerate(ledger.inner):
        yield Row(ledger, inner, places[: number + 1].count(places[number]), places.count(places[number]))


def explain(
    cases: Sequence[Asked],
    architectures: Sequence[str],
    multiprocessors: int = MULTIPROCESSORS,
    mhz: float = MHZ,
) -> Explained:
    """Compile what was asked for, on each architecture, and count.

    Raises:
        InputError: NVRTC or nvdisasm is missing, an architecture is not known, or a variant has no loop over
            interactions.
    """
    if why := missing():
        raise InputError(why)
    gravity = find(GRAVITY)
    sides: list[tuple[Ledger, ...]] = []
    without: dict[str, None] = {}
    for case in cases:
        kernels = asked_of(case.variant, case.axes, case.dtype, gravity, case.n, multiprocessors)
        ledgers_of_case = ledgers(case.variant, kernels, case.dtype, gravity, architectures)
        if not ledgers_of_case:
            raise InputError(
                f"{case.variant.name}: none of its loops computes a reciprocal square root, so there is none to count"
            )
        sides.append(tuple(ledgers_of_case))
        counted = {ledger.kernel for ledger in ledgers_of_case}
        without |= {kernel.stem: None for kernel in kernels if kernel.stem not in counted}
    return Explained(tuple(cases), tuple(sides), nvrtc.version(), tuple(without), multiprocessors, mhz)
