"""What stays fixed over a movie: the part of space that is seen, and the colours of bodies by speed or origin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies

Array = NDArray[np.float64]
Key = list[tuple[str, tuple[int, int, int]]]
"""Words that explain colours, each with red, green and blue from 0 to 255."""

INSIDE = 0.995
"""Part of the bodies that are in view at first, along each axis."""
MARGIN = 1.25
ROUNDED = 1e-12
"""Angular momentum, in parts of what it would be if all moved in one sense, that is not told from none."""
ORIGINS = ((255, 176, 92), (92, 158, 255))
"""Colours of the groups: orange and blue, which nearly everybody can tell apart."""
SPEEDS = ((46, 66, 235), (140, 74, 232), (232, 92, 142), (255, 160, 70), (255, 240, 160))
"""Colours from rest to the fastest, each brighter than the one before."""


@dataclass(frozen=True, slots=True)
class View:
    """A part of space, seen in parallel rays.

    Attributes:
        centre: what is seen in the middle, shape (3,).
        axes: unit vectors to the right, upwards and towards the eye, shape (3, 3).
        up: the length from the middle to the upper edge.
    """

    centre: Array
    axes: Array
    up: float

    def turned(self, bodies: Bodies) -> Array:
        """Return positions to the right, upwards and towards the eye in units of ``up``, shape (n, 3)."""
        return np.asarray((bodies.position - self.centre) @ self.axes.T / self.up)


def view_of(bodies: Bodies, aspect: float, zoom: float = 1.0) -> View:
    """See ``INSIDE`` of the bodies, with a margin, in a picture of width / height; ``zoom`` 2 sees half the lengths.

    It looks at their centre of mass from where their angular momentum points, so that what orbits does so
    counter-clockwise; without angular momentum, along the z axis. What is longest in that plane lies along the width.
    """
    centre = _mean(bodies.mass, bodies.position)
    position, velocity = bodies.position - centre, bodies.velocity - _mean(bodies.mass, bodies.velocity)
    spin = bodies.mass @ np.cross(position, velocity)
    moving = float(bodies.mass @ (np.linalg.norm(position, axis=1) * np.linalg.norm(velocity, axis=1)))
    eye = spin / np.linalg.norm(spin) if np.linalg.norm(spin) > ROUNDED * moving else np.array([0.0, 0.0, 1.0])
    flat = position - np.outer(position @ eye, eye)
    spread = flat.T @ flat
    # The last eigenvector is that of the largest eigenvalue: not the line of sight, to which a negative one is given.
    right = np.linalg.eigh(spread - (1 + np.trace(spread)) * np.outer(eye, eye))[1][:, -1]
    axes = np.array([right, np.cross(eye, right), eye])
    x, y = np.quantile(np.abs(position @ axes[:2].T), INSIDE, axis=0)
    return View(centre, axes, (MARGIN * max(float(x) / aspect, float(y)) or 1.0) / zoom)


@dataclass(frozen=True, slots=True)
class ByOrigin:
    """Each body in the colour of the group it comes from; ``groups`` are places among ``names``, shape (n,)."""

    names: tuple[str, ...]
    groups: NDArray[np.int64]

    def of(self, bodies: Bodies) -> Array:  # noqa: ARG002 - a body keeps its colour
        """Return colours between 0 and 1, shape (n, 3)."""
        return np.asarray((np.array(ORIGINS) / 255)[self.groups])

    @property
    def key(self) -> Key:
        """The colours in words."""
        return list(zip(self.names, ORIGINS, strict=False))


@dataclass(frozen=True, slots=True)
class BySpeed:
    """Each body in a colour of ``SPEEDS`` by its speed about the centre of mass, the last from ``fastest`` on."""

    fastest: float

    def parts(self, bodies: Bodies) -> Array:
        """Return speeds in parts of ``fastest``, at most 1, shape (n,)."""
        relative = bodies.velocity - _mean(bodies.mass, bodies.velocity)
        return np.asarray(np.minimum(np.linalg.norm(relative, axis=1) / self.fastest, 1))

    def of(self, bodies: Bodies) -> Array:
        """Return colours between 0 and 1, shape (n, 3)."""
        stops, parts = np.linspace(0, 1, len(SPEEDS)), self.parts(bodies)
        return np.column_stack([np.interp(parts, stops, channel) for channel in np.array(SPEEDS).T / 255])

    @property
    def key(self) -> Key:
        """The colours in words."""
        middle = f"{self.fastest / 2:.2g}"
        return [("speed 0", SPEEDS[0]), (middle, SPEEDS[len(SPEEDS) // 2]), (f"{self.fastest:.2g} or more", SPEEDS[-1])]


Colouring = ByOrigin | BySpeed


def by_speed(bodies: Bodies) -> BySpeed:
    """Choose the speed that has the last colour.

    99 % of the bodies are slower at first. Where they are colder than that, as bodies at rest, which will fall, it is
    the speed of a circular orbit around half of the mass.
    """
    distance = np.linalg.norm(bodies.position - _mean(bodies.mass, bodies.position), axis=1)
    orbit = math.sqrt(float(bodies.mass.sum()) / 2 / math.hypot(float(np.median(distance)), bodies.eps))
    moving = np.linalg.norm(bodies.velocity - _mean(bodies.mass, bodies.velocity), axis=1)
    return BySpeed(max(float(np.quantile(moving, 0.99)), orbit) or 1.0)


def _mean(mass: Array, vectors: Array) -> Array:
    total = float(mass.sum())
    return np.asarray(mass @ vectors / total if total else vectors.mean(axis=0))
