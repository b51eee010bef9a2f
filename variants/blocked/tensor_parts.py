"""The parts of the kernel of ``tensor``, each with how often a warp runs it: what ``gravbench explain`` asks for.

A turn of its loop over the other blocks takes one of several ways: matrix products, with one FP16 number or with two,
or the loops in float32. Which is decided by the bodies, and counted from them.
"""

from gravbench.model.variant import Divided, KernelPart, KernelParts, Operations
from gravbench.variants.blocked import near_pairs, operations
from gravbench.variants.blocked.near_pairs import MEET

OPERATIONS = Operations(
    rsqrts=("inverse_sqrt(a)", "inverse_sqrt(b)"),
    additions={
        **operations.ADDITIONS,
        "atomicAdd(to + 64 * tile, up - positions[24 * tile] * up_mass);": "up - positions[24 * tile] * up_mass",
        "atomicAdd(to + 64 * tile + 8, down - positions[24 * tile + 3] * down_mass);": (
            "down - positions[24 * tile + 3] * down_mass"
        ),
        "atomicAdd(to, far.x - x_up * up_mass);": "far.x - x_up * up_mass",
        "atomicAdd(to + 32, far.y - x_down * down_mass);": "far.y - x_down * down_mass",
    },
)
"""Most of its interactions are products of matrices, which are not repeated."""
LANES = 32
"""Threads of a warp."""


def divide(code, evaluation):
    """Divide the kernel into what it does far, near and once for each row of pairs; None where it has no such ways."""
    turned, ways, rest = _ways_of_turn(code)
    if turned is None:
        return None
    counts = meetings_of(evaluation.bodies(), code.constants, evaluation.axes, evaluation.warps)
    return parts(code, turned, ways, rest, counts)


PARTS = KernelParts("tensor", "pairs", divide)
"""In the other stages bodies are put into their order, and sums out of it."""

_COUNTED = {}


def meetings_of(bodies, constants, axes, warps):
    """Count what the warps meet, for a kernel with these constants and a grid of so many warps."""
    along_curve = bool(axes.get("reorder", True))  # always, where it is no axis
    many = constants["MANY"] if constants["TERMS"] == 1 else None
    key = bodies.sha256, constants["R"], constants["SEPARATION"], many, along_curve, warps
    if key not in _COUNTED:
        _COUNTED[key] = near_pairs.meetings(
            bodies,
            width=LANES * constants["R"],
            separation=constants["SEPARATION"] / 100,
            many=many,
            along_curve=along_curve,
            warps=warps,
        )
    return _COUNTED[key]


def _ways_of_turn(code):
    """Return the loop over the other blocks, its ways through matrix products, and the rsqrts on none of these."""
    holding = [loop for loop in code.loops if code.products and all(at in loop.places for at in code.products)]
    for turned in sorted(holding, key=lambda loop: loop.last - loop.first):
        ways = []
        for at in code.products:
            if not any(at in way for way in ways):
                ways.append(code.way_through(turned, at))
        # Those of the loops in float32, which the loop over the other blocks is the smallest to have, too.
        rest = [at for at in code.rsqrts if at in turned.places and not any(at in way for way in ways)]
        if rest and len(ways) <= 2:
            return turned, ways, rest
    return None, [], []


def parts(code, turned, ways, rest, counts):
    """Return the parts of a kernel whose warps meet others as ``counts`` says."""
    # With one FP16 number there are fewer products.
    ways.sort(key=lambda way: sum(at in way for at in code.products))
    times = (counts.one_term, counts.two_terms) if len(ways) == 2 else (counts.one_term + counts.two_terms,)
    names = ("one FP16", "two FP16") if len(ways) == 2 else ("tensor cores",)
    every_near = counts.near + counts.within
    near = code.outside(code.way_through(turned, rest[0]), turned)
    found = [
        *(_far(code, turned, way, name, count, counts) for name, way, count in zip(names, ways, times, strict=True)),
        KernelPart("near", every_near, (), before=near),
        *_near_loops(code, turned, rest, counts),
        *_rows(code, turned, counts),
    ]
    return Divided([part for part in found if part.times.any()], counts.interactions / LANES)


def _far(code, turned, way, name, times, counts):
    """Return what a warp does where it meets 64 bodies by matrix products."""
    within = [loop for loop in code.loops if turned.holds(loop) and loop.first in way and _has_products(code, loop)]
    around_it = code.outside(way, turned)
    if not within:
        return KernelPart(name, times, (), before=around_it)
    loop = within[0]
    before, after = ([at for at in around_it if (at < loop.first) == first] for first in (True, False))
    # Each lane has a rsqrt for every 32nd pair of a meeting.
    turns = max(1, MEET * counts.width // LANES // max(1, _interactions(code, loop, code.rsqrts)))
    return KernelPart(name, times, loop.places, turns, before, after)


def _has_products(code, loop):
    return any(at in loop.places for at in code.products)


def _interactions(code, loop, rsqrts):
    """Return of how many interactions a turn of a loop computes the rsqrts."""
    return sum(at in loop.places for at in rsqrts) // code.rsqrts_each


def _near_loops(code, turned, rsqrts, counts):
    """Return the loops in float32: the first lets the other bodies act on the block, the second the reverse."""
    holding = [loop for loop in code.loops if turned.holds(loop) and any(at in loop.places for at in rsqrts)]
    inner = [loop for loop in holding if not any(loop.holds(other) for other in holding)]
    found = []
    for loop, others, owners, times in zip(
        inner, (MEET, counts.width), (counts.width, MEET), (counts.near + counts.within, counts.near), strict=False
    ):
        # Two bodies per lane at a time, each of which meets all others.
        turns = max(1, 2 * others // _interactions(code, loop, rsqrts))
        outer = code.around(loop)  # the loop over the other blocks, at least
        rest = [] if outer == turned else code.outside(outer.places, outer)
        before, after = ([at for at in rest if (at < loop.first) == first] for first in (True, False))
        found.append(KernelPart("near", times * (owners // MEET), loop.places, turns, before, after))
    return found


def _rows(code, turned, counts):
    """Return what a warp does once for each row of pairs, and for each 64 bodies of its block there."""
    rows = code.around(turned)
    if rows is None:
        return
    yield KernelPart("rows", counts.rows, (), before=code.outside(rows.places, rows))
    for loop in code.loops:
        if code.around(loop) == rows and loop != turned:
            yield KernelPart("rows", counts.rows * (counts.width // MEET), (), before=loop.places)
