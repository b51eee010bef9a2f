"""What an interaction costs: the issue slots of the inner loop of a kernel, by pipe and by line of its source.

A warp issues one instruction at a time, so the instructions of the inner loop over its interactions are what each costs
at least, whatever the clock. One inverse square root is one pair of bodies: its interactions are two where a pair is
used for both bodies. What stands in the loop around the inner one is staging: it is paid once per tile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gravbench.explain.assembling import assemble
from gravbench.explain.asking import Asked
from gravbench.explain.chains import bank_conflicts, longest_chain
from gravbench.explain.machine_code import Instruction, Loop, around, innermost
from gravbench.explain.pipes import PIPES, is_root, pipe_of
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Dtype, Variant
from gravbench.toolkits.interface import FLAGS


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the source and the issue slots per interaction that are of it."""

    file: str
    number: int
    slots: float
    pipes: dict[str, float]


@dataclass(frozen=True, slots=True)
class Inner:
    """An inner loop over interactions.

    ``slots`` are its instructions per interaction, ``pipes`` the same by pipe and ``lines`` by line, the most expensive
    first. ``turn`` are the interactions of a thread in one turn of it, ``chain`` is the longest chain of instructions
    in a turn that wait for one another, ``conflicts`` are those that read three registers of one bank. ``per_tile`` are
    the instructions of the loop around it, which stage what it reads.
    """

    turn: int
    slots: float
    pipes: dict[str, float]
    lines: tuple[Line, ...]
    per_tile: int
    chain: int
    conflicts: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """The kernel of a variant on one architecture: registers of a thread, bytes of spills and of shared memory."""

    variant: str
    kernel: str
    architecture: str
    registers: int
    spilled: int
    shared: int
    inner: tuple[Inner, ...]


def ledger(
    variant: Variant, asked: Sequence[Asked], dtype: Dtype, interaction: Interaction, architecture: str
) -> Ledger | None:
    """Compile the first kernel that has an inner loop over interactions, and count; None where none has.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    source = variant.cuda_source(interaction)
    real = ["-DFLOAT64=1"] if dtype == "float64" else []
    for one in asked:
        options = [*FLAGS, *real, *(f"-D{name}={value}" for name, value in one.constants)]
        built = assemble(source, one.stem, architecture, options)
        code, loops = built.code.instructions, built.code.loops()
        inner = innermost(loops, [place for place, found in enumerate(code) if is_root(found.opcode)])
        if inner:
            counted = tuple(_counted(code, loops, loop, 1 + variant.mutual) for loop in inner)
            return Ledger(
                variant.name, one.stem, architecture, built.registers, built.spilled, built.shared, counted
            )
    return None


def _counted(code: Sequence[Instruction], loops: Sequence[Loop], loop: Loop, served: int) -> Inner:
    body = code[loop.first : loop.last + 1]
    turn = served * sum(is_root(one.opcode) for one in body)
    by_line: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for one in body:
        by_line[one.file, one.line][pipe_of(one.opcode)] += 1
    lines = [Line(file, line, own.total() / turn, _each(own, turn)) for (file, line), own in by_line.items()]
    outer = around(loops, loop)
    return Inner(
        turn=turn,
        slots=len(body) / turn,
        pipes=_each(Counter(pipe_of(one.opcode) for one in body), turn),
        lines=tuple(sorted(lines, key=lambda line: -line.slots)),
        per_tile=0 if outer is None else len(_outside(code, outer, loops)),
        chain=longest_chain(body),
        conflicts=bank_conflicts(body),
    )


def _each(counts: Counter[str], turn: int) -> dict[str, float]:
    """Divide counts by pipe among the interactions of a turn, in the order of pipes."""
    return {pipe: counts[pipe] / turn for pipe in PIPES if counts[pipe]}


def _outside(code: Sequence[Instruction], outer: Loop, loops: Sequence[Loop]) -> list[Instruction]:
    """List the instructions of a loop that no loop within it holds."""
    held = [loop for loop in loops if outer.holds(loop)]
    return [
        code[place]
        for place in range(outer.first, outer.last + 1)
        if not any(loop.first <= place <= loop.last for loop in held)
    ]
