"""Bodies that are hard for trees: each has the geometry that it claims, and its parameters are part of its name."""

import math
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, flat, invoke
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.model.bodies import unfit
from gravbench.model.case import Case
from gravbench.model.generated_bodies import GENERATORS, canonical, generate, is_generated, parameters_of
from gravbench.model.initial_conditions import available, file_sha256, of_case
from gravbench.model.initial_conditions import load as load_bodies
from gravbench.model.runs import RecordFile
from gravbench.report.page.reproduce import command

HARD = ["cusp", "thin_disk", "clumps", "line", "coincident", "filament"]
COUNTS = (1, 2, 31, 127, 128, 129, 1000)
MANY = 20_000


def radii(bodies):
    return np.linalg.norm(bodies.position, axis=1)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("n", COUNTS)
def test_any_number_of_bodies_has_equal_masses_of_1_in_all_and_can_be_computed_with(name, n):
    bodies = generate(name, n, 7, 0.025)
    assert bodies.n == n
    assert (bodies.mass == 1 / n).all()
    for array in (bodies.position, bodies.velocity):
        assert array.dtype == np.float64
        assert np.isfinite(array).all()
    assert unfit(bodies, "float32") is None


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("n", COUNTS)
def test_the_seed_decides_everything(name, n):
    first, again, other = (generate(name, n, seed, 0.025) for seed in (1, 1, 2))
    assert first.sha256 == again.sha256
    # A single body of a Plummer sphere is at rest at the origin, whatever the seed.
    assert (first.sha256 == other.sha256) == (name == "coincident" and n == 1)


def test_a_cusp_has_equally_many_bodies_in_each_decade_and_in_each_direction():
    at = radii(generate("cusp", MANY, 1, 0.025))
    assert 1e-5 <= at.min() < 1.1e-5
    assert 9 < at.max() <= 10
    decades = np.histogram(np.log10(at), bins=6, range=(-5, 1))[0]
    assert decades.sum() == MANY
    assert decades == pytest.approx(np.full(6, MANY / 6), rel=0.07)  # four standard deviations
    bodies = generate("cusp inner=0.1 outer=1", MANY, 1, 0.025)
    assert 0.1 <= radii(bodies).min() < radii(bodies).max() <= 1
    assert np.mean(bodies.position / radii(bodies)[:, None], axis=0) == pytest.approx(np.zeros(3), abs=0.02)


@pytest.mark.parametrize("height", [1e-4, 0.5])
def test_a_thin_disk_is_as_thin_as_said_even_and_on_circular_orbits(height):
    bodies = generate(f"thin_disk height={height}", MANY, 1, 0.025)
    assert 0.99 * height < np.ptp(bodies.position[:, 2]) <= height
    radius = np.hypot(*bodies.position.T[:2])
    assert 0.99 < radius.max() <= 1
    assert np.mean(radius < 0.5) == pytest.approx(0.25, abs=0.013)
    # The pull that keeps a body on its orbit is that of the mass within, which is radius^2.
    assert np.square(np.linalg.norm(bodies.velocity, axis=1)) == pytest.approx(radius, abs=0.05)
    assert bodies.mass @ bodies.velocity == pytest.approx(np.zeros(3), abs=1e-15)
    assert np.sum(bodies.position * bodies.velocity, axis=1) == pytest.approx(np.zeros(MANY), abs=0.03)


@pytest.mark.parametrize(("spec", "count", "sigma", "distance"), [
    ("clumps", 2, 1e-4, 1000),
    ("clumps count=9 sigma=0.01 distance=5", 9, 0.01, 5),
    ("clumps count=27", 27, 1e-4, 1000),
])  # fmt: skip
def test_clumps_are_as_narrow_as_said_and_as_far_apart(spec, count, sigma, distance):
    bodies = generate(spec, MANY, 1, 0.025)
    clump = np.arange(MANY) * count // MANY
    sites = np.array([bodies.position[clump == one].mean(axis=0) for one in range(count)])
    apart = np.linalg.norm(sites[:, None] - sites, axis=2) + np.diag(np.full(count, np.inf))
    assert apart.min(axis=0) == pytest.approx(np.full(count, distance), rel=1e-3)
    assert sites.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-3)
    assert (bodies.position - sites[clump]).std(axis=0) == pytest.approx(np.full(3, sigma), rel=0.05)
    sizes = np.unique(clump, return_counts=True)[1]
    assert np.ptp(sizes) <= 1


@pytest.mark.parametrize("length", [2.0, 300.0])
def test_a_line_is_a_line_of_its_length(length):
    bodies = generate(f"line length={length:g}", MANY, 1, 0.025)
    x, y, z = bodies.position.T
    assert (x == y).all()
    assert (x == z).all()
    assert 0.99 * length < math.sqrt(3) * np.ptp(x) <= length
    assert np.histogram(x, bins=4)[0] == pytest.approx(np.full(4, MANY / 4), rel=0.06)


@pytest.mark.parametrize(("spec", "n", "crowd"), [
    ("coincident", 65_536, 5000), ("coincident", 128, 9), ("coincident share=0.5", 31, 15),
    ("coincident share=0", 31, 1), ("coincident share=0.99", 2, 1),
])  # fmt: skip
def test_so_many_bodies_are_at_one_place_with_one_velocity(spec, n, crowd):
    bodies = generate(spec, n, 3, 0.025)
    for array in (bodies.position, bodies.velocity):
        assert np.unique(array, axis=0, return_counts=True)[1].max() == crowd
        assert bodies.mass @ array == pytest.approx(np.zeros(3), abs=1e-13)
    others = generate("plummer", n, 3, 0.025)
    same = bodies.position[crowd:] - others.position[crowd:]
    assert same == pytest.approx(np.broadcast_to(same[:1], same.shape), abs=1e-13)


@pytest.mark.parametrize(("width", "turns"), [(1e-3, 1), (1e-5, 3)])
def test_a_filament_is_thin_and_follows_its_helix(width, turns):
    bodies = generate(f"filament width={width} turns={turns}", 2000, 1, 0.025)
    along = np.linspace(0, 1, 20_001)
    angle = 2 * np.pi * turns * along
    helix = np.column_stack([np.cos(angle), np.sin(angle), along - 0.5])
    distance = np.array([np.min(np.linalg.norm(helix - place, axis=1)) for place in bodies.position])
    spacing = np.linalg.norm(helix[1] - helix[0])
    assert distance.max() <= 38.7 * width + spacing
    # The median distance of a Plummer sphere from an axis is its scale length.
    assert np.median(distance) == pytest.approx(width, rel=0.1, abs=spacing)
    assert 0.9 < np.ptp(bodies.position[:, 2]) < 1.1


@pytest.mark.parametrize("name", HARD)
def test_bodies_are_at_rest_or_stay_together(name):
    velocity = generate(name, 100, 1, 0.025).velocity
    assert velocity.any() == (name in ("thin_disk", "coincident"))


# Names


def test_a_name_is_written_in_one_way():
    assert canonical("clumps  sigma=0.00010 distance=1e3 count=4") == "clumps count=4"
    assert canonical("clumps distance=5 count=4") == "clumps count=4 distance=5"
    assert canonical("cusp inner=1.2345678901234567e-4") == "cusp inner=0.00012345678901234567"
    assert canonical("plummer") == "plummer"
    assert canonical("my clumps count=4.tab") == "my clumps count=4.tab"


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_a_name_keeps_every_value_exactly(data):
    inner = data.draw(st.floats(1e-9, 1))
    given = canonical(f"cusp inner={inner!r}")
    assert canonical(given) == given
    word = given.partition("inner=")[2]
    assert float(word or 1e-5) == inner


def test_a_file_whose_name_begins_like_a_generator_is_a_file(tmp_path):
    path = tmp_path / "cusp 1.tab"
    path.write_text("1 0 0 0 0 0 0\n2 1 0 0 0 0 0\n")
    for spec in (str(path), "cusp 1.tab", "", " "):
        assert not is_generated(spec)
    assert available(str(path)) == 2
    assert available("cusp inner=0.1") is None
    assert file_sha256("cusp inner=0.1") is None


WRONG = {
    "clumps cuont=4": "clumps: no parameter cuont; did you mean count? accepted: count, sigma, distance",
    "clumps count=1": "clumps: count is 1; accepted: a whole number from 2 to 1e+06",
    "clumps count=2.5": "clumps: count is 2.5; accepted: a whole number from 2 to 1e+06",
    "clumps count=": "clumps: count is empty; accepted: a whole number from 2 to 1e+06",
    "clumps count=4 count=5": "clumps: count is given twice; accepted: once",
    "cusp inner=nan": "cusp: inner is nan; accepted: a number from 1e-09 to 1",
    "coincident share=1": "coincident: share is 1; accepted: a number from 0 to 0.99",
    "plummer mass=2": "plummer: no parameter mass; accepted: plummer alone",
}


@pytest.mark.parametrize("spec", WRONG)
def test_a_wrong_parameter_is_one_sentence_wherever_it_stands(spec, tmp_path):
    with pytest.raises(InputError) as refused:
        load_bodies(spec, 10, 1, 0.1)
    assert str(refused.value) == WRONG[spec]
    path = tmp_path / "x.yaml"
    path.write_text(f"n: 64\nvariants:\n- variant: numpy_direct\n  bodies: [plummer, {spec}]\n")
    said = f'bodies is "{spec}": {WRONG[spec]}'
    assert str(invoke("run", str(path), "--dry-run").exception) == f"{path}, line 4: {said}"
    path.write_text("n: 64\nvariants: numpy_direct\n")
    for words, where in ((["-p", f"bodies={spec}"], f"-p bodies={spec}"), (["--bodies", spec], f"--bodies {spec}")):
        assert str(invoke("run", str(path), "--dry-run", *words).exception) == f"{where}: {said}"


# Cases


def test_parameters_are_part_of_a_case_and_what_is_usual_is_none(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "n: 64\nvariants: numpy_direct\nseed: [1, 2]\n"
        "bodies: [clumps, clumps count=2, clumps sigma=0.1 count=4, clumps count=4 sigma=1e-1, clumps count=4]\n"
    )
    cases = load(str(path)).cases
    assert [(case.bodies, case.seed) for case in cases] == [
        (bodies, seed) for bodies in ("clumps", "clumps count=4 sigma=0.1", "clumps count=4") for seed in (1, 2)
    ]
    assert len({case.key for case in cases}) == len({case.identity for case in cases}) == 6
    assert len({tuple(case.conditions.items()) for case in cases}) == 6
    assert len({of_case(case).sha256 for case in cases}) == 6
    assert [case.bodies for case in load(str(path), ["seed=1", "bodies=clumps count=2,line length=3"]).cases] == [
        "clumps", "line length=3",
    ]  # fmt: skip


def test_a_case_without_parameters_keeps_the_key_it_had():
    case = Case(
        variant="tiled", toolkit="cupy", axes={"p": 256}, n=1024, dtype="float32", bodies="plummer", subset="even",
        seed=1, eps=0.025, timed="force",
    )  # fmt: skip
    assert case.key == "168d9be820117937"


@pytest.mark.slow
def test_the_packaged_sweep_runs_on_few_bodies_and_again_measures_nothing(tmp_path):
    out = tmp_path / "run"
    words = [sys.executable, "-m", "gravbench", "run", "hard_bodies", "--variant", "barnes_hut_cpu", "--device", "cpu"]
    for setting in ("n=300", "timed=force,step", "measure.budget_seconds=0.01", "measure.sample_seconds=0.001"):
        words += ["-p", setting]
    words += ["--bodies", "clumps count=3", "--out", str(out)]
    for _ in range(2):
        done = subprocess.run([*words, "--resume"] if out.exists() else words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        records = [record for record in RecordFile(out).records() if record.anchor <= 1]
        assert {(record.bodies, record.timed, record.status) for record in records} == {
            ("clumps count=3", timed, "ok") for timed in ("force", "step")
        }
        assert len(records) == 2
    assert "--bodies 'clumps count=3'" in command(records[0])
    printed = invoke("report", str(out), "--full").stdout
    assert "clumps count=3, timed: step" in flat(printed)


def test_the_packaged_sweeps_have_every_kind_of_bodies_and_twenty_seeds():
    cases = load("hard_bodies").cases
    assert {case.bodies for case in cases} == {"plummer", *HARD}
    assert {case.n for case in cases} == {2**16, 2**18, 2**20}
    seeds = {(case.variant, case.n): [] for case in load("plummer_seeds").cases}
    for case in load("plummer_seeds").cases:
        seeds[case.variant, case.n].append(case.seed)
    assert seeds == {
        (name, 4**power): list(range(1, 21)) for name in ("resident_tree", "fast_multipole") for power in (7, 8, 9, 10)
    }


def test_when_compares_the_one_name(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "n: 64\nbodies: [clumps distance=10 count=4, cusp]\n"
        "variants:\n- {variant: numpy_direct, when: bodies == 'clumps count=4 distance=10'}\n"
    )
    (case,) = load(str(path)).cases
    assert case.bodies == "clumps count=4 distance=10"


def test_the_documentation_names_every_generator_parameter_and_default():
    page = (ROOT / "docs/how-to/bodies.md").read_text("utf-8")
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    for name in GENERATORS:
        for parameter, field in parameters_of(name).model_fields.items():
            (stated,) = re.findall(rf"`{parameter}` = ([\d./e-]*\d)", rows[name])
            assert float(Fraction(stated)) == field.default, (name, parameter)
