"""The most interactions per second that the issue slots and pipes of a card allow a loop, at a stated clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gravbench.explain.ledger import Inner
from gravbench.explain.pipes import ISSUE, lanes

CLOSE = 0.02
"""What bounds as closely as this is named too."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Interactions per second that a card cannot exceed, and the pipes, or ``issue``, that bound it.

    ``used`` is the part of its time that each of them is busy at that speed.
    """

    interactions_per_second: float
    by: tuple[str, ...]
    used: Mapping[str, float]


def bound(inner: Inner, architecture: str, multiprocessors: int, mhz: float) -> Bound:
    """Return the bound of a loop alone, without what is around it, on so many multiprocessors at a clock."""
    needed = {ISSUE: inner.slots, **inner.passes}
    # Clocks of a multiprocessor for an interaction.
    clocks = {name: needed[name] / count for name, count in lanes(architecture).items() if needed.get(name)}
    most = max(clocks.values())
    return Bound(
        interactions_per_second=multiprocessors * mhz * 1e6 / most,
        by=tuple(name for name, busy in clocks.items() if busy >= (1 - CLOSE) * most),
        used={name: busy / most for name, busy in clocks.items()},
    )
