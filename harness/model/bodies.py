"""N bodies on the host: masses, positions, velocities, G = 1."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError

Floats = NDArray[np.float64]
Arrays = tuple[Floats, Floats, Floats]

SMALLEST_EPS = 1e-9


class Range(NamedTuple):
    """What a number type can compute with: outside, squares and cubes, and so contributions, overflow or underflow.

    ``length`` is the largest softening length, coordinate and velocity; between ``smallest`` and ``largest`` lies
    mass / (distance^2 + eps^2)^(3/2).
    """

    length: float
    smallest: float
    largest: float


RANGES = {"float32": Range(1e12, 1e-37, 1e38), "float64": Range(1e100, 1e-300, 1e300)}
_PAIRS_A_BLOCK = 1 << 20  # an 8 MiB temporary: the potential is summed in blocks of about so many pairs


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """N bodies on the host, as C-contiguous float64 arrays (what is not, is converted).

    Attributes:
        mass: shape (n,), zero or more.
        position: shape (n, 3).
        velocity: shape (n, 3).
        eps: Plummer softening length. It is greater than zero because the all-pairs kernels include the pair
            of a body with itself, and not below ``SMALLEST_EPS`` because eps^-3 must be finite in float32.

    Units are any in which G = 1.

    Raises:
        InputError: a shape does not fit, a value is not finite, a mass is negative, or eps is too small.
    """

    mass: Floats
    position: Floats
    velocity: Floats
    eps: float
    _kept: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("mass", "position", "velocity"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        n = self.mass.size
        if n < 1:
            raise InputError("mass has 0 elements; accepted: at least one body")
        for name, shape in (("mass", (n,)), ("position", (n, 3)), ("velocity", (n, 3))):
            array: Floats = getattr(self, name)
            if array.shape != shape:
                raise InputError(f"{name} has shape {array.shape}; accepted: {shape}")
            if not np.isfinite(array).all():
                body = int(np.argmin(np.isfinite(array).reshape(n, -1).all(axis=1)))
                raise InputError(f"{name} of body {body} is {array[body]}; accepted: finite numbers")
        if self.mass.min() < 0:
            body = int(self.mass.argmin())
            raise InputError(f"mass of body {body} is {self.mass[body]}; accepted: zero or more")
        if not (math.isfinite(self.eps) and self.eps >= SMALLEST_EPS):
            raise InputError(
                f"softening eps is {self.eps}; accepted: a finite number of {SMALLEST_EPS:g} or more, "
                f"because the pull of a body on itself is computed too, and eps^-3 must be finite in float32"
            )

    @property
    def n(self) -> int:
        """Number of bodies."""
        return self.mass.size

    @property
    def sha256(self) -> str:
        """Hash of the bytes of mass, position, velocity and eps: equal when a calculation has equal input.

        Computed once of bodies that are ``frozen``.
        """
        if self._kept:
            return self._kept[0]
        digest = hashlib.sha256()
        for array in (self.mass, self.position, self.velocity):
            digest.update(array.astype("<f8", copy=False).tobytes())
        digest.update(struct.pack("<d", self.eps))
        sha256 = digest.hexdigest()
        if not any(array.flags.writeable for array in (self.mass, self.position, self.velocity)):
            self._kept.append(sha256)
        return sha256

    def frozen(self) -> Bodies:
        """Return these bodies, their arrays closed to writing: they may be shared."""
        for array in (self.mass, self.position, self.velocity):
            array.flags.writeable = False
        return self

    def energy(self) -> float:
        """Total energy: kinetic, plus the softened potential -m m' / sqrt(r^2 + eps^2) of every pair.

        Takes time in n^2 and memory in n: meant for up to some ten thousand bodies.
        """
        kinetic = 0.5 * float(self.mass @ np.square(self.velocity).sum(axis=1))
        potential = 0.0
        rows = max(1, _PAIRS_A_BLOCK // self.n)
        for start in range(0, self.n, rows):
            squared = np.full((min(rows, self.n - start), self.n - start), self.eps**2)
            for axis in range(3):
                coordinate = self.position[start:, axis]
                squared += np.square(coordinate[None, :] - coordinate[:rows, None])
            # Above the diagonal lies each pair once and no body with itself.
            inverse = np.triu(1.0 / np.sqrt(squared), k=1)
            potential -= float(self.mass[start : start + rows] @ (inverse @ self.mass[start:]))
        return kinetic + potential


def unfit_eps(eps: float, dtype: str) -> str | None:
    """Say why a softening length is too large for kernels in a number type; None where it is not."""
    most = RANGES[dtype].length
    return (
        f"eps is {eps:g}; accepted in {dtype}: up to {most:g}, because eps^-3 underflows above" if eps > most else None
    )


def unfit(bodies: Bodies, dtype: str) -> str | None:
    """Say which numbers are too large or too small for kernels in a number type; None where all can be computed with.

    The smallest pull that is looked at is that of a mean mass over the diagonal of the box around all bodies.
    """
    limits = RANGES[dtype]
    if reason := unfit_eps(bodies.eps, dtype):
        return reason
    for name, array in (("position", bodies.position), ("velocity", bodies.velocity)):
        if np.abs(array).max() > limits.length:
            body = int(np.abs(array).max(axis=1).argmax())
            return f"{name} of body {body} is {array[body]}; accepted in {dtype}: up to {limits.length:g} on each axis"
    with np.errstate(over="ignore", under="ignore"):
        total = float(bodies.mass.sum())
        most = limits.largest * min(1.0, bodies.eps**3)
        if total > most:
            return f"the masses add up to {total:g}; accepted in {dtype} with eps = {bodies.eps:g}: up to {most:g}"
        # Column by column: over the first axis at once NumPy takes a hundred times as long.
        lengths = np.array([np.ptp(column) for column in bodies.position.T])
        far = math.sqrt(float(np.square(lengths).sum()) + bodies.eps**2)
        least = total / bodies.n / far**3
    if bodies.n > 1 and total > 0 and least < limits.smallest:
        return (
            f"the pull of a mean mass over the length of all bodies, mass / (distance^2 + eps^2)^(3/2), is {least:g}; "
            f"accepted in {dtype}: {limits.smallest:g} or more"
        )
    return None


def flattened(bodies: Bodies) -> Bodies:
    """Project bodies onto the plane z = 0, at rest across it: a two-dimensional problem with the 3D force law."""
    plane = np.array([1.0, 1.0, 0.0])
    return Bodies(bodies.mass, bodies.position * plane, bodies.velocity * plane, bodies.eps)
