"""What a check found, what it could not decide, and how much it looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gravbench.model.record import Record


@dataclass(frozen=True, slots=True)
class Signer:
    """Whose a valid signature is: the names of its certificate, and the service that vouched for them."""

    names: tuple[str, ...]
    issuer: str

    def __str__(self) -> str:
        """Name both."""
        return f"{', '.join(self.names)}, as {self.issuer} says"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``findings`` are contradictions, ``unchecked`` what could not be decided and why, ``scope`` how much was.

    ``recompiled`` has the lines of the records all kernels of which were compiled again to the stated machine code, and
    ``signer`` whose the signature is. ``word`` is the answer in one or two words, where it is not the usual one.
    """

    findings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    scope: str = ""
    recompiled: frozenset[int] = frozenset()
    signer: Signer | None = None
    word: str = ""


def at(number: int, record: Record) -> str:
    """Name a record by its line and its case."""
    return f"line {number} ({record.label})"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 record``, ``2 records``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def why_not(reasons: Iterable[str], noun: str) -> list[str]:
    """Count equal reasons: ``12 records: the toolkit compiles no CUDA C``."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return [f"{counted(count, noun)}: {reason}" for reason, count in counts.items()]
