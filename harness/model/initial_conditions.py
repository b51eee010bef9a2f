"""Initial conditions: N masses, positions and velocities, made from a seed or read from a file. G = 1."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError, nearest, shortened
from gravbench.model import files
from gravbench.model.bodies import Arrays, Bodies, flattened
from gravbench.model.bodies_readers import read
from gravbench.model.case import Case
from gravbench.model.generated_bodies import GENERATORS, generate, is_generated
from gravbench.model.generators import collision, collision_counts

SETS_AT_ONCE = 12
"""Sets of bodies that a process keeps: a sweep goes through its sizes in random order."""
SUBSETS = ("even", "lee", "lee_last")
DUBINSKI_PARTS = (16_384, 16_384, 8_192, 8_192, 16_384, 16_384)
"""Bodies of the disks, of the bulges and of the halos, in each case of the Milky Way and of Andromeda."""
DUBINSKI_BODIES = sum(DUBINSKI_PARTS)
DUBINSKI_DISKS_AND_BULGES = sum(DUBINSKI_PARTS[:4])


def load(spec: str, n: int, seed: int, eps: float, subset: str = "even") -> Bodies:
    """Make or read the bodies that ``spec`` names.

    Args:
        spec: a generator with its parameters, as ``generated_bodies`` reads them, or the path of a file that
            ``bodies_readers.read`` reads.
        n: how many bodies.
        seed: of a generator; a file does not use it.
        eps: softening length.
        subset: which n bodies of a file. "even" spreads them over the whole file. "lee" is the rule of Lee 2008
            for the table of Dubinski: disks and bulges alone, its first 49,152 of 81,920 lines, and of these
            every (49152/n)-th, the first of each group of 49152/n. "lee_last" takes the last of each, as his program
            does, which reads a group and keeps its last line. A generator does not use it.

    Raises:
        InputError: one sentence that names what is not accepted and what would be.
    """
    if n < 1:
        raise InputError(f"{spec}: {n} bodies asked for; accepted: 1 or more")
    offered = available(spec, subset)
    if offered is None:
        return generate(spec, n, seed, eps)
    if n > offered:
        raise InputError(f"{spec}: {n} bodies asked for, but subset {subset} has {offered}; accepted: 1 to {offered}")
    chosen = _chosen(n, offered, subset)
    mass, position, velocity = (array[chosen] for array in _read_once(*_stamped(spec)))
    return Bodies(mass, position, velocity, eps)


def _chosen(n: int, offered: int, subset: str) -> NDArray[np.int64]:
    """Return the lines of a file that n bodies are taken from, counted from 0."""
    if subset == "lee_last":
        return np.arange(1, n + 1, dtype=np.int64) * offered // n - 1
    return np.arange(n, dtype=np.int64) * offered // n


def origins(spec: str, n: int, subset: str = "even") -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Tell which group each body of ``load`` comes from.

    These are the two galaxies of ``collision``; the Milky Way and Andromeda in the table of Dubinski, a file of its
    81,920 bodies; and in any other file the first and the second half of it. The bodies of other generators are of
    one group.

    Returns:
        The names of the groups, and the place of each body's group among them, shape (n,).

    Raises:
        InputError: as ``load``.
    """
    offered = available(spec, subset)
    if offered is None:
        if spec != collision.__name__:
            return (spec,), np.zeros(n, np.int64)
        return ("galaxy 1", "galaxy 2"), np.repeat([0, 1, 0, 1], collision_counts(n))
    total = _count(*_stamped(spec))
    chosen = _chosen(n, offered, subset)
    if total == DUBINSKI_BODIES:
        return ("Milky Way", "Andromeda"), np.repeat([0, 1, 0, 1, 0, 1], DUBINSKI_PARTS)[chosen]
    return ("first half of the file", "second half"), np.asarray(chosen >= total - total // 2, np.int64)


def of_case(case: Case) -> Bodies:
    """Load the bodies of a case, those of a planar one in the plane; mistakes are those of ``load``.

    Several cases in a row share them: their arrays are closed to writing.
    """
    stamp = () if is_generated(case.bodies) else _stamped(case.bodies)
    return _of_case(stamp, case.bodies, case.n, case.seed, case.eps, case.subset, case.planar)


@lru_cache(maxsize=SETS_AT_ONCE)
def _of_case(
    stamp: tuple[object, ...],  # noqa: ARG001 - of the file, which may change
    spec: str,
    n: int,
    seed: int,
    eps: float,
    subset: str,
    planar: bool,
) -> Bodies:
    bodies = load(spec, n, seed, eps, subset)
    return (flattened(bodies) if planar else bodies).frozen()


def available(spec: str, subset: str = "even") -> int | None:
    """Say how many bodies a file offers in a subset, or None for a generator, which makes any number.

    Raises:
        InputError: as ``load``.
    """
    if subset not in SUBSETS:
        raise InputError(f"no subset {subset!r}: {nearest(subset, list(SUBSETS))}")
    if is_generated(spec):
        return None
    total = _count(*_stamped(spec))
    if subset == "even":
        return total
    if total != DUBINSKI_BODIES:
        raise InputError(
            f"{spec}: has {total} bodies, but subset {subset} is for the table of Dubinski with {DUBINSKI_BODIES}; "
            f"accepted: subset even"
        )
    return DUBINSKI_DISKS_AND_BULGES


def file_sha256(spec: str) -> str | None:
    """Hash the bytes of a file of bodies; None for a generator, which its name stands for.

    Raises:
        InputError: there is no such file.
    """
    if is_generated(spec):
        return None
    try:
        return files.content_sha256(Path(spec))
    except (OSError, ValueError) as error:
        raise InputError(f"{spec}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _stamped(spec: str) -> tuple[str, Path, int, int]:
    """Return a file of bodies, and what changes when it is edited or replaced."""
    try:
        status = Path(spec or "\0").stat()  # Path("") would be the working directory
    except PermissionError as error:
        raise InputError(f"{spec}: cannot be read: {error.strerror}") from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"{shortened(repr(spec))} is neither an existing file nor a generator: "
            f"{nearest(spec.partition(' ')[0], list(GENERATORS))}"
        ) from error
    return spec, Path(spec).resolve(), status.st_mtime_ns, status.st_size


@cache
def _count(spec: str, resolved: Path, mtime_ns: int, size: int) -> int:
    """Count the bodies of a file, once for all the variants of a sweep of several files."""
    return int(_read_once(spec, resolved, mtime_ns, size)[0].size)


@lru_cache(maxsize=1)
def _read_once(spec: str, resolved: Path, mtime_ns: int, size: int) -> Arrays:  # noqa: ARG001 - they are the key
    arrays = read(Path(spec))
    for array in arrays:
        array.flags.writeable = False  # shared by every later call
    return arrays
