"""Whether an entry is right: launches on bodies of several sizes, each compared with direct sums in float64.

The bodies of every launch are new: other positions, masses and softening, from a seed that is drawn for the judgement.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.emulation.programs import Fault
from gravbench.errors import InputError
from gravbench.judging.diagnosis import Contributions, Result, cause_of, distances, ranges
from gravbench.judging.entry import Entry
from gravbench.judging.launching import Launcher
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.record import Errors
from gravbench.model.variant import DIRECT_SUM, Tolerance, Variant
from gravbench.verifying.comparing import ACCELERATION, Limits, Reference, limits_of, objection_to, scale_objection
from gravbench.verifying.direct_sums import Sums, direct_sums
from gravbench.verifying.perturbed import other_bodies
from gravbench.verifying.verify import verified_rows

EPS = 0.05
"""A usual softening length; each launch has its own, up to twice or down to half of it."""
LAUNCHES = 3
"""On other bodies each, one after another in one process."""
MOST_BODIES = 8192
SMALL, USUAL = 33, 1000
USUAL_SIMULATED, MOST_SIMULATED = 257, 513
"""Numba's simulator is slow: fewer bodies, and beyond ``MOST_SIMULATED`` a single launch."""


@dataclass(frozen=True)
class Sized:
    """What came of one number of bodies: the errors and limits of the worst launch, and why it is wrong.

    ``wrong`` says what is wrong, ``bodies`` which, and ``cause`` why that is likely; they are empty where the result is
    right. A ``fault`` ended the launches before there was a result.
    """

    n: int
    errors: Errors | None
    limits: Limits | None
    wrong: str = ""
    bodies: str = ""
    cause: str = ""
    fault: Fault | None = None

    @property
    def right(self) -> bool:
        """Whether all launches were right."""
        return not self.wrong and self.fault is None


@dataclass(frozen=True)
class Judgement:
    """An entry, the errors that are accepted and whose these are, the seed of its bodies, and what came of each n."""

    entry: Entry
    tolerance: Tolerance
    accepted: str
    seed: int
    sizes: tuple[Sized, ...]

    @property
    def right(self) -> bool:
        """Whether all sizes are right."""
        return all(size.right for size in self.sizes)


def usual_sizes(entry: Entry) -> list[int]:
    """Return the numbers of bodies that an entry is judged at: one, a warp and one, a whole block, a ragged end."""
    threads = max(entry.threads(n) for n in (1, USUAL))
    if entry.is_python:
        ragged = 2 * threads + 1 if 2 * threads < MOST_SIMULATED else threads + 1
        return sorted({1, SMALL, *([threads] if threads < MOST_SIMULATED else []), max(USUAL_SIMULATED, ragged)})
    return sorted({1, SMALL, threads, max(USUAL, 2 * threads + 1)})


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse numbers of bodies that take too long.

    Raises:
        InputError: one is below 1 or above ``MOST_BODIES``, or there are none.
    """
    for n in sizes or [0]:
        if not 1 <= n <= MOST_BODIES:
            raise InputError(f"--n {n}; accepted: 1 to {MOST_BODIES}")


def tolerance_of(entry: Entry, rung: Variant | None) -> tuple[Tolerance, str]:
    """Return the errors that are accepted, and in words whose they are.

    Raises:
        InputError: the rung does not compute in the number type of the entry.
    """
    precision = entry.head.precision
    if entry.head.error is not None:
        return Tolerance(max=entry.head.error, rms=entry.head.error), "the entry itself"
    tolerance = DIRECT_SUM[precision]
    if rung is not None:
        if precision not in rung.dtypes:
            raise InputError(f"{entry.path}: {rung.name} does not compute in {precision}; accepted: another rung")
        tolerance = rung.accepted(precision, rung.complete({}))
    return tolerance, "a direct sum" if tolerance.of_rounding or rung is None else rung.name


def judge(
    entry: Entry, launcher: Launcher, sizes: Sequence[int], rung: Variant | None = None, seed: int | None = None
) -> Judgement:
    """Launch an entry for each number of bodies and compare what it computes; ``seed`` is drawn where there is none.

    Raises:
        InputError: the entry cannot be compiled, or cannot be launched for one of the sizes.
    """
    check_sizes(sizes)
    for n in sizes:  # before anything is compiled
        entry.calls(n)
        entry.scratch_bytes(n)
    chosen = secrets.randbelow(2**32) if seed is None else seed
    tolerance, accepted = tolerance_of(entry, rung)
    judged: list[Sized] = []
    for n in sizes:
        judged.append(_judged(entry, launcher, n, tolerance, chosen))
        if judged[-1].fault is not None:
            break
    return Judgement(entry, tolerance, accepted, chosen, tuple(judged))


def bodies_of(n: int, seed: int, launches: int = LAUNCHES) -> list[Bodies]:
    """Return the bodies of each launch: a Plummer sphere, every other time so small that the softening matters most.

    Their masses differ, and about half of the mass is in a few bodies, the first and the last among them.
    """
    generator = np.random.default_rng([seed, n])
    sets = []
    for turn in range(launches):
        sphere = generators.plummer(n, int(generator.integers(2**31)), EPS * 2 ** generator.uniform(-1, 1))
        sets.append(other_bodies(sphere, generator, near=turn % 2 == 1))
    return sets


def _judged(entry: Entry, launcher: Launcher, n: int, tolerance: Tolerance, seed: int) -> Sized:
    simulated = 2 if n <= MOST_SIMULATED else 1
    sets = bodies_of(n, seed, simulated if entry.is_python else LAUNCHES)
    answer = launcher.run(entry, sets)
    if answer.fault is not None:
        return Sized(n, None, None, fault=answer.fault)
    # The first launch that is wrong says most; of right ones, that which is nearest to the limit.
    compared = []
    for turn, (bodies, computed) in enumerate(zip(sets, answer.accelerations, strict=True)):
        sums = direct_sums(find(GRAVITY), bodies, np.arange(n), entry.head.precision)
        size = _compared(entry, bodies, computed, sums, tolerance, sets[turn - 1] if turn else None)
        if not size.right:
            return size
        compared.append(size)
    return max(compared, key=lambda size: size.errors.error_magnitude_max or 0.0 if size.errors else 0.0)


def _compared(
    entry: Entry, bodies: Bodies, computed: NDArray[Any], sums: Sums, tolerance: Tolerance, former: Bodies | None
) -> Sized:
    errors, limits, wrong = _errors(entry, computed, sums, tolerance)
    if not wrong:
        return Sized(bodies.n, errors, limits)
    rows = distances(computed, Contributions(sums.exact, sums.magnitudes)) > limits.max
    named = ranges(rows) if rows.any() else ""  # of some errors, all together are too large and none alone
    result = Result(
        *(bodies, computed, sums.exact, sums.magnitudes, rows if named else np.ones(bodies.n, np.bool_)),
        *(former, tiles_of(entry, bodies.n)),
    )
    return Sized(bodies.n, errors, limits, wrong, named, cause_of(result))


def _errors(
    entry: Entry, computed: NDArray[Any], sums: Sums, tolerance: Tolerance
) -> tuple[Errors, Limits, str | None]:
    """Return how far accelerations are from direct sums, what is accepted, and why they are wrong; None where right."""
    errors, scale = Reference(sums.exact, sums.magnitudes, ACCELERATION).errors(computed)
    limits = limits_of(tolerance, sums, ACCELERATION, entry.head.precision)
    return errors, limits, objection_to(errors, limits) or scale_objection(scale, limits)


def objection(
    entry: Entry, bodies: Bodies, computed: NDArray[Any], tolerance: Tolerance, generator: np.random.Generator
) -> str | None:
    """Say why accelerations of many bodies are wrong, of which a sample is compared; None where they are right."""
    if not np.isfinite(computed).all():
        return f"{np.count_nonzero(~np.isfinite(computed).all(axis=1)):,} accelerations are not written, or not finite"
    rows = verified_rows(bodies.n, generator)
    sums = direct_sums(find(GRAVITY), bodies, rows, entry.head.precision)
    return _errors(entry, computed[rows], sums, tolerance)[2]


def tiles_of(entry: Entry, n: int) -> list[int]:
    """Return the numbers of bodies that a kernel may work on together, the likeliest first."""
    calls = entry.calls(n)
    extents = [*(prod(call.block) for call in calls), *(extent for call in calls for extent in call.block)]
    return [tile for tile in dict.fromkeys([*extents, *entry.head.constants.values(), 32]) if 2 <= tile < MOST_BODIES]
