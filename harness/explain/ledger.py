"""What an interaction costs: the issue slots of the inner loops of a kernel, by pipe and by line of its source.

A warp issues one instruction at a time, so the instructions of the inner loop over its interactions are what each costs
at least, whatever the clock. One reciprocal square root is one pair of bodies, or of a body and a cell: its
interactions are two where a pair is used for both bodies. What stands in the loop around the inner one is the overhead
of the loop over tiles: it is paid once per tile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gravbench.explain.assembling import Assembled, assemble, hasty_ptx, naming
from gravbench.explain.dependency_chains import bank_conflicts, longest_chain
from gravbench.explain.machine_code import Instruction, Loop, around, innermost, outside
from gravbench.explain.occupancy import Occupancy, occupancy
from gravbench.explain.pipes import PIPES, WORK, is_rsqrt, passes_of, pipe_of, work_of
from gravbench.explain.source_lines import Places, places
from gravbench.explain.trip_counts import trips
from gravbench.model.blocks import cores
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Dtype, Variant
from gravbench.toolkits.interface import cuda_options
from gravbench.toolkits.recording import RecordedKernel

RSQRT = "rsqrt"
"""What the reciprocal square root is called in PTX."""
MOST_THREADS = 8
"""That compile at the same time."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the source, its text, and the issue slots per interaction that are of it."""

    file: str
    number: int
    slots: float
    pipes: dict[str, float]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Inner:
    """An inner loop over interactions.

    ``slots`` are its instructions per interaction, ``pipes`` the same by pipe, ``work`` by what they are there for and
    ``lines`` by line, the most expensive first. ``passes`` are how often an interaction goes through each pipe.
    ``turn`` are the interactions of a thread in one turn of it, ``served`` how many a pair is, ``chain`` is the longest
    chain of instructions in a turn that wait for one another, ``conflicts`` are those that read three registers of one
    bank.
    ``per_tile`` are the instructions of the loop around it, which stage what it reads; ``tile`` are the interactions of
    a thread in one turn of that, and ``staging`` its instructions per interaction, None where they depend on data. The
    loop is in ``function``, and ends at ``line`` of ``file``.
    """

    turn: int
    slots: float
    pipes: dict[str, float]
    lines: tuple[Line, ...]
    per_tile: int
    chain: int
    conflicts: int
    function: str = ""
    file: str = ""
    line: int = 0
    served: int = 1
    work: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    tile: int | None = None
    staging: float | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """A kernel of a variant on one architecture: registers of a thread, bytes of spills and of shared memory.

    ``threads`` are those of a block as it is launched, None where it was not.
    """

    variant: str
    kernel: str
    architecture: str
    registers: int
    spilled: int
    shared: int
    inner: tuple[Inner, ...]
    threads: int | None = None

    @property
    def occupancy(self) -> Occupancy | None:
        """What a multiprocessor holds of it at once."""
        if self.threads is None:
            return None
        return occupancy(self.architecture, self.threads, self.registers, self.shared)


def ledger(
    variant: Variant, kernels: Sequence[RecordedKernel], dtype: Dtype, interaction: Interaction, architecture: str
) -> Ledger | None:
    """Compile the first kernel that has an inner loop over interactions, and count; None where none has.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    return next(iter(ledgers(variant, kernels, dtype, interaction, [architecture])), None)


def ledgers(
    variant: Variant,
    kernels: Sequence[RecordedKernel],
    dtype: Dtype,
    interaction: Interaction,
    architectures: Sequence[str],
) -> list[Ledger]:
    """Compile every kernel for each architecture, and count those that have an inner loop over interactions.

    They are in the order of the architectures, and for each of them in that of ``kernels``.

    Raises:
        InputError: one cannot be compiled or read here.
    """
    source = variant.cuda_source(interaction)
    where = places(source)
    unique = list({(kernel.stem, kernel.constants): kernel for kernel in kernels}.values())
    each = list(dict.fromkeys(architectures))

    def options_of(kernel: RecordedKernel) -> list[str]:
        return cuda_options(dict(kernel.constants), dtype)

    def has_rsqrts(kernel: RecordedKernel) -> bool:
        return len(unique) == 1 or RSQRT in hasty_ptx(source, each[0], options_of(kernel))

    def counted(kernel: RecordedKernel, architecture: str) -> Ledger | None:
        built = assemble(source, kernel.stem, architecture, options_of(kernel))
        inner = inner_loops(built, where, variant.mutual)
        if not inner:
            return None
        return Ledger(
            variant.name, kernel.stem, architecture, built.registers, built.spilled, built.shared, inner, kernel.threads
        )

    with naming(variant.path), ThreadPoolExecutor(min(MOST_THREADS, cores())) as pool:
        kept = [kernel for kernel, has in zip(unique, pool.map(has_rsqrts, unique), strict=True) if has]
        made = [pool.submit(counted, kernel, architecture) for architecture in each for kernel in kept]
        return [result for future in made if (result := future.result())]


def inner_loops(built: Assembled, where: Places, mutual: bool | str) -> tuple[Inner, ...]:
    """Count the inner loops over interactions of machine code; ``mutual`` as a variant declares it."""
    code, loops = built.code.instructions, built.code.loops()
    inner = over_interactions(code, loops)
    return tuple(_counted(code, loops, loop, where, mutual) for loop in inner)


def over_interactions(code: Sequence[Instruction], loops: Sequence[Loop]) -> list[Loop]:
    """Return the inner loops over interactions: the innermost ones with a reciprocal square root."""
    rsqrts = [place for place, instruction in enumerate(code) if is_rsqrt(instruction.opcode, instruction.operands)]
    inner = innermost(loops, rsqrts)
    # A loop over bodies or cells that has loops within it is none over their interactions.
    return [loop for loop in inner if not any(loop.holds(other) for other in loops)] or inner


def is_unrolled_whole(built: Assembled) -> bool:
    """Tell whether most interactions are in a loop around an inner one, which has only the rest of a tile."""
    code, loops = built.code.instructions, built.code.loops()

    def rsqrts(places: Iterable[int]) -> int:
        return sum(is_rsqrt(code[place].opcode, code[place].operands) for place in places)

    around_each = ((loop, around(loops, loop)) for loop in over_interactions(code, loops))
    return any(
        outer and rsqrts(outside(loops, outer.places, outer)) > rsqrts(loop.places) for loop, outer in around_each
    )


def _counted(
    code: Sequence[Instruction], loops: Sequence[Loop], loop: Loop, where: Places, mutual: bool | str
) -> Inner:
    body = code[loop.first : loop.last + 1]
    functions = Counter(where.functions.get((instruction.file, instruction.line), "") for instruction in body)
    served = 2 if mutual is True or functions[str(mutual)] else 1
    rsqrts = sum(is_rsqrt(instruction.opcode, instruction.operands) for instruction in body)
    turn = served * rsqrts
    by_line: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    passes: Counter[str] = Counter()
    for instruction in body:
        pipe = pipe_of(instruction.opcode)
        by_line[instruction.file, instruction.line][pipe] += 1
        passes[pipe] += passes_of(instruction.opcode)
    lines = [
        Line(file, line, of_line.total() / turn, _each(of_line, turn, PIPES), where.lines.get((file, line), ""))
        for (file, line), of_line in by_line.items()
    ]
    outer = around(loops, loop)
    around_it = [] if outer is None else [code[place] for place in outside(loops, outer.places, outer)]
    turns = None if outer is None else trips(code, loop)
    tile = staging = None
    if outer is None:
        staging = 0.0
    elif turns is not None:
        # Turns of the inner loop may stand before it, so that its loads are on their way.
        peeled = sum(is_rsqrt(instruction.opcode, instruction.operands) for instruction in around_it) // rsqrts
        tile = turn * (turns + peeled)
        staging = max(0.0, (len(around_it) + turns * len(body)) / tile - len(body) / turn)
    file, line = _beginning(code, loop, where)
    return Inner(
        turn=turn,
        slots=len(body) / turn,
        pipes=_each(Counter(pipe_of(instruction.opcode) for instruction in body), turn, PIPES),
        lines=tuple(sorted(lines, key=lambda line: (-line.slots, line.file, line.number))),
        per_tile=len(around_it),
        chain=longest_chain(body),
        conflicts=bank_conflicts(body),
        function=where.functions.get((file, line), ""),
        file=file,
        line=line,
        served=served,
        work=_each(Counter(work_of(instruction.opcode, instruction.operands) for instruction in body), turn, WORK),
        passes=_each(passes, turn, PIPES),
        tile=tile,
        staging=staging,
    )


def _beginning(code: Sequence[Instruction], loop: Loop, where: Places) -> tuple[str, int]:
    """Return the file and the line of the statement that a loop is made of, as far as the compiler tells."""
    body = code[loop.first : loop.last + 1]
    # What is counted and compared is of that line, and so is the jump, mostly.
    for instruction in [body[-1], *(instruction for instruction in reversed(body) if "ISETP" in instruction.opcode)]:
        text = where.lines.get((instruction.file, instruction.line), "")
        if text.startswith(("for", "while", "do", "}")):
            return instruction.file, instruction.line
    named = Counter(
        (instruction.file, instruction.line)
        for instruction in body
        if where.lines.get((instruction.file, instruction.line), "").startswith("for")
    )
    return named.most_common(1)[0][0] if named else (body[-1].file, body[-1].line)


def _each(counts: Counter[str], turn: int, names: Sequence[str]) -> dict[str, float]:
    """Divide counts among the interactions of a turn, in the order of the names."""
    return {name: counts[name] / turn for name in names if counts[name]}
