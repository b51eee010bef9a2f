"""How many clocks a loop takes on one scheduler of a multiprocessor, by running its machine code step by step.

A multiprocessor has four schedulers, and each issues at most one instruction of one of its warps per clock. A warp
issues in order. Its next instruction waits for the clocks that the assembler wrote into the one before it, for the
barriers that loads and reciprocal square roots open when they are done, for the unit that executes it, and for the two
banks of the register file, which deliver one operand each per clock. Blocks are alike, so one scheduler stands for all:
a unit that all four share is busy four times as long.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from gravbench.explain.dependency_chains import widths_of_matrices
from gravbench.explain.machine_code import Instruction
from gravbench.explain.pipes import TENSOR, pipe_of

SCHEDULERS = 4
SECTOR = 32
"""Bytes that a miss of the first cache brings."""
PASSES = 4
"""Of each warp: in the first the pipelines fill, in the last the first warps end."""
MOST_STEPS = 16_000
"""Instructions that are run at most, over all passes and warps."""
BARRIER = 20
"""Clocks from the last warp that gets to a barrier of a block to the first that goes on."""

REGISTER = re.compile(r"(?<![\w.])R(\d+)((?:\.\w+)*)")
PREDICATE = re.compile(r"!?U?P(?:T|\d+)")
ADDRESS = re.compile(r"(?<!desc)\[U?R(\d+)(?:\.\w+)*(?:\+U?R\w+)?(?:\+(-?0x[0-9a-f]+))?\]")
WITHOUT_RESULT = ("ST", "RED", "BAR", "BRA")
SHARED = "load-store"
XU = "XU"
SMALL_PRODUCT = f"{TENSOR}.8"
"""A matrix product with half as many numbers in a row."""
WIDENED = "widened"
L2, FROM_L2 = "L2", "from L2"
"""To the cache that all multiprocessors share, and from it: what waits for it keeps no other load or store waiting.

Requests and replies have a network each (Accel-Sim, Khairy et al. 2020, models them so), so that stores, whose data go
with the request, and loads, whose data come with the reply, do not wait for each other.
"""
MIO, LG = "MIO", "LG"
"""Queues, from which instructions begin in their order; the warp goes on meanwhile.

NVIDIA, Nsight Compute, warp stall reasons: one is that of shared memory and of special math alike, so that a rsqrt that
waits for the XU keeps a load behind it waiting; another one that of local and global memory. Matrix products have none:
the assembler writes when their results are there, as it does for additions, so none may begin later than it was issued.
"""


@dataclass(frozen=True, slots=True)
class Costs:
    """Clocks that a warp's instruction keeps its unit of a scheduler busy, and clocks until its result is there.

    Both are by kind: a pipe, or ``LDS.128``, ``LDG.32``, ``SHFL``, ... of the unit that loads and stores. ``miss`` is
    the latency of a load of what the first cache does not hold yet, ``operand`` are the clocks in which a bank delivers
    an operand, ``ahead`` the clocks by which an instruction may issue before its operands are delivered, and ``queue``
    are the instructions that a queue holds. ``hindrance`` are the clocks for which a matrix product keeps the XU from
    beginning a rsqrt, as measured: which path of a scheduler the two share is not documented.
    """

    busy: dict[str, float]
    latency: dict[str, float]
    miss: float
    operand: float = 1.0
    ahead: float = 0.0
    queue: int = 4
    hindrance: float = 0.0

    def __hash__(self) -> int:
        """Hash what tells costs apart, of one set of peak rates."""
        return hash((self.miss, self.operand, tuple(self.busy.values())))


@dataclass(frozen=True, slots=True)
class Pass:
    """What each warp does again and again: ``before``, ``turns`` times ``inner``, ``after``."""

    inner: tuple[Instruction, ...]
    turns: int = 1
    before: tuple[Instruction, ...] = field(default=())
    after: tuple[Instruction, ...] = field(default=())

    @property
    def length(self) -> int:
        """Its instructions."""
        return len(self.before) + self.turns * len(self.inner) + len(self.after)


@dataclass(frozen=True, slots=True)
class _Step:
    unit: str
    queue: str
    busy: float
    latency: float
    stall: int
    result: int
    read: int
    waits: tuple[int, ...]
    even: float
    odd: float
    meets: bool
    sector: tuple[str, int, int] | None


@lru_cache(maxsize=4096)
def clocks(done: Pass, warps: int, together: int, costs: Costs) -> float:
    """Return the clocks of a scheduler with ``warps`` warps for one pass of one of them.

    ``together`` of them are of one block, and wait for each other at its barriers.
    """
    turns = max(1, min(done.turns, MOST_STEPS // (PASSES * warps * max(1, len(done.inner)))))
    part = replace(done, turns=turns)
    total = _run(_steps(part, costs), warps, together, costs)
    if turns < done.turns:
        # The turns that were left out take as long as those without what is around them.
        alone = _run(_steps(Pass(done.inner, turns), costs), warps, together, costs)
        total += alone * (done.turns / turns - 1)
    return total


def kind_of(instruction: Instruction) -> str:
    """Return the kind of an instruction as ``Costs`` has it."""
    if instruction.name in ("LDS", "STS", "LDG", "STG", "LD", "ST"):
        width = next((bits for bits in ("128", "64") if f".{bits}" in instruction.opcode), "32")
        return f"{'LDS' if instruction.name in ('LDS', 'STS') else 'LDG'}.{width}"
    if instruction.name in ("RED", "REDG", "ATOM", "ATOMG"):
        return "RED"
    pipe = pipe_of(instruction.opcode)
    if instruction.name in ("MOVM", "F2FP", "STL", "LDL"):
        return instruction.name
    if instruction.opcode.startswith("HADD2.F32"):  # it makes floats of half-precision numbers
        return WIDENED
    if pipe == TENSOR and ".1688" in instruction.opcode:
        return SMALL_PRODUCT
    return "SHFL" if pipe == SHARED else pipe


def unit_of(kind: str) -> str:
    """Return the unit that executes a kind of instruction."""
    if kind in ("RED", "STL"):
        return L2
    if kind == "LDL":
        return FROM_L2
    if kind.startswith(("LDS", "LDG", "SHFL", "MOVM")):
        return SHARED
    return {"F2FP": "ALU", WIDENED: "FMA"}.get(kind, kind.partition(".")[0])


def queue_of(kind: str) -> str:
    """Return the queue in which a kind of instruction waits for its unit; empty where it has none."""
    if kind.startswith("LDG") or unit_of(kind) in (L2, FROM_L2):
        return LG
    return MIO if unit_of(kind) in (SHARED, XU) else ""


def busy_of(instruction: Instruction, busy: Mapping[str, float]) -> float:
    """Return the clocks for which an instruction keeps its unit busy, of clocks by kind.

    What the lanes address decides it where banks of shared memory take longer than for one address of the whole warp.
    """
    kind = kind_of(instruction)
    usual = busy.get(kind, 1.0)
    return max(usual, instruction.wavefronts * busy.get("LDS.32", 0.0)) if kind.startswith("LDS") else usual


def operands(body: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Return for each instruction how many operands it reads from even registers and how many from odd ones.

    What the instruction before it kept for reuse, in the same place, is not read again. The factors of a matrix product
    are several registers each.
    """
    kept: dict[int, str] = {}
    counts = []
    for instruction in body:
        fields = [text.strip() for text in re.split(r",(?![^\[]*\])", instruction.operands)]
        results = 0 if instruction.name.startswith(WITHOUT_RESULT) else 1
        if results and PREDICATE.fullmatch(fields[0]):
            results = 2
        now: dict[int, str] = {}
        read: set[int] = set()
        widths = widths_of_matrices(instruction)
        for place, text in enumerate(fields[results:]):
            for number, suffixes in REGISTER.findall(text):
                if kept.get(place) != number:
                    width = widths[place] if place < len(widths) else 1
                    read |= set(range(int(number), int(number) + width))
                if "reuse" in suffixes:
                    now[place] = number
        kept = now
        odd = sum(number % 2 for number in read)
        counts.append((len(read) - odd, odd))
    return counts


def _steps(done: Pass, costs: Costs) -> list[_Step]:
    """Decode the instructions of a pass; the loads of the inner loop are told apart by what they bring."""
    outside = bool(done.before or done.after)
    inner = _decoded(done.inner, costs, missing=False)
    steps = _decoded(done.before, costs, missing=True)
    strides: dict[str, int] = {}
    first: dict[str, int] = {}
    if not outside:  # every load of the loop is from global memory, one address for the whole warp
        for instruction in done.inner:
            if (place := _address(instruction)) is not None:
                register, offset, size = place
                strides[register] = strides.get(register, 0) + size
                first[register] = min(offset, first.get(register, offset))
    for turn in range(done.turns):
        for instruction, step in zip(done.inner, inner, strict=True):
            place = None if outside else _address(instruction)
            if place is None:
                steps.append(step)
            else:
                register, offset, _ = place
                stride = strides[register]
                steps.append(
                    replace(step, sector=(register, offset - first[register] + turn * stride, done.turns * stride))
                )
    steps += _decoded(done.after, costs, missing=True)
    return steps


def _address(instruction: Instruction) -> tuple[str, int, int] | None:
    """Return the register, the offset and the bytes of a load from global memory."""
    if instruction.name != "LDG" or not (match := ADDRESS.search(instruction.operands)):
        return None
    return (
        match[1],
        int(match[2] or "0", 16),
        16 if ".128" in instruction.opcode else 8 if ".64" in instruction.opcode else 4,
    )


def _decoded(body: Sequence[Instruction], costs: Costs, *, missing: bool) -> list[_Step]:
    steps = []
    for instruction, (even, odd) in zip(body, operands(body), strict=True):
        kind, bits = kind_of(instruction), instruction.control
        busy = busy_of(instruction, costs.busy)
        latency = costs.miss if missing and instruction.name == "LDG" else costs.latency.get(kind, 4.0)
        # The words of the last wavefront come last.
        latency += (busy - costs.busy.get(kind, 1.0)) / SCHEDULERS
        steps.append(
            _Step(
                unit_of(kind),
                queue_of(kind),
                busy,
                latency,
                max(1, bits & 15),
                bits >> 5 & 7,
                bits >> 8 & 7,
                tuple(barrier for barrier in range(6) if bits >> 11 + barrier & 1),
                even * costs.operand,
                odd * costs.operand,
                instruction.name == "BAR",
                None,
            )
        )
    return steps


def _run(steps: Sequence[_Step], warps: int, together: int, costs: Costs) -> float:
    """Run the passes of all warps, and return the clocks per pass while all of them are in the middle."""
    scheduler = _Scheduler(steps, warps, together, costs)
    while scheduler.left:
        warp = scheduler.choose()
        if warp is not None:
            scheduler.issue(warp)
    return scheduler.clocks_per_pass


class _Scheduler:
    """One scheduler while it runs the passes of its warps."""

    def __init__(self, steps: Sequence[_Step], warps: int, together: int, costs: Costs) -> None:
        self.steps, self.warps, self.together, self.costs = steps, warps, together, costs
        self.length = len(steps)
        # Of each warp: how many instructions it has issued, when it can issue the next one, and its barriers.
        self.place = [0] * warps
        self.ready = self._beginnings()
        self.open_at = [[0.0] * 8 for _ in range(warps)]
        # Of each block the warps at its barrier, and when each of them could go on.
        self.waiting: dict[int, list[tuple[int, float]]] = {}
        # When each unit and the two register banks are free, and when the last instructions left each queue.
        self.free: dict[str, float] = {}
        self.even_free = self.odd_free = 0.0
        self.queues: dict[str, deque[float]] = {name: deque(maxlen=costs.queue) for name in (MIO, LG)}
        # When sectors come that were loaded.
        self.brought: dict[tuple[str, int], float] = {}
        self.clock, self.last, self.left = 0.0, 0, warps
        # Which warps have their turn after which.
        self.orders: list[list[int]] = [[*range(first, warps), *range(first)] for first in range(warps)]
        # How many instructions were issued, and when, as the last warp began its second pass and as the first ended.
        self.issued = self.first_passes = 0
        self.begin: tuple[float, int] = (0.0, 0)
        self.end: tuple[float, int] | None = None

    def _beginnings(self) -> list[float]:
        """Return when warps begin: blocks at different places of a pass, as when they have run for a while."""
        blocks = -(-self.warps // self.together)
        if blocks == 1:
            return [float(warp) for warp in range(self.warps)]
        return [float(warp // self.together * self.length * self.warps // blocks) for warp in range(self.warps)]

    @property
    def clocks_per_pass(self) -> float:
        """The clocks of a pass while all warps are in the middle, or over all of it where they never are."""
        (began, at_begin), (ended, at_end) = self.begin, self.end or (0.0, 0)
        if at_end > at_begin:
            return (ended - began) / (at_end - at_begin) * self.length
        return self.clock / (self.issued / self.length)

    def choose(self) -> int | None:
        """Return the warp that issues now, the last one first; None, after a step ahead in time, where none can."""
        soonest, clock, ready = float("inf"), self.clock, self.ready
        for warp in self.orders[self.last]:
            when = ready[warp]
            if when <= clock:
                when = self._room_for(self.steps[self.place[warp] % self.length])
                if when <= clock:
                    return warp
            if when < soonest:
                soonest = when
        self.clock = soonest
        return None

    def _room_for(self, step: _Step) -> float:
        """Return when there is room in the queue or the unit of an instruction, and its operands are delivered."""
        if step.queue:
            queue = self.queues[step.queue]
            when = queue[0] if len(queue) == self.costs.queue else 0.0
        else:
            when = self.free.get(step.unit, 0.0)
        if step.even and self.even_free - self.costs.ahead > when:
            when = self.even_free - self.costs.ahead
        if step.odd and self.odd_free - self.costs.ahead > when:
            when = self.odd_free - self.costs.ahead
        return when

    def issue(self, warp: int) -> None:
        """Issue the next instruction of a warp."""
        self.last = warp
        place, barriers = self.place[warp], self.open_at[warp]
        step = self.steps[place % self.length]
        begins, done = self._execute(step, place)
        if step.result < 6:
            barriers[step.result] = max(barriers[step.result], done)
        if step.read < 6:
            barriers[step.read] = max(barriers[step.read], begins + step.busy)
        place += 1
        self.place[warp] = place
        self.issued += 1
        when = self.clock + step.stall
        if place < PASSES * self.length:
            for barrier in self.steps[place % self.length].waits:
                if barriers[barrier] > when:
                    when = barriers[barrier]
        else:
            when = float("inf")
            self.left -= 1
            self.end = self.end or (self.clock, self.issued)
        self.ready[warp] = when
        if place == self.length:
            self.first_passes += 1
            if self.first_passes == self.warps:
                self.begin = self.clock, self.issued
        if step.meets and self.together > 1:
            self._meet(warp, when)
        self.clock += 1

    def _execute(self, step: _Step, place: int) -> tuple[float, float]:
        """Keep what an instruction needs busy; return when its unit begins, and when its result is there."""
        begins = max(self.free.get(step.unit, 0.0), self.clock)
        if step.queue:
            queue = self.queues[step.queue]
            begins = max(begins, queue[-1]) if queue else begins
            queue.append(begins)
        self.free[step.unit] = begins + step.busy
        if step.unit == TENSOR:
            self.free[XU] = max(self.free.get(XU, 0.0), self.clock) + self.costs.hindrance
        if step.even:
            self.even_free = max(self.even_free, self.clock) + step.even
        if step.odd:
            self.odd_free = max(self.odd_free, self.clock) + step.odd
        done = begins + step.latency
        if step.sector is not None:
            register, offset, span = step.sector
            sector = register, (place // self.length * span + offset) // SECTOR
            done = max(done, self.brought.setdefault(sector, begins + self.costs.miss))
        return begins, done

    def _meet(self, warp: int, when: float) -> None:
        """Let a warp, which could go on at a time, wait at a barrier of its block until all others are there."""
        block = warp // self.together
        there = self.waiting.setdefault(block, [])
        there.append((warp, when))
        if len(there) < min(self.together, self.warps - block * self.together):
            self.ready[warp] = float("inf")
            return
        for other, earliest in there:
            self.ready[other] = max(earliest, self.clock + BARRIER)
        there.clear()
