"""What a variant says of its kernels to ``gravbench.explain``, which knows nothing else of one variant.

It declares ``Operations``, places in its CUDA C that ablations change. Where the machine code alone does not tell how
often each part of a kernel runs, it declares ``KernelParts`` too: the kernel, and a function that is given its machine
code and an evaluation, and returns what each warp runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gravbench.model.bodies import Bodies
    from gravbench.model.ranges import AxisValue


class UnmodelledError(Exception):
    """A record for which there is no model; the message says why."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions ``first`` to ``last`` of a kernel, the last of which jumps back to the first."""

    first: int
    last: int

    def holds(self, other: Loop) -> bool:
        """Tell whether another loop lies within this one."""
        return self != other and self.first <= other.first and other.last <= self.last

    @property
    def places(self) -> range:
        """The places of its instructions."""
        return range(self.first, self.last + 1)


class MachineCode(Protocol):
    """The machine code of a kernel, as a variant may ask about it. A place is the index of an instruction.

    ``constants`` are those the kernel was compiled with, ``loops`` its loops by their first places. ``rsqrts`` are the
    places of its reciprocal square roots, of which an interaction has ``rsqrts_each``, and ``products`` those of its
    matrix products.
    """

    @property
    def constants(self) -> Mapping[str, int]: ...  # noqa: D102

    @property
    def loops(self) -> Sequence[Loop]: ...  # noqa: D102

    @property
    def rsqrts(self) -> Sequence[int]: ...  # noqa: D102

    @property
    def rsqrts_each(self) -> int: ...  # noqa: D102

    @property
    def products(self) -> Sequence[int]: ...  # noqa: D102

    @property
    def length(self) -> int:
        """How many instructions it has."""

    def around(self, loop: Loop) -> Loop | None:
        """Return the smallest loop that holds another; None where none does."""

    def following(self, place: int) -> list[int]:
        """Return the places of which one is run after a place."""

    def way_through(self, loop: Loop, place: int) -> list[int]:
        """Return the places of a loop that a turn of it may run on its way through one of them, in their order."""

    def outside(self, places: Iterable[int], within: Loop) -> list[int]:
        """Return the places that are in no loop within another one."""

    def turns(self, loop: Loop) -> int | None:
        """Return the turns of a loop; None where they are not a constant."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of a variant on a GPU.

    ``warps`` are those of the grid of its kernel. ``bodies`` reads them, and raises ``UnmodelledError`` where they are
    not available. ``computed`` and ``stages`` are the counts and the stages of its record, empty without one.
    """

    axes: Mapping[str, AxisValue]
    n: int
    warps: int
    bodies: Callable[[], Bodies]
    computed: Mapping[str, float] = field(default_factory=dict)
    stages: Collection[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class KernelPart:
    """A part of a kernel: the places of ``before``, ``turns`` times those of ``inner``, and those of ``after``.

    ``times`` is how often each warp of the grid runs it in one evaluation, shape (warps,), or, where only the mean is
    known, how often a warp runs it for each interaction of a thread.
    """

    name: str
    times: NDArray[np.int64] | float
    inner: Sequence[int]
    turns: int = 1
    before: Sequence[int] = ()
    after: Sequence[int] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Divided:
    """The parts of a kernel; ``interactions`` are those of a thread, added up over all warps, 1 where only means are.

    The number of interactions of one warp is 32 times that of one of its threads.
    """

    parts: Sequence[KernelPart]
    interactions: float = 1.0


@dataclass(frozen=True, slots=True)
class KernelParts:
    """Which ``kernel`` a variant divides into parts, and what its stage of an evaluation is called in a record.

    ``divide`` returns the parts, or None where the kernel is as any other: its one loop then says all. It raises
    ``UnmodelledError`` where there is no model of the kernel.
    """

    kernel: str
    stage: str
    divide: Callable[[MachineCode, Evaluation], Divided | None]


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of a kernel, each as it stands in the CUDA C, that an ablation removes or repeats.

    ``rsqrts`` are calls of ``inverse_sqrt`` beside those of the interaction, ``staging`` the statements that fill a
    tile, ``additions`` those that add atomically in global memory, each with the number that it adds, and
    ``contributions`` the calls, with ``eps2`` as their last argument, that add interactions to sums. The kernel has the
    number of bodies as ``n``.
    """

    rsqrts: tuple[str, ...] = ()
    staging: tuple[str, ...] = ()
    additions: Mapping[str, str] = field(default_factory=dict)
    contributions: tuple[str, ...] = ()
