"""Who launches an entry: the arrays that it gets, and what comes back.

A launcher gets bodies and nothing of what is expected: the reference is computed elsewhere, after the answer is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gravbench.emulation.programs import Fault
from gravbench.judging.calls import Call
from gravbench.judging.entry import EPS2, WIDTH, Entry
from gravbench.model.bodies import Bodies

POISON = {"float32": (np.uint32, 0x7FC0DEAD), "float64": (np.uint64, 0x7FF80000DEADBEEF)}
"""The bits of a NaN that no arithmetic makes: an output that has them was not written."""


@dataclass(frozen=True)
class Answer:
    """What was computed: accelerations of shape (n, 3) for each set of bodies in turn, or the fault that ended it."""

    accelerations: Sequence[NDArray[Any]]
    fault: Fault | None = None


class Launcher(Protocol):
    """Launches an entry for sets of bodies of the same n, one after another, in one process that keeps its memory."""

    def run(self, entry: Entry, bodies: Sequence[Bodies]) -> Answer:
        """Return what was computed.

        Raises:
            InputError: the entry cannot be compiled or launched.
        """


def poison(entry: Entry, *shape: int) -> NDArray[Any]:
    """Make an array of the NaN that marks what was not written."""
    kind, bits = POISON[entry.head.precision]
    return np.full(shape, bits, kind).view(entry.real)


def unwritten(accelerations: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows have a number that was not written."""
    kind, bits = POISON[accelerations.dtype.name]
    result: NDArray[np.bool_] = (np.ascontiguousarray(accelerations).view(kind) == bits).any(axis=1)
    return result


def arrays_of(entry: Entry, bodies: Sequence[Bodies]) -> dict[str, NDArray[Any]]:
    """Make all arrays: inputs and outputs of each set of bodies, by their names of ``suffixed``, and scratch once."""
    arrays: dict[str, NDArray[Any]] = {}
    for turn, each in enumerate(bodies):
        rows = np.column_stack([each.position, each.mass]).astype(entry.real)
        columns = [rows] if len(entry.inputs) == 1 else [np.ascontiguousarray(column) for column in rows.T]
        arrays |= {suffixed(name, turn): column for name, column in zip(entry.inputs, columns, strict=True)}
        shape = (each.n, WIDTH) if len(entry.outputs) == 1 else (each.n,)
        arrays |= {suffixed(name, turn): poison(entry, *shape) for name in entry.outputs}
    for name, size in entry.scratch_bytes(bodies[0].n).items():
        count = size // entry.real().nbytes
        arrays[name] = np.zeros(count, entry.real) if entry.head.arrays[name].zeros else poison(entry, count)
    return arrays


def calls_of(entry: Entry, bodies: Sequence[Bodies]) -> list[Call]:
    """Return the launches for all sets of bodies, their arguments the names of ``arrays_of`` and numbers.

    The softening length squared is a float, whole numbers are ints.
    """
    of_each_launch = {*entry.inputs, *entry.outputs}

    def argument(written: str | int | float, turn: int, each: Bodies) -> str | int | float:
        if written == EPS2:
            return float(entry.real(each.eps**2))
        return suffixed(written, turn) if isinstance(written, str) and written in of_each_launch else written

    calls = entry.calls(bodies[0].n)
    return [
        call._replace(arguments=tuple(argument(written, turn, each) for written in call.arguments))
        for turn, each in enumerate(bodies)
        for call in calls
    ]


def suffixed(name: str, turn: int) -> str:
    """Name the array of a set of bodies: that of the first as the entry does, others with a number, as no entry can."""
    return name if turn == 0 else f"{name}@{turn + 1}"


def changed(
    names: Iterable[str], before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]
) -> Fault | None:
    """Return the fault of an array of bodies that has other contents than before the launches, if any has."""
    for name in names:
        if after[name].tobytes() != before[name].tobytes():
            return Fault("bounds", f"the entry changes the bodies in {name}")
    return None


def accelerations_of(entry: Entry, arrays: Mapping[str, NDArray[Any]], turns: int) -> list[NDArray[Any]]:
    """Return the accelerations of each set of bodies, shape (n, 3)."""
    results = []
    for turn in range(turns):
        each = [arrays[suffixed(name, turn)] for name in entry.outputs]
        results.append(each[0].reshape(-1, WIDTH)[:, :3] if len(each) == 1 else np.column_stack(each))
    return results
