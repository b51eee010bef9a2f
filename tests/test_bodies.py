"""Initial conditions have the physics they claim; readers return what is in a file or say where it is wrong."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from conftest import save
from gravbench.config.load import load as load_sweep
from gravbench.errors import InputError
from gravbench.model import bodies, bodies_readers, generators, initial_conditions
from gravbench.model.bodies import Bodies
from gravbench.model.bodies_readers import read
from gravbench.model.generated_bodies import GENERATORS
from gravbench.model.generators import (
    DISK_EDGE,
    GALAXIES,
    PERICENTRE,
    SEPARATION,
    collision,
    collision_counts,
    cube,
    plummer,
    uniform,
)
from gravbench.model.initial_conditions import available, file_sha256, load

SMALL_COUNTS = (1, 2, 3, 4, 5, 31, 1000)


def kinetic(bodies: Bodies) -> float:
    return float(0.5 * np.sum(bodies.mass * np.sum(bodies.velocity**2, axis=1)))


def galaxy(bodies: Bodies, index: int) -> Bodies:
    """One galaxy of a collision, still where it is: its disk, then its bulge."""
    disk_1, disk_2, bulge_1, _ = collision_counts(bodies.n)
    ranges = {
        0: np.r_[0:disk_1, disk_1 + disk_2 : disk_1 + disk_2 + bulge_1],
        1: np.r_[disk_1 : disk_1 + disk_2, disk_1 + disk_2 + bulge_1 : bodies.n],
    }
    chosen = ranges[index]
    return Bodies(bodies.mass[chosen], bodies.position[chosen], bodies.velocity[chosen], bodies.eps)


def centre(bodies: Bodies) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total = bodies.mass.sum()
    return bodies.mass @ bodies.position / total, bodies.mass @ bodies.velocity / total


def about_its_centre(bodies: Bodies) -> Bodies:
    position, velocity = centre(bodies)
    return Bodies(bodies.mass, bodies.position - position, bodies.velocity - velocity, bodies.eps)


# Bodies


def test_energy_of_two_bodies_is_the_formula() -> None:
    two = Bodies(np.array([2.0, 3.0]), np.array([[0.0, 0, 0], [3.0, 0, 4]]), np.array([[1.0, 0, 0], [0, 2, 0]]), 12.0)
    assert two.energy() == pytest.approx(0.5 * 2 * 1 + 0.5 * 3 * 4 - 2 * 3 / 13, rel=1e-15)


@pytest.mark.parametrize("pairs", [1, 7, 100, 1 << 20])
def test_energy_does_not_depend_on_the_size_of_a_block(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    some = plummer(53, 4, 0.01)
    distance = np.linalg.norm(some.position[:, None] - some.position[None], axis=2)
    apart = ~np.eye(53, dtype=bool)
    potential = -0.5 * np.sum(np.outer(some.mass, some.mass)[apart] / np.sqrt(distance[apart] ** 2 + 0.01**2))
    monkeypatch.setattr(bodies, "_PAIRS_A_BLOCK", pairs)
    assert some.energy() == pytest.approx(kinetic(some) + potential, rel=1e-12)


def test_arrays_become_contiguous_float64() -> None:
    wide = np.ones((3, 6), dtype=np.float32)
    some = Bodies(np.ones(3, dtype=np.int64), wide[:, ::2], wide[:, 1::2], 0.1)  # type: ignore[arg-type]
    for array in (some.mass, some.position, some.velocity):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous


@pytest.mark.parametrize("part", ["mass", "position", "velocity", "eps"])
def test_hash_sees_every_part(part: str) -> None:
    parts = {"mass": np.ones(2), "position": np.zeros((2, 3)), "velocity": np.zeros((2, 3)), "eps": 0.1}
    before = Bodies(**parts).sha256  # type: ignore[arg-type]
    assert Bodies(**parts).sha256 == before  # type: ignore[arg-type]
    parts[part] = parts[part] * 0.5 + 0.25  # type: ignore[operator]
    assert Bodies(**parts).sha256 != before  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("mass", np.ones(0), "mass has 0 elements"),
        ("mass", np.ones((2, 1)), r"mass has shape \(2, 1\)"),
        ("position", np.ones((3, 3)), r"position has shape \(3, 3\); accepted: \(2, 3\)"),
        ("velocity", np.ones((2, 2)), r"velocity has shape \(2, 2\)"),
        ("mass", np.array([1.0, np.nan]), "mass of body 1 is nan"),
        ("position", np.array([[0, 0, 0], [0, -np.inf, 0]]), "position of body 1 is"),
        ("mass", np.array([1.0, -2.0]), "mass of body 1 is -2.0; accepted: zero or more"),
        ("eps", 0.0, "eps is 0.0"),
        ("eps", 9.9e-10, "eps is 9.9e-10"),
        ("eps", -0.1, "eps is -0.1"),
        ("eps", float("nan"), "eps is nan"),
        ("eps", float("inf"), "eps is inf"),
    ],
)
def test_impossible_bodies_are_refused(part: str, value: object, sentence: str) -> None:
    parts: dict[str, object] = {"mass": np.ones(2), "position": np.zeros((2, 3)), "velocity": np.zeros((2, 3))}
    with pytest.raises(InputError, match=sentence):
        Bodies(**({"eps": 0.1, **parts} | {part: value}))  # type: ignore[arg-type]


def test_smallest_softening_and_zero_mass_are_accepted() -> None:
    some = Bodies(np.array([0.0, 1.0]), np.zeros((2, 3)), np.zeros((2, 3)), 1e-9)
    assert np.isfinite(np.float32(some.eps) ** np.float32(-3))


# Generators


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("n", SMALL_COUNTS)
def test_any_number_of_bodies(name: str, n: int) -> None:
    some = GENERATORS[name](n, 7, 0.05)
    assert some.n == n
    assert some.eps == 0.05
    assert (some.mass > 0).all()


@pytest.mark.parametrize("name", GENERATORS)
def test_seed_decides_everything(name: str) -> None:
    first, again, other = (GENERATORS[name](100, seed, 0.05) for seed in (1, 1, 2))
    assert first.sha256 == again.sha256
    assert not (first.position == other.position).any()


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize(("n", "seed"), [(0, 1), (-5, 1), (10, -1)])
def test_generators_refuse_no_bodies_and_negative_seeds(name: str, n: int, seed: int) -> None:
    with pytest.raises(InputError, match=r"0 bodies|-5 bodies|seed is -1"):
        GENERATORS[name](n, seed, 0.05)


@pytest.mark.parametrize("make", [plummer, collision])
@pytest.mark.parametrize("n", SMALL_COUNTS)
def test_centre_of_mass_is_at_rest_at_the_origin(make: Callable[[int, int, float], Bodies], n: int) -> None:
    position, velocity = centre(make(n, 3, 0.05))
    # Rounding of coordinates of some ten units.
    assert np.abs(position).max() < 1e-13
    assert np.abs(velocity).max() < 1e-13


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plummer_is_in_virial_equilibrium_in_standard_units(seed: int) -> None:
    sphere = plummer(4096, seed, 1e-4)
    assert sphere.mass.sum() == pytest.approx(1, rel=1e-12)
    # A body's kinetic energy scatters by 0.8 of its mean: 1.3 % over 4096 of them. Four times that.
    assert kinetic(sphere) == pytest.approx(0.25, rel=0.05)
    assert sphere.energy() - kinetic(sphere) == pytest.approx(-0.5, rel=0.04)
    assert sphere.energy() == pytest.approx(-0.25, rel=0.06)


def test_plummer_profile() -> None:
    sphere = plummer(200_000, 5, 1e-4)
    radius = np.linalg.norm(sphere.position, axis=1)
    scale = 3 * np.pi / 16
    assert np.median(radius) == pytest.approx(0.769, abs=0.008)
    for at in (0.2, 0.5, 1.0, 3.0):
        model = at**3 / (at**2 + scale**2) ** 1.5 / generators.PLUMMER_MASS_FRACTION
        assert np.mean(radius < at) == pytest.approx(model, abs=0.005)
    assert 10 < radius.max() < 22.9
    assert kinetic(sphere) == pytest.approx(0.25, rel=0.008)


def test_plummer_velocities_are_isotropic_and_bound() -> None:
    sphere = plummer(200_000, 6, 1e-4)
    assert np.mean(sphere.velocity**2, axis=0) == pytest.approx(np.full(3, 1 / 6), rel=0.015)
    radius = np.linalg.norm(sphere.position, axis=1)
    radial = np.sum(sphere.velocity * sphere.position, axis=1) / radius
    assert np.mean(radial**2) == pytest.approx(1 / 6, rel=0.015)
    escape = np.sqrt(2 / np.sqrt(radius**2 + (3 * np.pi / 16) ** 2))
    # Shifting the centre of mass to rest moves a speed by about 1 / sqrt(n).
    assert (np.linalg.norm(sphere.velocity, axis=1) < escape + 0.01).all()


def test_a_cube_is_even_and_cold_and_has_leaves_of_as_many_bodies() -> None:
    """Section 31.6 of GPU Gems 3: 2^18 bodies in 512 leaves of a tree."""
    whole = cube(2**18, 1, 0.05)
    assert np.abs(whole.position).max() <= 0.5
    assert not whole.velocity.any()
    assert whole.mass.sum() == pytest.approx(1, rel=1e-12)
    cells = np.floor((whole.position + 0.5) * 8).astype(int) @ [64, 8, 1]
    counts = np.bincount(cells, minlength=512)
    assert counts.size == 512
    assert counts.mean() == 512
    assert np.abs(counts - 512).max() < 6 * np.sqrt(512)
    assert counts.max() <= 640


def test_uniform_sphere_is_even_and_cold() -> None:
    sphere = uniform(50_000, 1, 0.05)
    radius = np.linalg.norm(sphere.position, axis=1)
    assert radius.max() <= 1 + 1e-12
    # Kolmogorov-Smirnov: the largest gap between r^3 sorted and an even ladder, 1.95 / sqrt(n) once in a thousand.
    gap = np.abs(np.sort(radius**3) - (np.arange(50_000) + 0.5) / 50_000).max()
    assert gap < 1.95 / np.sqrt(50_000)
    assert np.abs((sphere.position / radius[:, None]).mean(axis=0)).max() < 0.012
    assert np.mean(sphere.position**2, axis=0) == pytest.approx(np.full(3, 0.2), rel=0.03)
    assert not sphere.velocity.any()
    assert sphere.mass.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 31, 1000])
def test_galaxies_meet_on_a_parabola(n: int) -> None:
    both = collision(n, 2, 0.05)
    (first, first_velocity), (second, second_velocity) = (centre(galaxy(both, index)) for index in (0, 1))
    apart, closing = second - first, second_velocity - first_velocity
    distance = np.linalg.norm(apart)
    mass = both.mass.sum()
    assert mass == pytest.approx(0.82 + 0.43 + 1.71 + 0.90, rel=1e-12)
    assert distance == pytest.approx(SEPARATION, rel=1e-12)
    assert 0.5 * closing @ closing == pytest.approx(mass / distance, rel=1e-12)  # no orbital energy
    assert apart @ closing < 0  # approaching
    angular = np.cross(apart, closing)
    assert angular @ angular / (2 * mass) == pytest.approx(PERICENTRE, rel=1e-12)
    assert angular[2] > 0


@pytest.mark.parametrize("n", SMALL_COUNTS)
def test_parts_of_a_collision_add_up(n: int) -> None:
    counts = collision_counts(n)
    assert sum(counts) == n
    assert min(counts) >= 0
    disk_1, disk_2, bulge_1, bulge_2 = counts
    assert 0 <= disk_1 - disk_2 <= 1
    assert 0 <= bulge_1 + disk_1 - bulge_2 - disk_2 <= 1
    assert abs(disk_1 - 2 * bulge_1) <= 1


def test_parts_of_a_collision_come_in_the_order_of_dubinski() -> None:
    both = collision(6000, 2, 0.05)
    masses = [part.sum() for part in np.split(both.mass, np.cumsum(collision_counts(6000))[:-1])]
    assert masses == pytest.approx([0.82, 1.71, 0.43, 0.90], rel=1e-12)
    spread = [np.ptp(part, axis=0).max() for part in np.split(both.position, np.cumsum(collision_counts(6000))[:-1])]
    assert spread[0] > 2 * spread[2]
    assert spread[1] > 2 * spread[3]


@pytest.mark.parametrize("index", [0, 1])
def test_disk_turns_at_circular_speed_about_its_tilted_axis(index: int) -> None:
    model = GALAXIES[index]
    one = about_its_centre(galaxy(collision(60_000, 2, 0.01), index))
    count = collision_counts(60_000)[index]
    position, velocity = one.position[:count], one.velocity[:count]
    spin = np.cross(position, velocity).sum(axis=0)
    axis = spin / np.linalg.norm(spin)
    assert np.degrees(np.arccos(axis[2])) == pytest.approx(model.inclination, abs=1)
    node = np.radians(model.node)
    assert axis @ np.array([np.cos(node), np.sin(node), 0]) == pytest.approx(0, abs=0.02)
    height = position @ axis
    assert np.abs(height).mean() < 0.1 * model.disk_length  # sech^2 of scale 0.1: the mean is 0.07
    in_plane = position - height[:, None] * axis
    radius = np.linalg.norm(in_plane, axis=1)
    along = np.sum(np.cross(axis, in_plane) * velocity, axis=1) / radius
    every_radius = np.linalg.norm(one.position, axis=1)
    for lengths in (0.5, 1.0, 2.0, 4.0):
        at = lengths * model.disk_length
        ring = np.abs(radius / at - 1) < 0.03
        enclosed = one.mass[every_radius < at].sum()
        assert along[ring].mean() == pytest.approx(np.sqrt(enclosed / at), rel=0.02)
        assert 0.08 < along[ring].std() / along[ring].mean() < 0.13
    assert radius.max() < (DISK_EDGE + 0.1) * model.disk_length
    # Half of an exponential disk that ends at 5 scale lengths lies within 1.61 of them.
    assert np.median(radius) / model.disk_length == pytest.approx(1.61, abs=0.03)


@pytest.mark.parametrize("index", [0, 1])
def test_each_galaxy_is_near_virial_equilibrium(index: int) -> None:
    one = about_its_centre(galaxy(collision(6000, 2, 1e-3), index))
    moving = kinetic(one)
    assert 2 * moving / (moving - one.energy()) == pytest.approx(1, abs=0.06)


def test_bulge_does_not_turn() -> None:
    model = GALAXIES[0]
    one = about_its_centre(galaxy(collision(60_000, 2, 1e-3), 0))
    count = collision_counts(60_000)[0]
    position, velocity = one.position[count:], one.velocity[count:]
    each = np.cross(position, velocity)
    assert np.linalg.norm(each.sum(axis=0)) < 0.05 * np.linalg.norm(each, axis=1).sum()
    # Hernquist 1990: sqrt(enclosed mass) = r / (r + a), of which the edge at 10 a leaves 10 / 11.
    half = np.sqrt(0.5) * 10 / 11
    assert np.median(np.linalg.norm(position, axis=1)) == pytest.approx(
        model.bulge_length * half / (1 - half), rel=0.05
    )


# Files


def table_text(bodies: Bodies) -> str:
    rows = np.column_stack([bodies.mass, bodies.position, bodies.velocity])
    return "".join(" ".join(repr(float(value)) for value in row) + "\n" for row in rows)


def tipsy_bytes(order: str, gas: int, dark: int, star: int, columns: NDArray[np.float64]) -> bytes:
    content = struct.pack(f"{order}d6i", 0.5, gas + dark + star, 3, gas, dark, star, 0)
    first = 0
    for count, words in ((gas, 12), (dark, 9), (star, 11)):
        part = np.full((count, words), 1e30, dtype=f"{order}f4")
        part[:, :7] = columns[first : first + count]
        content += part.tobytes()
        first += count
    return content


def columns_of(n: int) -> NDArray[np.float64]:
    """Numbers that float32 holds exactly, no two alike."""
    return np.arange(1, 7 * n + 1, dtype=np.float64).reshape(n, 7) / 8


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.lower().endswith(".gz") else raw)
    return path


def same(path: Path, columns: NDArray[np.float64]) -> bool:
    mass, position, velocity = read(path)
    return all(array.flags.c_contiguous and array.dtype == np.float64 for array in (mass, position, velocity)) and bool(
        np.array_equal(np.column_stack([mass, position, velocity]), columns)
    )


@pytest.mark.parametrize("name", ["a.tab", "a.txt", "a.dat", "a.tab.gz", "a.txt.gz", "a.dat.gz", "A.TAB", "A.TAB.GZ"])
def test_table_round_trip(name: str, tmp_path: Path) -> None:
    some = plummer(17, 1, 0.1)
    path = written(tmp_path, name, table_text(some))
    assert load(str(path), available(str(path)), 0, 0.1).sha256 == some.sha256


@pytest.mark.parametrize(
    "text",
    [
        "# Hénon\n\n  # more\n{}\n\n   \n{}\n",
        "{}\r\n{}\r\n",
        "{}\r{}\r",
        "\n{}  # said beside it\n\t{}",
        "\ufeff{}\n{}",
    ],
)
def test_table_allows_comments_blank_lines_and_every_end_of_line(text: str, tmp_path: Path) -> None:
    lines = ("1 2 3 4 5 6 7", "  8\t9e0 -10 +11. .12 1.3E+1 14  ")
    expected = np.array([[1, 2, 3, 4, 5, 6, 7], [8, 9, -10, 11, 0.12, 13, 14]])
    assert same(written(tmp_path, "a.tab", text.format(*lines)), expected)


def test_good_table_never_takes_the_slow_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_readers, "_read_line_by_line", None)
    assert same(written(tmp_path, "a.tab", "# x\n1 2 3 4 5 6 7\n"), np.arange(1.0, 8.0)[None])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("suffix", [".bin", ".tipsy", ".std"])
@pytest.mark.parametrize(("gas", "dark", "star"), [(2, 3, 4), (0, 0, 1), (0, 5, 0), (1, 0, 0)])
def test_tipsy_round_trip_in_both_byte_orders(
    order: str, suffix: str, gas: int, dark: int, star: int, tmp_path: Path
) -> None:
    columns = columns_of(gas + dark + star)
    assert same(written(tmp_path, f"a{suffix}", tipsy_bytes(order, gas, dark, star, columns)), columns)


def test_an_archive_of_bodies_loads_bit_for_bit(tmp_path: Path) -> None:
    some = collision(50, 1, 0.1)
    save(some, tmp_path / "a.npz")
    assert load(str(tmp_path / "a.npz"), 50, 0, 0.1).sha256 == some.sha256


GOOD = "1 2 3 4 5 6 7\n"


@pytest.mark.parametrize("name", ["a.tab", "a.tab.gz"])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# nothing\n\n", "holds no bodies; accepted: lines of mass x y z vx vy vz"),
        (GOOD + "\n1 2 3 4 5 6\n" + GOOD, "line 3 has 6 words; accepted: the 7 numbers mass x y"),
        ("1 2 3 4 5 6\n" * 3, "line 1 has 6 words"),
        (GOOD + "# x\n1 2 3 4 5 6 7 8\n", "line 3 has 8 words"),
        ("1,2,3,4,5,6,7\n", "line 1 has 1 word; accepted: .* separated by blanks"),
        (GOOD + "1 2 3 4 5 6 seven\n", "line 2: vz is 'seven' where a number is accepted"),
        (GOOD + "1 2 3 1_0 5 6 7\n", "line 2: z is '1_0' where a number is accepted"),
        (GOOD + "1 2 3 \u0664 5 6 7\n", "line 2: z is '\u0664' where a number is accepted"),
        ("\n" + GOOD + "1 nan 3 4 5 6 7\n", "line 3: x is 'nan' where a finite number is accepted"),
        ("1 2 3 4 5 -inf 7\n", "line 1: vy is '-inf' where a finite number"),
        ("1 2 3 4 1e999 6 7\n", "line 1: vx is '1e999' where a finite number"),
        (GOOD + "0 2 3 4 5 6 7\n", "line 2: mass is '0' where a number greater than zero is accepted"),
        (GOOD + "-1e-3 2 3 4 5 6 7\n", "line 2: mass is '-1e-3' where"),
        (GOOD + "1 2 " + "9x" * 500 + " 4 5 6 7\n", f"line 2: y is '{'9x' * 20}' where"),
    ],
)
def test_table_names_the_line_that_is_wrong(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(InputError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("row", "column", "value", "sentence"),
    [
        (0, 0, 0.0, "byte 32: mass is 0.0 where a number greater than zero is accepted"),
        (1, 0, -2.0, "byte 80: mass is -2.0 where"),
        (2, 3, np.nan, "byte 140: z is nan where a finite number is accepted"),
        (5, 6, np.inf, "byte 260: vz is inf where"),
    ],
)
def test_tipsy_names_the_byte_that_is_wrong(
    order: str, row: int, column: int, value: float, sentence: str, tmp_path: Path
) -> None:
    columns = columns_of(6)
    columns[row, column] = value
    path = written(tmp_path, "a.bin", tipsy_bytes(order, 2, 3, 1, columns))
    with pytest.raises(InputError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_tipsy_tells_a_signalling_nan(tmp_path: Path) -> None:
    content = bytearray(tipsy_bytes("<", 0, 1, 0, columns_of(1)))
    content[36:40] = struct.pack("<I", 0x7FA00000)
    with pytest.raises(InputError, match="byte 36: x is nan"):
        read(written(tmp_path, "a.bin", bytes(content)))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ((2, 2, 0, 2, 0), "byte 12: the number of dimensions is .*; accepted: 3"),
        ((3, 3, 0, 2, 0), "byte 8: 3 bodies, but byte 16: 0 gas, 2 dark and 0 star"),
        ((2, 3, -1, 2, 1), "byte 16: -1 gas"),
        ((0, 3, 0, 0, 0), "byte 8: 0 bodies; accepted: at least one"),
        ((3, 3, 0, 3, 0), "ends at byte 104; accepted: 140 bytes for the 0 gas, 3 dark and 0 star"),
        ((1, 3, 0, 1, 0), "ends at byte 104; accepted: 68 bytes"),
    ],
)
def test_tipsy_header_has_to_fit(order: str, header: tuple[int, ...], sentence: str, tmp_path: Path) -> None:
    content = tipsy_bytes(order, 0, 2, 0, columns_of(2))
    path = written(tmp_path, "a.bin", struct.pack(f"{order}d6i", 0.0, *header, 0) + content[32:])
    with pytest.raises(InputError, match=sentence):
        read(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mass": np.ones(0), "position": np.ones((0, 3)), "velocity": np.ones((0, 3))}, "holds no bodies"),
        ({"mass": np.array([1.0, 0.0])}, r"mass\[1\] is 0.0 where a number greater than zero"),
        ({"position": np.array([[0, 0, 0], [0, 0, np.nan]])}, r"position\[1, 2\] is nan where a finite"),
        ({"velocity": np.array([[0, np.inf, 0], [0, 0, 0]])}, r"velocity\[0, 1\] is inf where"),
        ({"velocity": np.ones((3, 2))}, r"velocity has shape \(3, 2\) .*; accepted: shape \(2, 3\)"),
        ({"mass": np.array(["a", "b"])}, "mass has shape .* and type <U1; accepted: .* real numbers"),
        ({"mass": np.array([1j, 2])}, "type complex128"),
        ({"mass": np.array([None, 1])}, "truncated, damaged"),
        ({"position": None}, "has no array 'position'; accepted: a NumPy archive of mass, position, velocity"),
    ],
)
def test_npz_names_the_element_that_is_wrong(
    change: dict[str, NDArray[np.generic] | None], sentence: str, tmp_path: Path
) -> None:
    arrays = {"mass": np.ones(2), "position": np.ones((2, 3)), "velocity": np.ones((2, 3))} | change
    np.savez(tmp_path / "a.npz", **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=sentence) as caught:
        read(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


def test_one_array_is_no_archive(tmp_path: Path) -> None:
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match="a single array; accepted: a NumPy archive"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", bodies_readers.SUFFIXES)
def test_empty_file_and_directory_are_named(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"empty{suffix}").touch()
    with pytest.raises(InputError, match=rf"empty{suffix}: empty \(0 bytes\); accepted"):
        read(tmp_path / f"empty{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(InputError, match=rf"folder{suffix}: a directory; accepted: a file"):
        load(str(tmp_path / f"folder{suffix}"), 1, 0, 0.1)
    with pytest.raises(InputError, match=rf"missing{suffix}: cannot be read: No such file"):
        read(tmp_path / f"missing{suffix}")


def test_text_under_a_gzip_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tab.gz").write_text(GOOD)
    with pytest.raises(InputError, match="damaged, or not gzip data"):
        read(tmp_path / "a.tab.gz")


@pytest.mark.parametrize("name", ["a.csv", "a", "a.gz", "a.bin.gz"])
def test_unknown_suffix_names_the_accepted_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown suffix .*; accepted: .tab, .txt, .dat, .*.npz"):
        load(str(written(tmp_path, name, GOOD)), 1, 0, 0.1)


def test_the_size_of_a_packed_file_is_that_of_its_unpacked_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies_readers, "MOST_BODIES", 1000)
    assert read(written(tmp_path, "a.tab.gz", GOOD * 1000))[0].size == 1000
    with pytest.raises(InputError, match=r"a\.tab\.gz: 1001 bodies; accepted: up to 1000"):
        read(written(tmp_path, "a.tab.gz", GOOD * 1001))
    many = {"2000 lines": GOOD * 20_000, "192000 bytes, unpacked": (" " * 5000 + "\n") * 100}
    for what, text in many.items():
        with pytest.raises(InputError, match=f"more than {what}; accepted: up to 1000 lines of mass x y z"):
            read(written(tmp_path, "a.tab.gz", text))
    with pytest.raises(InputError, match="no line ends between bytes 0 and 65536; accepted: up to 1000 lines"):
        read(written(tmp_path, "a.tab.gz", "1 " * 10**6))
    with pytest.raises(InputError, match="byte 8: 1001 bodies; accepted: up to 1000"):
        read(written(tmp_path, "a.bin", tipsy_bytes("<", 0, 1001, 0, columns_of(1001))))


def test_an_archive_is_refused_by_the_unpacked_size_of_its_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies_readers, "_MOST_IN_MEMBER", 2**16)
    arrays = {"mass": np.zeros(2**13), "position": np.ones((2, 3)), "velocity": np.ones((2, 3))}
    np.savez_compressed(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"mass\.npy has 65664 bytes unpacked; accepted: up to 65536, of 4194304"):
        read(tmp_path / "a.npz")


def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tab")
    for ask in (read, lambda path: file_sha256(str(path)), lambda path: load(str(path), 1, 0, 0.1)):
        with pytest.raises(InputError, match=r"a\.tab: cannot be read: not a regular file"):
            ask(tmp_path / "a.tab")


def test_a_sweep_of_several_files_reads_each_once_to_count_its_bodies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(initial_conditions, "read", lambda path: asked.append(path) or read(path))
    paths = [str(written(tmp_path, f"{number}.tab", GOOD * 3)) for number in range(3)]
    for _ in range(4):
        assert [available(path) for path in paths] == [3, 3, 3]
    assert len(asked) == 3


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    some = plummer(6, 1, 0.1)
    save(some, folder / "a.npz")
    columns = np.column_stack([some.mass, some.position, some.velocity])
    text = "# six\n" + table_text(some)
    return {
        "a.tab": text.encode(),
        "a.tab.gz": gzip.compress(text.encode()),
        "little.bin": tipsy_bytes("<", 1, 2, 3, columns),
        "big.bin": tipsy_bytes(">", 1, 2, 3, columns),
        "a.npz": (folder / "a.npz").read_bytes(),
    }


@pytest.mark.parametrize("name", ["a.tab.gz", "little.bin", "big.bin", "a.npz"])
@settings(deadline=None, max_examples=60)
@given(part=st.floats(0, 1, exclude_max=True))
def test_truncated_file_is_never_read(
    name: str, part: float, whole_files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = whole_files[name]
    path = tmp_path_factory.getbasetemp() / f"cut-{name}"
    path.write_bytes(content)
    read(path)
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InputError, match=r"empty|ends at byte|truncated|damaged") as caught:
        read(path)
    assert "\n" not in str(caught.value)


@settings(deadline=None, max_examples=100)
@given(part=st.floats(0, 1, exclude_max=True))
def test_truncated_text_gives_its_whole_lines_or_an_error(
    part: float, whole_files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A text cut between lines, or within its last number, still is a table: nothing in it says otherwise."""
    content = whole_files["a.tab"]
    kept = content[: int(part * len(content))]
    path = tmp_path_factory.getbasetemp() / "cut.tab"
    path.write_bytes(kept)
    lines = kept.decode().splitlines()[1:]
    if lines and len(lines[-1].split()) == 7 and not lines[-1].endswith(("e", "-", "+")):
        mass, _, velocity = read(path)
        assert mass.size == len(lines)
        assert velocity[-1, 2] == float(lines[-1].split()[-1])
    else:
        with pytest.raises(InputError):
            read(path)


@pytest.mark.parametrize("name", ["a.tab", "a.tab.gz", "little.bin", "big.bin", "a.npz"])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_damaged_file_gives_bodies_or_an_input_error(
    name: str, data: st.DataObject, whole_files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(whole_files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / f"damaged-{name}"
    path.write_bytes(content)
    try:
        mass, position, velocity = read(path)
    except InputError:
        return
    Bodies(mass, position, velocity, 0.1)
    assert (mass > 0).all()


# load and available


@pytest.mark.parametrize("name", GENERATORS)
def test_load_calls_the_generator(name: str) -> None:
    assert load(name, 40, 3, 0.1).sha256 == GENERATORS[name](40, 3, 0.1).sha256
    assert available(name) is None


@pytest.mark.parametrize("n", [0, -1])
@pytest.mark.parametrize("spec", ["plummer", "some.tab"])
def test_load_refuses_no_bodies(spec: str, n: int) -> None:
    with pytest.raises(InputError, match=f"{spec}: {n} bodies asked for; accepted: 1 or more"):
        load(spec, n, 0, 0.1)


@pytest.mark.parametrize("spec", ["plumer", "missing.tab", "", "no/such/folder/a.bin", "nul\0", "x" * 5000])
def test_neither_generator_nor_file_names_what_there_is(spec: str) -> None:
    guess = "did you mean plummer. " if spec == "plumer" else ""
    with pytest.raises(InputError, match=f"neither .*: {guess}accepted: plummer, uniform, collision"):
        load(spec, 10, 0, 0.1)
    with pytest.raises(InputError, match="neither"):
        available(spec)


def test_unknown_subset_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no subset 'evn': did you mean even\? accepted: even, lee"):
        load("plummer", 10, 0, 0.1, "evn")
    with pytest.raises(InputError, match="no subset 'first'"):
        available("plummer", "first")


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_even_subset_spreads_over_the_whole_file(n: int, tmp_path: Path) -> None:
    path = written(tmp_path, "a.tab", "".join(f"{line + 1} 0 0 0 0 0 0\n" for line in range(10)))
    assert available(str(path)) == 10
    expected = [index * 10 // n + 1 for index in range(n)]
    assert load(str(path), n, 0, 0.1).mass.tolist() == expected


def test_more_bodies_than_a_file_has_are_refused(tmp_path: Path) -> None:
    path = str(written(tmp_path, "a.tab", GOOD * 3))
    with pytest.raises(InputError, match="4 bodies asked for, but subset even has 3; accepted: 1 to 3"):
        load(path, 4, 0, 0.1)


def test_lee_subset_is_for_dubinski_alone(tmp_path: Path) -> None:
    path = str(written(tmp_path, "a.tab", GOOD * 3))
    for ask in (lambda: load(path, 2, 0, 0.1, "lee"), lambda: available(path, "lee")):
        with pytest.raises(InputError, match=r"has 3 bodies, but subset lee is .* with 81920; accepted: subset even"):
            ask()


def test_a_sweep_parses_a_file_once_and_an_edited_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a.tab", GOOD * 3)
    parsed: list[Path] = []

    def counting(path: Path) -> bodies_readers.Arrays:
        parsed.append(path)
        return read(path)

    monkeypatch.setattr(initial_conditions, "read", counting)
    first = load(str(path), available(str(path)), 0, 0.1)
    first.position[:] = 99  # a case's own copy, not the next case's
    assert load(str(path), 2, 0, 0.1).position[0].tolist() == [2, 3, 4]
    assert len(parsed) == 1
    path.write_text(GOOD * 4)
    assert available(str(path)) == 4
    assert len(parsed) == 2


# Files like those of the literature


@pytest.fixture(scope="module")
def dubinski(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[np.float64]]:
    """A table as long as that of Dubinski, in its format: six digits, a blank at the end of each line; its rows."""
    few = np.random.default_rng(1996).normal(scale=20.0, size=(64, 5))
    rest = [" ".join(f"{value:.6g}" for value in row) for row in few.tolist()]
    lines = [f"4.98914e-05 {body} {rest[body % 64]} \n" for body in range(81_920)]
    path = written(tmp_path_factory.mktemp("table"), "dubinski.tab.gz", "".join(lines))
    return path, np.array([line.split() for line in lines], dtype=np.float64)


@pytest.mark.parametrize(("subset", "first"), [("even", 81_920), ("lee", 49_152)])
def test_subsets_of_dubinski(subset: str, first: int, dubinski: tuple[Path, NDArray[np.float64]]) -> None:
    path, rows = dubinski
    assert available(str(path), subset) == first
    for n in (1, 1000, 4096, 16_384, 49_152):
        some = load(str(path), n, 0, 0.025, subset)
        assert np.array_equal(
            np.column_stack([some.mass, some.position, some.velocity]), rows[np.arange(n) * first // n]
        ), n
    with pytest.raises(InputError, match=f"subset {subset} has {first}"):
        load(str(path), first + 1, 0, 0.025, subset)


def test_a_tipsy_of_dark_particles_and_stars_is_read_in_its_order(tmp_path: Path) -> None:
    """As the files of galaxies are that have no gas: 36 bytes a dark particle, then 44 a star."""
    rows = np.abs(np.random.default_rng(20).normal(size=(200, 7))).astype(np.float32).astype(np.float64)
    path = written(tmp_path, "galaxy.bin", tipsy_bytes("<", 0, 25, 175, rows))
    assert path.stat().st_size == 32 + 25 * 36 + 175 * 44
    assert available(str(path)) == 200
    assert same(path, rows)


def test_cases_in_a_row_share_bodies_that_nobody_can_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    own = initial_conditions.load
    monkeypatch.setattr(initial_conditions, "load", lambda *arguments: made.append(1) or own(*arguments))
    initial_conditions._of_case.cache_clear()  # other tests may have loaded the same
    path = tmp_path / "a.npz"
    save(plummer(50, 3, 0.1), path)
    for spec in ("plummer", str(path)):
        case = load_sweep("quick", ["n=40", f"bodies={spec}"], variants=["numpy_direct"], toolkits=["cpu"]).cases[0]
        made.clear()
        first, again = (initial_conditions.of_case(case) for _ in range(2))
        assert first is again
        assert len(made) == 1
        with pytest.raises(ValueError, match="read-only"):
            first.position[0] = 1.0
        other = initial_conditions.of_case(case.model_copy(update={"seed": 5, "eps": 0.2}))
        assert other.sha256 != first.sha256
    save(plummer(50, 4, 0.1), path)
    os.utime(path, (1, 1))
    assert initial_conditions.of_case(case).sha256 != first.sha256


def test_a_hash_is_kept_of_bodies_that_are_frozen_and_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    some = plummer(20, 1, 0.1)
    before = some.sha256
    some.position[0] += 1
    assert some.sha256 != before
    same = Bodies(some.mass, some.position, some.velocity, some.eps).frozen()
    assert same.sha256 == some.sha256
    monkeypatch.setattr(bodies.hashlib, "sha256", None)
    assert same.sha256
