"""Where a right submission differs most from the rung: what an interaction costs in machine code, without a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from gravbench.errors import listed
from gravbench.explain.ledger import Line
from gravbench.judging.cost import BODIES, Cost
from gravbench.judging.entry import Entry
from gravbench.learning.thresholds import Count, Limits
from gravbench.report.numbers import number, relative_error

LOAD_STORE = "load-store"
LEAST_FMA_OF_PAIR = 14
"""FMA instructions of a pair that is used for both of its bodies: three differences, three for the distance, two
products, six sums. A pair that is used for one body has 12."""
ROOT = re.compile(r"\bsqrtf?\s*\(")
"""A square root that is no reciprocal one, as a line of an entry names it."""
NOTHING = 0.05
"""What is taken for a count of 0 where counts are divided."""


@dataclass(frozen=True)
class Counted:
    """An entry and what is counted of it; ``error`` is the rms error of its result, None where it was not judged."""

    name: str
    cost: Cost
    threads_per_body: float
    error: float | None = None


@dataclass(frozen=True)
class Difference:
    """A count beyond its limit: how many times, and the whole sentence."""

    count: Count
    excess: float
    sentence: str


@dataclass(frozen=True)
class Compared:
    """A count of a submission beside that of the rung, and what is accepted of it, in words."""

    what: str
    submission: str
    rung: str
    accepted: str
    within: bool


def counted(name: str, entry: Entry, cost: Cost, error: float | None = None) -> Counted:
    """Add to the cost of an entry what its launch says."""
    threads = sum(prod(call.grid) * prod(call.block) for call in entry.calls(BODIES) if call.kernel == cost.kernel)
    return Counted(name, cost, threads / BODIES, error)


def differences(submission: Counted, rung: Counted, limits: Limits) -> list[Difference]:
    """Return the counts that are beyond their limits, that which is farthest beyond it first."""
    beyond_limits = []
    for count, limit in limits.items():
        excess = _excess(count, limit, submission, rung)
        if excess > 1:
            beyond_limits.append(Difference(count, excess, _SENTENCES[count](submission, rung, limit)))
    return sorted(beyond_limits, key=lambda difference: -difference.excess)


def compared(submission: Counted, rung: Counted, limits: Limits) -> list[Compared]:
    """Return all counts that have a limit."""
    return [_compared(count, limit, submission, rung) for count, limit in limits.items()]


def _compared(count: Count, limit: float, submission: Counted, rung: Counted) -> Compared:
    within = _excess(count, limit, submission, rung) <= 1
    if count == "error":
        accepted = f"up to {relative_error(limit)}"
        return Compared(_WORDS[count], relative_error(submission.error), "", accepted, within)
    of_rung = _VALUES[count](rung)
    bound = f"{'from' if count in _AT_LEAST else 'up to'} {_written(limit * of_rung)}"
    return Compared(_WORDS[count], _written(_VALUES[count](submission)), _written(of_rung), bound, within)


def not_mutual(entry: Entry, cost: Cost) -> str | None:
    """Say that a head claims that each pair is computed once, where the machine code does too little for that."""
    fma = 2 * cost.pipes.get("FMA", 0.0)
    if not entry.head.mutual or fma >= LEAST_FMA_OF_PAIR:
        return None
    return (
        f"the head says mutual, but a pair takes {number(fma, 3, zeros=False)} instructions of the FMA pipe, and one "
        f"that is added to both of its bodies takes at least {LEAST_FMA_OF_PAIR}"
    )


def _local_loads(cost: Cost) -> float:
    return cost.opcodes.get("LDL", 0.0)


def _doubles(cost: Cost) -> float:
    return cost.pipes.get("FP64", 0.0)


def _votes(cost: Cost) -> float:
    return cost.opcodes.get("VOTE", 0.0) + cost.opcodes.get("VOTEU", 0.0)


_VALUES: Mapping[Count, Callable[[Counted], float]] = {
    "slots": lambda counted: counted.cost.slots,
    "global_loads": lambda counted: counted.cost.global_loads,
    "shared_loads": lambda counted: counted.cost.shared_loads,
    "spilled": lambda counted: counted.cost.spilled,
    "warps": lambda counted: counted.cost.occupancy.warps,
    "threads_per_body": lambda counted: counted.threads_per_body,
    "votes": lambda counted: _votes(counted.cost),
    "local_loads": lambda counted: _local_loads(counted.cost),
    "doubles": lambda counted: _doubles(counted.cost),
}
_WORDS: Mapping[Count, str] = {
    "slots": "issue slots per interaction",
    "global_loads": "loads from global memory per interaction",
    "shared_loads": "loads from shared memory per interaction",
    "spilled": "bytes of registers in memory",
    "warps": "warps on a multiprocessor",
    "threads_per_body": "threads per body",
    "error": "rms error",
    "votes": "votes of the warp per cell",
    "local_loads": "loads from local memory per interaction",
    "doubles": "instructions of float64 per interaction",
}
_AT_LEAST: tuple[Count, ...] = ("warps", "threads_per_body", "votes")
"""Counts of which more are better."""


def _excess(count: Count, limit: float, submission: Counted, rung: Counted) -> float:
    """Return how many times a count is beyond its limit; up to 1 where it is within."""
    if count == "error":
        return 0.0 if submission.error is None else submission.error / limit
    value, accepted = _VALUES[count](submission), limit * _VALUES[count](rung)
    if count in _AT_LEAST:
        return max(accepted, NOTHING) / max(value, NOTHING) if value < accepted else 0.0
    return value / max(accepted, NOTHING) if value > accepted else 0.0


def _written(value: float) -> str:
    return number(value, 3, zeros=False)


def _several(value: float, word: str, rest: str) -> str:
    """Write how many of something there are: ``1 load per interaction``."""
    written = _written(value)
    return f"{written} {word}{'' if written == '1' else 's'} {rest}"


def _of_slots(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    cost = submission.cost
    mine, theirs = cost.pipes, rung.cost.pipes
    slots, of_rung = (number(counted.cost.slots, zeros=False) for counted in (submission, rung))
    begin = f"{slots} issue slots per interaction where {rung.name} takes {of_rung}"
    if mine.get("FP64") and not theirs.get("FP64"):
        return f"{begin}; {_written(mine['FP64'])} of them compute in float64{_line(cost, 'FP64')}"
    costliest = sorted(cost.lines, key=lambda line: -line.slots)[:2]  # the division may have a line of its own
    if root := next((line for line in costliest if ROOT.search(line.text)), None):
        return (
            f"{begin}; line {root.number} takes {_written(root.slots)} of them: `{root.text}`; "
            "rsqrtf(x) takes one instruction where a square root and a division take many"
        )
    pipe = max(mine, key=lambda name: mine[name] - theirs.get(name, 0.0))
    return (
        f"{begin}; the largest difference by pipe is on the {pipe} pipe, {_written(mine[pipe])} against "
        f"{_written(theirs.get(pipe, 0.0))}{_line(cost, pipe)}"
    )


def _line(cost: Cost, pipe: str) -> str:
    """Name the line that takes the most of a pipe."""
    line = max(_of_pipe(cost, pipe), key=lambda line: line.pipes[pipe], default=None)
    return f"; see line {line.number}: `{line.text}`" if line else ""


def _of_pipe(cost: Cost, pipe: str) -> list[Line]:
    """Return the lines of the source that take a pipe."""
    return [line for line in cost.lines if line.text and line.pipes.get(pipe)]


def _lines(cost: Cost, pipe: str) -> str:
    """Name all lines that take a pipe, a single one with its text."""
    known = sorted(_of_pipe(cost, pipe), key=lambda line: line.number)
    return f"; see lines {listed(str(line.number) for line in known)}" if len(known) > 1 else _line(cost, pipe)


def _of_loads(memory: str, count: Count) -> Callable[[Counted, Counted, float], str]:
    def sentence(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
        loads = _several(_VALUES[count](submission), "load", f"from {memory} memory per interaction")
        of_rung = _written(_VALUES[count](rung))
        return f"{loads} (load-store pipe) where {rung.name} has {of_rung}{_lines(submission.cost, LOAD_STORE)}"

    return sentence


def _of_spills(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    cost = submission.cost
    return (
        f"{cost.spilled:,} bytes of registers are stored to memory and loaded again, where {rung.name} has "
        f"{rung.cost.spilled:,}; a thread has {cost.registers} registers"
    )


def _of_warps(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    cost, occupancy = submission.cost, submission.cost.occupancy
    return (
        f"{occupancy.warps} of {occupancy.most_warps} warps fit on a multiprocessor where {rung.name} has "
        f"{rung.cost.occupancy.warps}; limited by {occupancy.limiter} (a thread has {cost.registers} registers, a "
        f"block {cost.shared:,} bytes of shared memory)"
    )


def _of_threads(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    return (
        f"{_several(submission.threads_per_body, 'thread', 'per body')} where {rung.name} has "
        f"{_written(rung.threads_per_body)}; see grid and block in the head"
    )


def _of_error(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    return f"the rms error is {relative_error(submission.error)}; accepted: {relative_error(limit)}"


def _of_doubles(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    cost = submission.cost
    return (
        f"{_several(_doubles(cost), 'instruction', 'of float64 per interaction')} (FP64 pipe) where {rung.name} has "
        f"{_written(_doubles(rung.cost))}{_lines(cost, 'FP64')}"
    )


def _of_votes(submission: Counted, rung: Counted, limit: float) -> str:  # noqa: ARG001
    return (
        f"{_several(_votes(submission.cost), 'vote', 'of the warp per cell')} where {rung.name} has "
        f"{_written(_votes(rung.cost))}: lanes that decide alone go different ways, and wait for one another"
    )


_SENTENCES: Mapping[Count, Callable[[Counted, Counted, float], str]] = {
    "slots": _of_slots,
    "global_loads": _of_loads("global", "global_loads"),
    "shared_loads": _of_loads("shared", "shared_loads"),
    "local_loads": _of_loads("local", "local_loads"),
    "doubles": _of_doubles,
    "spilled": _of_spills,
    "warps": _of_warps,
    "threads_per_body": _of_threads,
    "error": _of_error,
    "votes": _of_votes,
}
