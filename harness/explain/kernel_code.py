"""The machine code of a kernel as a variant may ask about it, to divide the kernel into parts (``kernel_parts``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gravbench.explain import machine_code
from gravbench.explain.machine_code import Code, Instruction
from gravbench.explain.pipes import TENSOR, pipe_of
from gravbench.explain.schedule import Pass
from gravbench.explain.trip_counts import trips
from gravbench.model.kernel_parts import KernelPart, Loop


class KernelCode:
    """What ``MachineCode`` of ``gravbench.model.kernel_parts`` is, for code with reciprocal square roots at places."""

    def __init__(
        self, code: Code, rsqrts: Sequence[int] = (), constants: Mapping[str, int] | None = None, rsqrts_each: int = 1
    ) -> None:
        self._code = code
        self.loops = code.loops()
        self.rsqrts = rsqrts
        self.rsqrts_each = rsqrts_each
        self.constants = constants or {}
        self.products = [
            at for at, instruction in enumerate(code.instructions) if pipe_of(instruction.opcode) == TENSOR
        ]
        self.length = len(code.instructions)

    def around(self, loop: Loop) -> Loop | None:
        """Return the smallest loop that holds another; None where none does."""
        return machine_code.around(self.loops, loop)

    def outside(self, places: Iterable[int], within: Loop) -> list[int]:
        """Return the places that are in no loop within another one."""
        return machine_code.outside(self.loops, places, within)

    def turns(self, loop: Loop) -> int | None:
        """Return the turns of a loop; None where they are not a constant."""
        return trips(self._code.instructions, loop)

    def following(self, place: int) -> list[int]:
        """Return the places of which one is run after a place."""
        return machine_code.following(self._code, place)

    def way_through(self, loop: Loop, place: int) -> list[int]:
        """Return the places of a loop that a turn of it may run on its way through one of them, in their order.

        These are the places from which that one is reached within a turn, and those that are reached from it. Loops
        within count as if they turned once.
        """
        ahead = {at: [to for to in self.following(at) if at < to <= loop.last] for at in loop.places}
        behind: dict[int, list[int]] = {}
        for at, targets in ahead.items():
            for to in targets:
                behind.setdefault(to, []).append(at)
        return sorted(_reached(place, ahead) | _reached(place, behind) | {place})

    def pass_of(self, part: KernelPart) -> Pass:
        """Return the instructions of a part."""
        return Pass(
            self._instructions(part.inner),
            part.turns,
            self._instructions(part.before),
            self._instructions(part.after),
        )

    def _instructions(self, places: Collection[int]) -> tuple[Instruction, ...]:
        return tuple(self._code.instructions[place] for place in places)


def _reached(place: int, edges: Mapping[int, Sequence[int]]) -> set[int]:
    reached: set[int] = set()
    todo = list(edges.get(place, ()))
    while todo:
        at = todo.pop()
        if at not in reached:
            reached.add(at)
            todo += edges.get(at, ())
    return reached
