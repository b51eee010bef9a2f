"""Initial conditions: N masses, positions and velocities, made from a seed or read from a file. G = 1."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError, nearest
from gravbench.model import files
from gravbench.model.bodies_readers import Arrays, read
from gravbench.model.case import Case

Floats = NDArray[np.float64]

SMALLEST_EPS = 1e-9
SUBSETS = ("even", "lee")
DUBINSKI_BODIES = 81_920
DUBINSKI_DISKS_AND_BULGES = 49_152

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
                f"since a body's pull on itself is computed too and eps^-3 must be finite in float32"
            )

    @property
    def n(self) -> int:
        """Number of bodies."""
        return self.mass.size

    @property
    def sha256(self) -> str:
        """Hash of the bytes of mass, position, velocity and eps: equal when a calculation has equal input."""
        digest = hashlib.sha256()
        for array in (self.mass, self.position, self.velocity):
            digest.update(array.astype("<f8", copy=False).tobytes())
        digest.update(struct.pack("<d", self.eps))
        return digest.hexdigest()

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


PLUMMER_MASS_FRACTION = 0.999


def plummer(n: int, seed: int, eps: float) -> Bodies:
    """Make a Plummer sphere of equal masses in virial equilibrium, its centre of mass at rest at the origin.

    In standard N-body units (Heggie & Mathieu 1986, after Henon 1971): G = 1, total mass 1, energy -1/4, virial
    radius 1. The recipe is the appendix of Aarseth, Henon & Wielen 1974 (A&A 37, 183), except that the squared
    ratio of speed to escape speed, whose density is sqrt(t) (1 - t)^3.5, is drawn as the beta variate it is
    instead of by rejection. Radii stop where 0.999 of the model's mass is enclosed (22.8 units), lest a few
    far bodies set the size of the whole. eps does not change the sample.

    Raises:
        InputError: n is less than 1, seed negative, or eps unacceptable.
    """
    random = _random(n, seed)
    scale = 3.0 * math.pi / 16.0
    enclosed = PLUMMER_MASS_FRACTION * (1.0 - random.random(n))  # never 0, whose power below is infinite
    radius = scale / np.sqrt(enclosed ** (-2.0 / 3.0) - 1.0)
    escape_speed = np.sqrt(2.0 / np.sqrt(np.square(radius) + scale**2))
    speed = escape_speed * np.sqrt(random.beta(1.5, 4.5, n))
    mass = np.full(n, 1.0 / n)
    position = _centred(mass, radius[:, None] * _directions(random, n))
    velocity = _centred(mass, speed[:, None] * _directions(random, n))
    return Bodies(mass, position, velocity, eps)


def uniform(n: int, seed: int, eps: float) -> Bodies:
    """Make a sphere of uniform density and equal masses, cold: every body is at rest, so it will collapse.

    G = 1, total mass 1, radius 1 about the origin. eps does not change the sample.

    Raises:
        InputError: n is less than 1, seed negative, or eps unacceptable.
    """
    random = _random(n, seed)
    radius = np.cbrt(random.random(n))
    return Bodies(np.full(n, 1.0 / n), radius[:, None] * _directions(random, n), np.zeros((n, 3)), eps)


@dataclass(frozen=True, slots=True)
class Galaxy:
    """An exponential disk and a Hernquist bulge, G = 1, and how the disk lies in the plane of the encounter.

    Attributes:
        disk_mass: mass of the disk.
        disk_length: its exponential scale length; it ends at ``DISK_EDGE`` of them.
        bulge_mass: mass of the bulge.
        bulge_length: its Hernquist scale length; it ends at ``BULGE_EDGE`` of them.
        inclination: degrees between the disk's spin and the angular momentum of the orbit.
        node: degrees from the x axis to the line where the disk crosses the plane of the orbit.
    """

    disk_mass: float
    disk_length: float
    bulge_mass: float
    bulge_length: float
    inclination: float
    node: float

    @property
    def mass(self) -> float:
        """Mass of disk and bulge."""
        return self.disk_mass + self.bulge_mass

    def enclosed_mass(self, radius: Floats) -> Floats:
        """Mass of disk and bulge within each radius, the disk's counted as if it were spread over spheres."""
        disk = _disk_part(np.minimum(radius / self.disk_length, DISK_EDGE)) / _disk_part(DISK_EDGE)
        bulge = _bulge_part(np.minimum(radius / self.bulge_length, BULGE_EDGE)) / _bulge_part(BULGE_EDGE)
        return np.asarray(self.disk_mass * disk + self.bulge_mass * bulge)


DISK_EDGE = 5.0
DISK_THICKNESS = 0.1  # scale height of the sech^2 profile, in scale lengths
DISK_DISPERSION = 0.1  # in each direction, of the circular speed
BULGE_EDGE = 10.0
# Masses as in Dubinski's table; the second galaxy is larger by the square root of its mass, as at equal
# surface density.
GALAXIES = (
    Galaxy(0.82, 1.0, 0.43, 0.2, inclination=30.0, node=0.0),
    Galaxy(1.71, 1.45, 0.90, 0.29, inclination=60.0, node=120.0),
)
PERICENTRE = 3.0
SEPARATION = 20.0


def collision_counts(n: int) -> tuple[int, int, int, int]:
    """Say how many of n bodies are of disk 1, disk 2, bulge 1 and bulge 2: about 2 to 2 to 1 to 1."""
    first, second = (n + 1) // 2, n // 2
    disks = ((2 * first + 1) // 3, (2 * second + 1) // 3)
    return (*disks, first - disks[0], second - disks[1])


def collision(n: int, seed: int, eps: float) -> Bodies:
    """Make two galaxies, each a disk and a bulge, that fall together on a parabolic orbit.

    The stand-in for the Milky Way and Andromeda of Dubinski, Mihos & Hernquist 1996 (ApJ 462, 576), in the
    order of their table and without its halos: disk 1, disk 2, bulge 1, bulge 2. Bodies of one part have
    equal masses. G = 1 and the length is the scale length of disk 1; where that is 4.5 kpc and the unit of mass
    5.1e10 solar masses, a unit of velocity is 220 km/s and a unit of time 20 million years.

    Disks: exponential, sech^2 in height, on circular orbits in the pull of the mass enclosed by a sphere, plus a
    Gaussian dispersion of a tenth of the circular speed. Bulges: Hernquist 1990 (ApJ 356, 359), with the isotropic
    Gaussian dispersion of the Jeans equation, as in Hernquist 1993 (ApJS 86, 389). Galaxies: ``GALAXIES``,
    now ``SEPARATION`` apart, approaching with zero orbital energy as two points of their masses would, to
    pass ``PERICENTRE`` apart; they orbit counter-clockwise in the x-y plane. The centre of mass of all bodies is
    at rest at the origin. One body stands for galaxy 1 alone; where a galaxy is a single body that has
    the mass of both parts. eps does not change the sample.

    Raises:
        InputError: n is less than 1, seed negative, or eps unacceptable.
    """
    random = _random(n, seed)
    counts = collision_counts(n)
    offsets, velocities = _parabolic_orbit()
    disks: list[Arrays] = []
    bulges: list[Arrays] = []
    for index, galaxy in enumerate(GALAXIES):
        disk_count, bulge_count = counts[index], counts[index + 2]
        if disk_count == 0:
            continue
        disk_mass = galaxy.disk_mass if bulge_count else galaxy.mass
        mass = np.repeat([disk_mass / disk_count, galaxy.bulge_mass / max(1, bulge_count)], [disk_count, bulge_count])
        disk_position, disk_velocity = _disk(random, galaxy, disk_count)
        bulge_position, bulge_velocity = _bulge(random, galaxy, bulge_count)
        position = _centred(mass, np.concatenate([disk_position, bulge_position])) + offsets[index]
        velocity = _centred(mass, np.concatenate([disk_velocity, bulge_velocity])) + velocities[index]
        disks.append((mass[:disk_count], position[:disk_count], velocity[:disk_count]))
        bulges.append((mass[disk_count:], position[disk_count:], velocity[disk_count:]))
    mass, position, velocity = (np.concatenate(parts) for parts in zip(*disks, *bulges, strict=True))
    return Bodies(mass, _centred(mass, position), _centred(mass, velocity), eps)


GENERATORS: dict[str, Callable[[int, int, float], Bodies]] = {
    "plummer": plummer,
    "uniform": uniform,
    "collision": collision,
}


def load(spec: str, n: int | None, seed: int, eps: float, subset: str = "even") -> Bodies:
    """Make or read the bodies that ``spec`` names.

    Args:
        spec: a name of ``GENERATORS``, or the path of a file that ``bodies_readers.read`` reads.
        n: how many bodies; None for all that a file offers.
        seed: of a generator; a file does not use it.
        eps: softening length.
        subset: which n bodies of a file. "even" spreads them over the whole file. "lee" is the rule of Lee 2008
            for the table of Dubinski: disks and bulges alone, its first 49,152 of 81,920 lines, and of these
            every (49152/n)-th. A generator does not use it.

    Raises:
        InputError: one sentence that names what is not accepted and what would be.
    """
    _check_subset(subset)
    if n is not None and n < 1:
        raise InputError(f"{spec}: {n} bodies asked for; accepted: 1 or more")
    if spec in GENERATORS:
        if n is None:
            raise InputError(f"{spec}: makes any number of bodies, so n has to be said; accepted: 1 or more")
        return GENERATORS[spec](n, seed, eps)
    arrays = _parsed(spec)
    offered = _offered(spec, arrays[0].size, subset)
    if n is None:
        n = offered
    if n > offered:
        raise InputError(f"{spec}: {n} bodies asked for, but subset {subset} has {offered}; accepted: 1 to {offered}")
    chosen = np.arange(n, dtype=np.int64) * offered // n
    mass, position, velocity = (array[chosen] for array in arrays)
    return Bodies(mass, position, velocity, eps)


def of_case(case: Case) -> Bodies:
    """Load the bodies of a case, those of a planar one in the plane; mistakes are those of ``load``."""
    bodies = load(case.bodies, case.n, case.seed, case.eps, case.subset)
    return flattened(bodies) if case.planar else bodies


def available(spec: str, subset: str = "even") -> int | None:
    """Say how many bodies a file offers in a subset, or None for a generator, which makes any number.

    Raises:
        InputError: as ``load``.
    """
    _check_subset(subset)
    return None if spec in GENERATORS else _offered(spec, _parsed(spec)[0].size, subset)


def file_sha256(spec: str) -> str | None:
    """Hash the bytes of a file of bodies; None for a generator, which its name stands for.

    Raises:
        InputError: there is no such file.
    """
    if spec in GENERATORS:
        return None
    try:
        return files.content_sha256(Path(spec))
    except (OSError, ValueError) as error:
        raise InputError(f"{spec}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def save(bodies: Bodies, path: Path) -> None:
    """Write bodies to a NumPy archive of mass, position, velocity and eps, which ``load`` reads bit for bit.

    ``load`` takes eps as its argument; the archive holds it for the reader who wants to know.

    Raises:
        InputError: the name does not end in .npz, a mass is zero (``load`` refuses it), or it cannot be written.
    """
    if path.suffix.lower() != ".npz":
        raise InputError(f"{path}: unknown suffix {path.suffix or '(none)'!r}; accepted: .npz")
    if bodies.mass.min() <= 0:
        raise InputError(f"{path}: mass of body {int(bodies.mass.argmin())} is 0; accepted in a file: more than zero")
    try:
        with path.open("wb") as file:
            np.savez(file, mass=bodies.mass, position=bodies.position, velocity=bodies.velocity, eps=bodies.eps)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _check_subset(subset: str) -> None:
    if subset not in SUBSETS:
        raise InputError(f"no subset {subset!r}: {nearest(subset, list(SUBSETS))}")


def _offered(spec: str, total: int, subset: str) -> int:
    if subset == "even":
        return total
    if total != DUBINSKI_BODIES:
        raise InputError(
            f"{spec}: has {total} bodies, but subset lee is for the table of Dubinski with {DUBINSKI_BODIES}; "
            f"accepted: subset even"
        )
    return DUBINSKI_DISKS_AND_BULGES


def _parsed(spec: str) -> Arrays:
    try:
        status = Path(spec or "\0").stat()  # Path("") would be the working directory
    except PermissionError as error:
        raise InputError(f"{spec}: cannot be read: {error.strerror}") from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"{spec!r} is neither an existing file nor a generator: {nearest(spec, list(GENERATORS))}"
        ) from error
    return _read_once(spec, Path(spec).resolve(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)
def _read_once(spec: str, resolved: Path, mtime_ns: int, size: int) -> Arrays:  # noqa: ARG001 - they are the key
    arrays = read(Path(spec))
    for array in arrays:
        array.flags.writeable = False  # shared by every later call
    return arrays


def _random(n: int, seed: int) -> np.random.Generator:
    if n < 1:
        raise InputError(f"{n} bodies asked for; accepted: 1 or more")
    if seed < 0:
        raise InputError(f"seed is {seed}; accepted: zero or more")
    return np.random.default_rng(seed)


def _directions(random: np.random.Generator, n: int) -> Floats:
    """Draw n unit vectors, evenly over the sphere (Aarseth, Henon & Wielen 1974, the same appendix)."""
    height = 2.0 * random.random(n) - 1.0
    angle = 2.0 * math.pi * random.random(n)
    across = np.sqrt(1.0 - np.square(height))
    return np.column_stack([across * np.cos(angle), across * np.sin(angle), height])


def _centred(mass: Floats, vectors: Floats) -> Floats:
    return np.asarray(vectors - (mass @ vectors) / mass.sum())


def _disk_part(lengths: Floats | float) -> Floats:
    """Part of an endless exponential disk's mass within so many scale lengths."""
    return np.asarray(1.0 - (1.0 + lengths) * np.exp(-np.asarray(lengths)))


def _bulge_part(lengths: Floats | float) -> Floats:
    """Part of an endless Hernquist bulge's mass within so many scale lengths."""
    return np.asarray(np.square(lengths / (1.0 + lengths)))


def _disk(random: np.random.Generator, galaxy: Galaxy, count: int) -> tuple[Floats, Floats]:
    """Draw positions and velocities of a disk about its galaxy's centre, tilted as the galaxy says."""
    grid = np.linspace(0.0, DISK_EDGE, 4097)
    drawn = (1.0 - random.random(count)) * _disk_part(DISK_EDGE)  # never 0: no body lies on the axis
    radius = galaxy.disk_length * np.interp(drawn, _disk_part(grid), grid)
    angle = 2.0 * math.pi * random.random(count)
    # 0.999 of the sech^2 profile, whose tail is endless.
    height = DISK_THICKNESS * galaxy.disk_length * np.arctanh(0.999 * (2.0 * random.random(count) - 1.0))
    circular = np.sqrt(galaxy.enclosed_mass(radius) / radius)[:, None]
    outward = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    along = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(count)])
    position = radius[:, None] * outward
    position[:, 2] = height
    velocity = circular * (along + DISK_DISPERSION * random.standard_normal((count, 3)))
    cos_i, sin_i = math.cos(math.radians(galaxy.inclination)), math.sin(math.radians(galaxy.inclination))
    cos_n, sin_n = math.cos(math.radians(galaxy.node)), math.sin(math.radians(galaxy.node))
    # Row by row, where the disk's own x, y and z axes come to lie; the last is its spin.
    tilt = np.array([[cos_n, sin_n, 0], [-sin_n * cos_i, cos_n * cos_i, sin_i], [sin_n * sin_i, -cos_n * sin_i, cos_i]])
    return position @ tilt, velocity @ tilt


def _bulge(random: np.random.Generator, galaxy: Galaxy, count: int) -> tuple[Floats, Floats]:
    """Draw positions and velocities of a bulge about its galaxy's centre."""
    root = np.sqrt((1.0 - random.random(count)) * _bulge_part(BULGE_EDGE))
    radius = galaxy.bulge_length * root / (1.0 - root)
    # Jeans: density * dispersion^2 = integral from the radius outwards of density * enclosed mass / r^2.
    grid = galaxy.bulge_length * np.geomspace(1e-4, BULGE_EDGE, 2049)
    density = 1.0 / (grid * (grid + galaxy.bulge_length) ** 3)
    weight = density * galaxy.enclosed_mass(grid) / np.square(grid)
    slices = 0.5 * (weight[1:] + weight[:-1]) * np.diff(grid)
    pressure = np.append(np.cumsum(slices[::-1])[::-1], 0.0)
    dispersion = np.interp(radius, grid, np.sqrt(pressure / density))
    return radius[:, None] * _directions(random, count), dispersion[:, None] * random.standard_normal((count, 3))


def _parabolic_orbit() -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Place the two centres before pericentre: their positions, and their velocities, about the centre of mass."""
    total = sum(galaxy.mass for galaxy in GALAXIES)
    # The orbit r = 2 q / (1 + cos f), with f, the angle from pericentre, still negative.
    cosine = 2.0 * PERICENTRE / SEPARATION - 1.0
    sine = -math.sqrt(1.0 - cosine**2)
    apart = SEPARATION * np.array([cosine, sine, 0.0])
    speed = math.sqrt(total / (2.0 * PERICENTRE))
    closing = speed * np.array([-sine, 1.0 + cosine, 0.0])
    first, second = GALAXIES[0].mass / total, GALAXIES[1].mass / total
    return (-second * apart, first * apart), (-second * closing, first * closing)


def flattened(bodies: Bodies) -> Bodies:
    """Project bodies onto the plane z = 0, at rest across it: a two-dimensional problem with the 3D force law."""
    plane = np.array([1.0, 1.0, 0.0])
    return Bodies(bodies.mass, bodies.position * plane, bodies.velocity * plane, bodies.eps)
