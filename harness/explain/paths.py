"""What one turn of a loop runs of it: the instructions on the way through one place, and none of the other branches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gravbench.explain.machine_code import JUMPS, Code, Instruction, Loop

ENDS = ("EXIT", "RET")


def way_through(code: Code, loop: Loop, place: int) -> list[int]:
    """Return the places of a loop that a turn of it may run on its way through one of them, in their order.

    These are the places from which that one is reached within a turn, and those that are reached from it. Loops within
    count as if they turned once.
    """
    ahead = {at: [to for to in following(code, at) if at < to <= loop.last] for at in range(loop.first, loop.last + 1)}
    behind: dict[int, list[int]] = {}
    for at, reached in ahead.items():
        for to in reached:
            behind.setdefault(to, []).append(at)
    return sorted(_reached(place, ahead) | _reached(place, behind) | {place})


def outside(places: Iterable[int], loops: Sequence[Loop], within: Loop) -> list[int]:
    """Return the places that are in no loop within another one."""
    held = [loop for loop in loops if within.holds(loop)]
    return [place for place in places if not any(loop.first <= place <= loop.last for loop in held)]


def instructions(code: Code, places: Collection[int]) -> tuple[Instruction, ...]:
    """Return the instructions at places."""
    return tuple(code.instructions[place] for place in places)


def following(code: Code, place: int) -> list[int]:
    """Return the places of which one is run after a place."""
    one = code.instructions[place]
    always = not one.predicate
    if one.name in ENDS:
        return [] if always else [place + 1]
    if one.name not in JUMPS or one.opcode == "BRA.DIV":
        return [place + 1]
    target = [code.labels[one.target]] if one.target in code.labels else []
    # BRA.U UP0, `(label): the predicate is an operand.
    return target if always and one.operands.startswith("`") else [*target, place + 1]


def _reached(place: int, edges: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    todo = list(edges.get(place, ()))
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += edges.get(at, ())
    return found
