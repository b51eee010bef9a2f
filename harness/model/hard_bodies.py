"""Initial conditions on which trees and multipoles are slow or inaccurate: cusps, clumps, lines, crowds. G = 1.

Each has equal masses and the total mass 1, and eps does not change the sample. A parameter is given by its name, and
its limits are declared beside it. Bodies are at rest unless a generator says otherwise.

Every generator raises InputError where n is less than 1, seed is negative or eps unacceptable.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from gravbench.model.bodies import Bodies, Floats
from gravbench.model.generators import centred, directions, plummer, plummer_radii, random_of

LARGEST_LENGTH, SMALLEST_LENGTH = 1e6, 1e-9
CROWD = 5000 / 65_536
"""The share of the bodies of ``coincident`` that is more than a leaf of a tree is meant for: 5,000 of 65,536."""

Length = Annotated[float, Field(ge=SMALLEST_LENGTH, le=LARGEST_LENGTH)]
Fraction = Annotated[float, Field(ge=SMALLEST_LENGTH, le=1)]
"""A length that is at most 1, the radius of what it is a length of."""


def cusp(
    n: int, seed: int, eps: float, *, inner: Fraction = 1e-5, outer: Annotated[float, Field(ge=1, le=1e6)] = 10.0
) -> Bodies:
    """Make a cusp: log-uniform radii from ``inner`` to ``outer``, so that each decade has equally many bodies.

    Directions are isotropic: the density falls as r^-3, and a tree is deep at the centre.
    """
    random = random_of(n, seed)
    radius = inner * (outer / inner) ** random.random(n)
    return _at_rest(radius[:, None] * directions(random, n), eps)


def thin_disk(n: int, seed: int, eps: float, *, height: Fraction = 1e-4) -> Bodies:
    """Make a disk of radius 1, about the z axis, even in its area and in its ``height`` about the plane z = 0.

    Bodies are on circular orbits in the pull of the mass within their radius, counted as if it were spread over
    spheres; their mean velocity is zero.
    """
    random = random_of(n, seed)
    radius = np.sqrt(random.random(n))
    angle = 2.0 * math.pi * random.random(n)
    cosine, sine = np.cos(angle), np.sin(angle)
    position = np.column_stack([radius * cosine, radius * sine, height * (random.random(n) - 0.5)])
    speed = np.sqrt(radius)  # the mass within a radius is its square
    velocity = np.column_stack([-speed * sine, speed * cosine, np.zeros(n)])
    mass = np.full(n, 1.0 / n)
    return Bodies(mass, position, centred(mass, velocity), eps)


def clumps(
    n: int,
    seed: int,
    eps: float,
    *,
    count: Annotated[int, Field(ge=2, le=1_000_000)] = 2,
    sigma: Length = 1e-4,
    distance: Length = 1000.0,
) -> Bodies:
    """Make ``count`` normal clumps of deviation ``sigma`` on a cubic lattice, neighbours ``distance`` apart.

    Each clump has equally many bodies, to within one. The sites of the lattice are centred about the origin.
    """
    random = random_of(n, seed)
    side = next(side for side in range(1, count + 1) if side**3 >= count)
    number = np.arange(count)
    site = np.column_stack([number % side, number // side % side, number // side**2]).astype(np.float64)
    site = distance * (site - site.mean(axis=0))
    clump = np.arange(n) * count // n
    return _at_rest(site[clump] + sigma * random.standard_normal((n, 3)), eps)


def line(n: int, seed: int, eps: float, *, length: Length = 2.0) -> Bodies:
    """Make bodies evenly on a line through the origin, of this ``length``, along the diagonal x = y = z."""
    random = random_of(n, seed)
    coordinate = length * (random.random(n) - 0.5) / math.sqrt(3.0)
    return _at_rest(np.column_stack([coordinate, coordinate, coordinate]), eps)


def coincident(n: int, seed: int, eps: float, *, share: Annotated[float, Field(ge=0, le=0.99)] = CROWD) -> Bodies:
    """Make a Plummer sphere, in which the first ``share`` of the bodies are all where the first one is.

    They share its velocity too, so that they stay together. The centre of mass is at rest at the origin.
    """
    sphere = plummer(n, seed, eps)
    crowd = int(share * n)
    position, velocity = sphere.position.copy(), sphere.velocity.copy()
    position[:crowd], velocity[:crowd] = position[0], velocity[0]
    return Bodies(sphere.mass, centred(sphere.mass, position), centred(sphere.mass, velocity), eps)


def filament(
    n: int, seed: int, eps: float, *, width: Fraction = 1e-3, turns: Annotated[float, Field(ge=0.01, le=1000)] = 1.0
) -> Bodies:
    """Make a thin curved filament: a helix of radius 1 and height 1 about the z axis, of so many ``turns``.

    Each body is displaced from a place on the helix like a body of a Plummer sphere of scale length ``width`` from its
    centre, at most 38.7 of these.
    """
    random = random_of(n, seed)
    along = random.random(n)
    angle = 2.0 * math.pi * turns * along
    helix = np.column_stack([np.cos(angle), np.sin(angle), along - 0.5])
    return _at_rest(helix + plummer_radii(random, n, width)[:, None] * directions(random, n), eps)


def _at_rest(position: Floats, eps: float) -> Bodies:
    n = len(position)
    return Bodies(np.full(n, 1.0 / n), position, np.zeros((n, 3)), eps)
