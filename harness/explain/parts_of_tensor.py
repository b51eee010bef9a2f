"""The parts of the kernel of ``tensor``, each with how often a warp runs it.

A turn of its loop over the other blocks takes one of several ways: matrix products, with one FP16 number or with two,
or the loops in float32. Which is decided by the bodies, and counted from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.explain.machine_code import Code, Loop, around
from gravbench.explain.near_pairs import MEET, Met
from gravbench.explain.paths import instructions, outside, way_through
from gravbench.explain.pipes import pipe_of
from gravbench.explain.schedule import Pass
from gravbench.explain.shape import LANES


@dataclass(frozen=True, slots=True)
class Counted:
    """A part of a kernel, and how often each warp of the grid runs it in one evaluation, shape (warps,)."""

    name: str
    done: Pass
    times: NDArray[np.int64]


def parts(code: Code, loops: Sequence[Loop], met: Met, roots: Sequence[int], roots_each: int) -> list[Counted] | None:
    """Divide the kernel into what it does far, near and once for each row of pairs; None where it has no such ways.

    ``roots`` are the places of the roots, of which a pair of bodies has ``roots_each``.
    """
    products = [at for at, one in enumerate(code.instructions) if pipe_of(one.opcode) == "tensor"]
    holding = [loop for loop in loops if products and all(loop.first <= at <= loop.last for at in products)]
    for turned in sorted(holding, key=lambda loop: loop.last - loop.first):
        ways = _ways(code, turned, products)
        # Those of the loops in float32, which the loop over the other blocks is the smallest to have, too.
        rest = [at for at in roots if turned.first <= at <= turned.last and not any(at in way for way in ways)]
        if rest and len(ways) <= 2:
            return _parts(code, loops, turned, ways, roots, rest, products, roots_each, met)
    return None


def _parts(
    code: Code,
    loops: Sequence[Loop],
    turned: Loop,
    ways: list[list[int]],
    roots: Sequence[int],
    rest: Sequence[int],
    products: Sequence[int],
    roots_each: int,
    met: Met,
) -> list[Counted]:
    # With one FP16 number there are fewer products.
    ways.sort(key=lambda way: sum(at in way for at in products))
    counts = (met.one_term, met.two_terms) if len(ways) == 2 else (met.one_term + met.two_terms,)
    names = ("one FP16", "two FP16") if len(ways) == 2 else ("tensor cores",)
    found = [
        Counted(name, _far(code, loops, turned, way, roots, roots_each, met), count)
        for name, way, count in zip(names, ways, counts, strict=True)
    ]
    near = way_through(code, turned, rest[0])
    found.append(Counted("near", Pass((), 1, instructions(code, outside(near, loops, turned))), met.near + met.within))
    found += _near_loops(code, loops, turned, rest, roots_each, met)
    rows = around(loops, turned)
    if rows is not None:
        once = outside(range(rows.first, rows.last + 1), loops, rows)
        found.append(Counted("rows", Pass((), 1, instructions(code, once)), met.rows))
        for loop in loops:
            if around(loops, loop) == rows and loop != turned:
                body = instructions(code, range(loop.first, loop.last + 1))
                found.append(Counted("rows", Pass((), 1, body), met.rows * (met.width // MEET)))
    return [one for one in found if one.times.any()]


def _ways(code: Code, turned: Loop, products: Sequence[int]) -> list[list[int]]:
    """Return the ways of a turn that go through matrix products."""
    found: list[list[int]] = []
    for at in products:
        if not any(at in way for way in found):
            found.append(way_through(code, turned, at))
    return found


def _far(
    code: Code,
    loops: Sequence[Loop],
    turned: Loop,
    way: list[int],
    roots: Sequence[int],
    roots_each: int,
    met: Met,
) -> Pass:
    """Return what a warp does where it meets 64 bodies by matrix products."""
    within = [loop for loop in loops if turned.holds(loop) and loop.first in way and _has_products(code, loop)]
    around_it = outside(way, loops, turned)
    if not within:
        return Pass((), 1, instructions(code, around_it))
    loop = within[0]
    before, after = ([at for at in around_it if (at < loop.first) == first] for first in (True, False))
    own = sum(loop.first <= at <= loop.last for at in roots) // roots_each
    # Each lane has a root for every 32nd pair of a meeting.
    turns = max(1, MEET * met.width // LANES // max(1, own))
    inner = instructions(code, range(loop.first, loop.last + 1))
    return Pass(inner, turns, instructions(code, before), instructions(code, after))


def _has_products(code: Code, loop: Loop) -> bool:
    return any(pipe_of(one.opcode) == "tensor" for one in code.instructions[loop.first : loop.last + 1])


def _near_loops(
    code: Code, loops: Sequence[Loop], turned: Loop, roots: Sequence[int], roots_each: int, met: Met
) -> list[Counted]:
    """Return the loops in float32: the first lets the other bodies act on the block, the second the reverse."""
    holding = [loop for loop in loops if turned.holds(loop) and any(loop.first <= at <= loop.last for at in roots)]
    inner = [loop for loop in holding if not any(loop.holds(other) for other in holding)]
    found = []
    for loop, others, owners, times in zip(
        inner, (MEET, met.width), (met.width, MEET), (met.near + met.within, met.near), strict=False
    ):
        outer = around(loops, loop)
        assert outer is not None  # the loop over the other blocks, at least
        own = sum(loop.first <= at <= loop.last for at in roots) // roots_each
        # Two bodies per lane at a time, each of which meets all others.
        turns = max(1, 2 * others // own)
        inside = instructions(code, range(loop.first, loop.last + 1))
        if outer == turned:
            found.append(Counted("near", Pass(inside, turns), times * (owners // MEET)))
            continue
        rest = outside(range(outer.first, outer.last + 1), loops, outer)
        before, after = ([at for at in rest if (at < loop.first) == first] for first in (True, False))
        done = Pass(inside, turns, instructions(code, before), instructions(code, after))
        found.append(Counted("near", done, times * (owners // MEET)))
    return found
