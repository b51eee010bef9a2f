"""Initial conditions made from a seed: a Plummer sphere, a uniform sphere or cube, galaxies that collide. G = 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gravbench.errors import InputError
from gravbench.model.bodies import Arrays, Bodies, Floats

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
    random = random_of(n, seed)
    scale = 3.0 * math.pi / 16.0
    radius = plummer_radii(random, n, scale)
    escape_speed = np.sqrt(2.0 / np.sqrt(np.square(radius) + scale**2))
    speed = escape_speed * np.sqrt(random.beta(1.5, 4.5, n))
    mass = np.full(n, 1.0 / n)
    position = centred(mass, radius[:, None] * directions(random, n))
    velocity = centred(mass, speed[:, None] * directions(random, n))
    return Bodies(mass, position, velocity, eps)


def uniform(n: int, seed: int, eps: float) -> Bodies:
    """Make a sphere of uniform density and equal masses, cold: every body is at rest, so it will collapse.

    G = 1, total mass 1, radius 1 about the origin. eps does not change the sample.

    Raises:
        InputError: n is less than 1, seed negative, or eps unacceptable.
    """
    random = random_of(n, seed)
    radius = np.cbrt(random.random(n))
    return Bodies(np.full(n, 1.0 / n), radius[:, None] * directions(random, n), np.zeros((n, 3)), eps)


def cube(n: int, seed: int, eps: float) -> Bodies:
    """Make a cube of uniform density and equal masses, every body at rest.

    All leaves of a tree over it have about as many bodies, as in section 31.6 of GPU Gems 3. G = 1, total mass 1, edges
    of length 1, the centre at the origin. eps does not change the sample.

    Raises:
        InputError: n is less than 1, seed negative, or eps unacceptable.
    """
    random = random_of(n, seed)
    return Bodies(np.full(n, 1.0 / n), random.random((n, 3)) - 0.5, np.zeros((n, 3)), eps)


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
    random = random_of(n, seed)
    counts = collision_counts(n)
    disks: list[Arrays] = []
    bulges: list[Arrays] = []
    galaxies = zip(GALAXIES, counts[:2], counts[2:], *_parabolic_orbit(), strict=True)
    for galaxy, disk_count, bulge_count, offset, approach in galaxies:
        if disk_count == 0:
            continue
        disk_mass = galaxy.disk_mass if bulge_count else galaxy.mass
        mass = np.repeat([disk_mass / disk_count, galaxy.bulge_mass / max(1, bulge_count)], [disk_count, bulge_count])
        disk_position, disk_velocity = _disk(random, galaxy, disk_count)
        bulge_position, bulge_velocity = _bulge(random, galaxy, bulge_count)
        position = centred(mass, np.concatenate([disk_position, bulge_position])) + offset
        velocity = centred(mass, np.concatenate([disk_velocity, bulge_velocity])) + approach
        disks.append((mass[:disk_count], position[:disk_count], velocity[:disk_count]))
        bulges.append((mass[disk_count:], position[disk_count:], velocity[disk_count:]))
    mass, position, velocity = (np.concatenate(parts) for parts in zip(*disks, *bulges, strict=True))
    return Bodies(mass, centred(mass, position), centred(mass, velocity), eps)


def plummer_radii(random: np.random.Generator, n: int, scale: float) -> Floats:
    """Draw n distances from the centre of a Plummer sphere, shape (n,), by its scale length; they stop as above."""
    enclosed = PLUMMER_MASS_FRACTION * (1.0 - random.random(n))  # never 0, whose power below is infinite
    return np.asarray(scale / np.sqrt(enclosed ** (-2.0 / 3.0) - 1.0))


def random_of(n: int, seed: int) -> np.random.Generator:
    """Return what a generator draws n bodies from.

    Raises:
        InputError: n is less than 1, or seed negative.
    """
    if n < 1:
        raise InputError(f"{n} bodies asked for; accepted: 1 or more")
    if seed < 0:
        raise InputError(f"seed is {seed}; accepted: zero or more")
    return np.random.default_rng(seed)


def directions(random: np.random.Generator, n: int) -> Floats:
    """Draw n unit vectors, evenly over the sphere (Aarseth, Henon & Wielen 1974, the same appendix)."""
    height = 2.0 * random.random(n) - 1.0
    angle = 2.0 * math.pi * random.random(n)
    across = np.sqrt(1.0 - np.square(height))
    return np.column_stack([across * np.cos(angle), across * np.sin(angle), height])


def centred(mass: Floats, vectors: Floats) -> Floats:
    """Shift vectors, shape (n, 3), so that their mean by mass is zero."""
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
    return radius[:, None] * directions(random, count), dispersion[:, None] * random.standard_normal((count, 3))


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
