"""Interactions: what their files say, how they are written out, and that kernels compute what they say."""

import dataclasses
import importlib.util
import os
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import ROOT
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import stages
from gravbench.model import generators, interaction, interaction_files, interaction_text
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.toolkits.interface import FLAGS
from gravbench.toolkits.opening import keeping_kernels, open_toolkit
from gravbench.verifying import comparing as reference
from gravbench.verifying.direct_sums import direct_sums
from gravbench.verifying.verify import Judge
from nvrtc import ARCHITECTURES, QUICK, compile_cuda
from recorder import asked_for

PACKAGED = sorted(interaction_files.packaged())
TAKE_ANY = [name for name, variant in discover().items() if variant.any_interaction]
EPS = 0.05

SPRING = '''"""A spring between every two bodies, with friction along it: an interaction from outside of the package."""

from gravbench.model.interaction import inverse_sqrt

REST = 0.7
STIFFNESS = 2


def interact(sums, i, j, eps2):
    """Add what j does to i."""
    dx = j.x - i.x  # 1
    dy = j.y - i.y  # 1
    dz = j.z - i.z  # 1
    inverse = inverse_sqrt(dx * dx + dy * dy + dz * dz + eps2)  # 8
    length = 1 / inverse  # 1
    pull = STIFFNESS * (length - REST) if length < 3 else 0.5  # 2
    closing = (j.vx - i.vx) * dx * inverse  # 3
    sums.fx += pull * inverse * dx - closing  # 4
    sums.fy += pull * inverse * dy  # 3
    sums.fz += pull * inverse * dz  # 3
    sums.heat -= closing * closing  # 2
'''


@pytest.fixture
def spring(tmp_path):
    path = tmp_path / "spring.py"
    path.write_text(SPRING)
    return path


def by_the_file_itself(path, bodies):
    """Run the file's own function in plain Python, which nothing else does; rows of sums by name."""
    spec = importlib.util.spec_from_file_location("interaction_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = []
    own = [
        SimpleNamespace(**dict(zip(interaction.BODY, (*position, mass, *velocity), strict=True)))
        for position, mass, velocity in zip(bodies.position, bodies.mass, bodies.velocity, strict=True)
    ]
    for i in own:
        sums = SimpleNamespace(**dict.fromkeys(interaction_files.find(str(path)).sums, 0.0))
        for j in own:
            module.interact(sums, i, j, bodies.eps**2)
        rows.append(list(vars(sums).values()))
    return np.array(rows)


def direct(name, bodies, dtype="float64"):
    return direct_sums(interaction_files.find(name), bodies, np.arange(bodies.n), dtype).exact


def moved(bodies, dt=0.0, of=0, by=(0.0, 0.0, 0.0)):
    """Return the bodies a time later on straight lines, body ``of`` put somewhere else as well."""
    position = bodies.position + dt * bodies.velocity
    position[of] += by
    return Bodies(bodies.mass, position, bodies.velocity, bodies.eps)


@pytest.mark.parametrize("name", PACKAGED)
def test_the_judge_sums_what_the_file_says(name):
    bodies = generators.plummer(24, 2, EPS)
    assert_allclose(direct(name, bodies), by_the_file_itself(interaction_files.packaged()[name], bodies), rtol=1e-11)


def test_the_judge_sums_what_ones_own_file_says(spring):
    bodies = generators.collision(24, 2, EPS)
    assert_allclose(direct(str(spring), bodies), by_the_file_itself(spring, bodies), rtol=1e-11, atol=1e-13)


def test_gravity_is_the_formula():
    bodies = generators.plummer(40, 2, EPS)
    apart = bodies.position[None] - bodies.position[:, None]
    cubes = ((apart**2).sum(2) + EPS**2) ** -1.5
    assert_allclose(direct("gravity", bodies), np.einsum("ij,ijk->ik", bodies.mass * cubes, apart), rtol=1e-12)


def test_hermite_begins_with_gravity_and_the_jerk_is_its_rate_of_change():
    bodies = generators.plummer(40, 2, EPS)
    sums = direct("hermite", bodies)
    assert_allclose(sums[:, :3], direct("gravity", bodies), rtol=1e-12)
    dt = 1e-5
    rate = (direct("gravity", moved(bodies, dt)) - direct("gravity", moved(bodies, -dt))) / (2 * dt)
    assert_allclose(sums[:, 3:6], rate, atol=1e-6 * np.abs(rate).max())


@pytest.mark.parametrize(("name", "sums", "energy", "weight"), [("hermite", 0, 6, 1.0), ("lennard_jones", 0, 3, 1.0)])
def test_the_force_is_minus_the_gradient_of_the_energy(name, sums, energy, weight):
    bodies = generators.plummer(12, 2, EPS)
    step = 1e-5
    for axis in np.eye(3):
        there, back = (direct(name, moved(bodies, of=5, by=sign * step * axis))[5, energy] for sign in (1, -1))
        slope = (there - back) / (2 * step)
        assert weight * (direct(name, bodies)[5, sums : sums + 3] @ axis) == pytest.approx(-slope, rel=1e-5)


def test_two_molecules_attract_from_afar_and_repel_when_near():
    # The force of 4 D ((s/r)^12 - (s/r)^6) changes its sign at r = 2^(1/6) s; softening moves that inwards.
    text = interaction_files.packaged()["lennard_jones"].read_text()
    sigma = float(text.split("SIGMA = ")[1].split()[0])
    for factor, sign in ((0.95, -1), (1.05, 1)):
        distance = factor * 2 ** (1 / 6) * sigma
        bodies = Bodies(np.ones(2), np.array([[0.0, 0, 0], [distance, 0, 0]]), np.zeros((2, 3)), 1e-6)
        assert np.sign(direct("lennard_jones", bodies)[0, 0]) == sign


def constant(name, of):
    """Return a constant of a packaged interaction, as its file states it."""
    return float(interaction_files.packaged()[of].read_text().split(f"\n{name} = ")[1].split()[0])


def on_a_sphere(n, radius, probes):
    """Lay n elements of equal area out on a sphere, with outward normals; probes are elements without area."""
    height = 1 - (2 * np.arange(n) + 1) / n
    turn = np.pi * (1 + 5**0.5) * np.arange(n)
    ring = np.sqrt(1 - height**2)
    normal = np.column_stack([ring * np.cos(turn), ring * np.sin(turn), height])
    mass = np.append(np.full(n, 4 * np.pi * radius**2 / n), np.zeros(len(probes)))
    normals = np.vstack([normal, np.zeros_like(probes)])
    return Bodies(mass, np.vstack([radius * normal, probes]), normals, 1e-6)


PROBES = np.array([[0.0, 0, 0], [0.3, -0.2, 0.4], [0, 3.5, 0], [-4, 1, 2]])
"""Two points inside a sphere of radius 2, and two outside."""


def test_the_layers_of_a_sphere_have_the_potentials_of_the_theorem_of_gauss():
    sums = direct("boundary_layers", on_a_sphere(4000, 2.0, PROBES))[-4:]
    far = np.linalg.norm(PROBES[2:], axis=1)
    assert_allclose(sums[:, 0], [2, 2, *(4 / far)], rtol=1e-3)
    assert_allclose(sums[:2, 1:4], 0, atol=1e-3)
    assert_allclose(sums[2:, 1:4], -4 * PROBES[2:] / far[:, None] ** 3, atol=1e-3)
    assert_allclose(sums[:, 4], [-1, -1, 0, 0], atol=1e-3)


def test_a_shell_of_sources_has_the_screened_potential_of_the_closed_form():
    k, radius = constant("K", of="screened_wave"), 2.0
    bodies = on_a_sphere(4000, radius, PROBES)
    sums = direct("screened_wave", bodies)[-4:]
    apart = np.linalg.norm(PROBES, axis=1)
    near, far = np.minimum(apart, radius), np.maximum(apart, radius)
    # The nearer of the shell and the point to the centre enters by sinh, the other by the potential itself.
    ratio = np.sinh(k * near) / np.where(near, k * near, 1)
    ratio[0] = 1
    expected = bodies.mass.sum() / (4 * np.pi) * ratio * np.exp(-k * far) / far
    assert_allclose(sums[:, 3], expected, rtol=1e-3)
    assert_allclose(sums[0, :3], 0, atol=1e-3)


def test_the_gradient_of_the_screened_potential_is_its_slope():
    bodies = generators.plummer(12, 2, EPS)
    step = 1e-5
    for axis in np.eye(3):
        there, back = (direct("screened_wave", moved(bodies, of=5, by=sign * step * axis))[5, 3] for sign in (1, -1))
        assert direct("screened_wave", bodies)[5, :3] @ axis == pytest.approx((there - back) / (2 * step), rel=1e-5)


def test_the_density_of_sph_is_that_of_the_spline():
    h = constant("H", of="sph_density")
    for apart, part in ((0.5, 0.71875), (1.5, 0.03125), (1.0, 0.25), (2.0, 0.0), (50.0, 0.0)):
        bodies = Bodies(np.array([3.0, 5.0]), np.array([[0.0, 0, 0], [0, apart * h, 0]]), np.zeros((2, 3)), EPS)
        expected = np.array([[3 + 5 * part], [5 + 3 * part]]) / (np.pi * h**3)
        assert_allclose(direct("sph_density", bodies), expected, rtol=1e-12, atol=0)
    # On a fine lattice of density 7 the sum is the density.
    step = h / 2.5
    places = step * (np.stack(np.meshgrid(*[np.arange(13) - 6] * 3), axis=-1).reshape(-1, 3))
    lattice = Bodies(np.full(len(places), 7 * step**3), places, np.zeros_like(places), EPS)
    assert direct("sph_density", lattice)[len(places) // 2, 0] == pytest.approx(7, rel=2e-3)


COUNTED = [
    ("j.x - i.x", 1),
    ("j.x + i.x * j.y / i.y", 3),
    ("-(j.x - i.x)", 1),
    ("-j.x", 0),
    ("inverse_sqrt(j.x)", 2),
    ("sqrt(j.x) + exp(i.x) * log(j.y)", 5),
    ("fabs(j.x - i.x)", 1),
    # Made of constants alone: computed by the compiler.
    ("2 * FACTOR * j.x", 1),
    ("j.x * (2 * FACTOR)", 1),
    ("j.x * 2 * FACTOR", 2),
    ("sqrt(FACTOR) * j.x", 1),
    ("3.5", 0),
    # Both values of a choice, and what is compared.
    ("j.x + 1 if j.x - i.x < 2 else j.x * 2", 3),
    ("j.x if j.x < 2 else i.x", 0),
]


@pytest.mark.parametrize(("expression", "flops"), COUNTED, ids=[expression for expression, _ in COUNTED])
def test_operations_are_counted_as_the_convention_says(expression, flops):
    """An FMA is two: adding to a sum is one more, whichever sign it has."""
    lines = ["term = {}", "sums.first += {}", "sums.second -= {}"]
    body = "".join(f"    {line.format(expression)}\n" for line in lines)
    text = f'"""Count."""\n\nFACTOR = 3\n\n\ndef interact(sums, i, j, eps2):\n{body}'
    found = interaction_files.parse(text, "own", "own.py")
    assert [line.flops for line in found.lines] == [flops, flops + 1, flops + 1]
    assert found.flops == 3 * flops + 2


@pytest.mark.parametrize(("name", "flops"), [("gravity", 20), ("hermite", 43), ("lennard_jones", 30)])
def test_the_packaged_interactions_count_what_their_sources_say(name, flops):
    assert interaction_files.find(name).flops == flops


def test_a_negative_constant_below_a_minus_is_no_operator_of_wgsl():
    text = '"""Offset."""\nOFFSET = -2.5\n\n\ndef interact(sums, i, j, eps2):\n    """Add."""\n    sums.f -= OFFSET\n'
    assert "-(-2.5f)" in interaction_files.parse(text, "own", "own.py").wgsl_source()
    assert "--" not in interaction_files.parse(text, "own", "own.py").wgsl_source()


def test_comments_need_no_count(spring):
    text = re.sub(r"  # \d+$", "", SPRING, flags=re.MULTILINE)
    assert "# 8" in SPRING
    assert "#" not in text
    assert interaction_files.parse(text, "own", "own.py").flops == interaction_files.find(str(spring)).flops == 29


def test_sums_that_belong_together_are_one_vector():
    assert interaction_files.find("hermite").vectors() == {"a": (0, 1, 2), "j": (3, 4, 5), "potential": (6,)}
    assert interaction_files.find("lennard_jones").vectors() == {"f": (0, 1, 2), "energy": (3,)}


@pytest.mark.parametrize(
    ("sums", "vectors"),
    [
        ("ax ay az a", {"ax": (0,), "ay": (1,), "az": (2,), "a": (3,)}),
        ("ax ay az aw", {"a": (0, 1, 2), "aw": (3,)}),
        ("x y z", {"x": (0,), "y": (1,), "z": (2,)}),
    ],
)
def test_a_sum_that_is_no_part_of_a_vector_stands_alone(spring, sums, vectors):
    lines = "".join(f"    sums.{name} += j.x\n" for name in sums.split())
    spring.write_text(re.sub(r"    dx = .*", lines, SPRING, flags=re.DOTALL))
    assert interaction_files.find(str(spring)).vectors() == vectors


def test_the_worst_vector_has_the_error():
    expected = np.array([[1.0, 0.0, 0.0, 4.0], [0.0, 2.0, 0.0, 4.0]])
    found = expected.copy()
    found[1, 3] = 5.0
    errors = reference.compare(found, expected, {"f": (0, 1, 2), "energy": (3,)})
    assert errors.error_max == 0.25
    assert errors.error_max_of == {"f": 0.0, "energy": 0.25}
    found[0, 0] = np.nan
    assert np.isnan(reference.compare(found, expected, {"f": (0, 1, 2), "energy": (3,)}).error_max)


RUNS = [
    pytest.param(
        name,
        toolkit,
        dtype,
        interaction,
        id=f"{name}-{toolkit}-{dtype}-{interaction}",
        marks=[] if toolkit in ("numba", "wgpu", "cpu") else [pytest.mark.gpu],
    )
    for name in TAKE_ANY
    for toolkit, dtype, interaction in product(
        discover()[name].toolkits, discover()[name].dtypes, [*(one for one in PACKAGED if one != "gravity"), "spring"]
    )
    if dtype in catalogue()[toolkit].dtypes
]


@pytest.mark.parametrize(("name", "toolkit", "dtype", "interaction"), RUNS)
def test_a_kernel_computes_every_interaction(need_toolkit, spring, name, toolkit, dtype, interaction):
    need_toolkit(toolkit)
    variant = discover()[name]
    computed = interaction_files.find(str(spring) if interaction == "spring" else interaction)
    opened = open_toolkit(toolkit, variant, dtype, computed)
    if toolkit == "mlir":  # each takes seconds to compile
        opened = keeping_kernels(opened)
    small = {"p": 32, "unroll": 8, "j_bag": 64}
    axes = variant.complete({axis: value for axis, value in small.items() if axis in variant.axes})
    if toolkit == "mlir" and len(computed.sums) == 1:
        with pytest.raises(InputError, match=r"^sph_density has one sum; accepted by numba-cuda-mlir 0\.6: "):
            variant.prepare(opened, generators.plummer(2, 3, EPS), **axes)
        return
    sizes = (1, 2, 31, 64, 65, 129)
    # The number type changes no loop: of a second one the largest size says enough, but on a GPU.
    for n in sizes if dtype == variant.dtypes[0] or toolkit not in ("numba", "cpu") else sizes[-1:]:
        bodies = generators.plummer(n, 3, EPS)
        prepared = variant.prepare(opened, bodies, **axes)
        prepared.launch()
        opened.synchronize()
        found = opened.download(prepared.accelerations)
        assert not found[:, len(computed.sums) :].any()
        expected = direct_sums(computed, bodies, np.arange(n), dtype).exact
        errors = reference.compare(found[:, : len(computed.sums)], expected, computed.vectors())
        assert reference.objection_to(errors, variant.accepted(dtype, axes)) is None, n


def check_that_it_compiles(variant, interaction, architecture):
    """Without float64 in float32, and without a register spilled, at the variant's defaults."""
    for dtype, flags in (("float32", []), ("float64", ["-DFLOAT64=1"])):
        if dtype not in variant.dtypes:
            continue
        for _, constants in asked_for(variant, dtype, variant.complete({}), interaction):
            quick = () if architecture.startswith("sm_") else QUICK
            options = [*FLAGS, *quick, *flags, *(f"-D{name}={value}" for name, value in constants)]
            _, ptx, remarks = compile_cuda(variant.cuda_source(interaction), architecture, options)
            if dtype == "float32":
                assert (".f64" in ptx) == variant.mixed
                if architecture.startswith("sm_"):
                    assert "0 bytes spill stores, 0 bytes spill loads" in remarks


@pytest.mark.parametrize("architecture", ARCHITECTURES)
# Gravity is compiled with all variants that compute it.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "interaction"), list(product(TAKE_ANY, [one for one in PACKAGED if one != "gravity"]))
)
def test_every_interaction_compiles_without_float64_and_without_spills(name, interaction, architecture):
    if discover()[name].has_cuda_c:
        check_that_it_compiles(discover()[name], interaction_files.find(interaction), architecture)


def test_names_of_cuda_c_compile_as_names_of_values_and_sums():
    names = "int2 float4 rsqrtf min max clock asm linux union j_mass bodies sums_ax p unroll real dx".split()  # noqa: SIM905
    lines = "".join(f"    {name} = j.x * {number}\n" for number, name in enumerate(names))
    lines += "    sums.float4 += " + " + ".join(names) + "\n    sums.rsqrtf += i.y\n    sums.bodies += i.z\n"
    own = interaction_files.parse(f'"""Own."""\n\n\ndef interact(sums, i, j, eps2):\n{lines}', "own.py", "own.py")
    check_that_it_compiles(discover()["tiled"], own, "sm_90")


def test_a_variant_that_takes_any_interaction_is_tested_without_a_new_test(tmp_path):
    """One whose constants no test knows: what its own ``prepare`` asks for is compiled."""
    folder = BUILT_IN / "all_pairs"
    text = (folder / "chamomile.cu").read_text().replace("J_BAG", "BAG_LENGTH").replace("chamomile", "own_bags")
    (tmp_path / "own_bags.cu").write_text(text)
    text = (folder / "chamomile.py").read_text().replace("J_BAG", "BAG_LENGTH").replace("chamomile", "own_bags")
    (tmp_path / "own_bags.py").write_text(text)
    variant = discover((tmp_path,))["own_bags"]
    assert variant.any_interaction
    check_that_it_compiles(variant, interaction_files.find("hermite"), "sm_90")


def test_ones_own_interaction_is_swept_verified_and_recorded(spring, tmp_path):
    """The whole way: a path in a configuration, a case, a verdict of the worker's."""
    config = tmp_path / "own.yaml"
    config.write_text(
        "interaction: [spring.py, lennard_jones]\nn: 65\nvariants: {variant: tiled, toolkit: numba, p: 32, unroll: 8}"
    )
    sweep = load(str(config))
    assert [case.interaction for case in sweep.cases] == [str(spring), "lennard_jones"]
    assert sweep.cases[0].label.endswith("unroll=8 interaction=spring.py")
    assert [sweep.flops(case.interaction) for case in sweep.cases] == [29.0, 30.0]
    outcome = stages.run(stages.Job(0, sweep.cases[0], None), stages.Station(), lambda _: None)
    assert outcome.status == "ok", outcome.reason
    assert set(outcome.results.errors.error_max_of) == {"f", "heat"}
    assert 0 < outcome.results.errors.error_max < 1e-3


def test_an_interaction_may_be_judged_less_strictly():
    bodies = generators.plummer(8, 1, EPS)
    variant = discover()["numba_direct"]
    for factor, right in ((1.0, False), (1e4, True)):
        computed = dataclasses.replace(interaction_files.find("gravity"), tolerance=factor)
        opened = open_toolkit("cpu", variant, "float32", computed)
        prepared = variant.prepare(opened, bodies)
        prepared.launch()
        prepared.accelerations[0][:] *= 1.01
        _, objection = Judge(opened, prepared, bodies, variant.tolerance["float32"], "float32").verdict()
        assert (objection is None) == right


def test_a_changed_interaction_is_another_source(spring):
    variant = discover()["tiled"]
    before = {
        toolkit: variant.code_sha256(toolkit, interaction_files.find(str(spring))) for toolkit in variant.toolkits
    }
    spring.write_text(SPRING.replace("REST = 0.7", "REST = 0.8"))
    after = {toolkit: variant.code_sha256(toolkit, interaction_files.find(str(spring))) for toolkit in variant.toolkits}
    assert all(before[toolkit] != after[toolkit] for toolkit in variant.toolkits)


def test_a_case_of_gravity_keeps_the_key_it_had_before_there_were_others(tmp_path):
    case = Case(
        variant="tiled", toolkit="cupy", axes={"p": 256}, n=8, dtype="float32", bodies="plummer", subset="even", seed=1,
        eps=0.025, timed="force",
    )  # fmt: skip
    assert case.key == case.model_copy(update={"interaction": "gravity"}).key
    other = case.model_copy(update={"interaction": "hermite"})
    assert other.key != case.key
    one, two = (case.model_copy(update={"interaction": str(tmp_path / folder / "own.py")}) for folder in "ab")
    assert one.key == two.key


def test_variants_of_gravity_alone_and_steps_are_left_out(tmp_path):
    config = tmp_path / "own.yaml"
    config.write_text("interaction: [gravity, hermite]\nn: 8\ntimed: [force, step]\nvariants: [naive, tiled]\n")
    found = {(case.variant, case.interaction, case.timed) for case in load(str(config)).cases}
    assert found == {
        ("naive", "gravity", "force"), ("naive", "gravity", "step"), ("tiled", "gravity", "force"),
        ("tiled", "gravity", "step"), ("tiled", "hermite", "force"),
    }  # fmt: skip


def test_a_sweep_may_name_a_convention_for_each_interaction(tmp_path):
    config = tmp_path / "own.yaml"
    config.write_text("flops_per_interaction: {gravity: 38}\nn: 8\nvariants: tiled\n")
    sweep = load(str(config))
    assert sweep.flops("gravity") == 38.0
    assert sweep.flops("hermite") == 43.0
    assert load(str(config), ["flops_per_interaction=57"]).flops("hermite") == 57.0


LINE = "    dx = j.x - i.x  # 1\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"""A spring', 'SPRING = 1\n"""A spring'), "no docstring; the file of an interaction begins"),
        (("def interact(sums, i, j, eps2)", "def interact(i, j)"), "no function interact(sums, i, j, eps2)"),
        ((LINE, "    dx = j.x - i.x  # 2\n"), "line 11: its comment says 2 floating-point operations, but it has 1;"),
        ((LINE, "    dx = j.x - i.w  # 1\n"), "line 11: i.w is not accepted; accepted: names, numbers, i.x"),
        ((LINE, "    dx = (j.x - i.x) ** 2  # 1\n"), "line 11: (j.x - i.x) ** 2 is not accepted"),
        ((LINE, "    dx = open('x')  # 1\n"), "line 11: open('x') is not accepted"),
        ((LINE, "    dx = j.x - other  # 1\n"), "line 11: other is not accepted"),
        ((LINE, "    import os  # 1\n"), "line 11: not accepted; accepted: name = ..., sums.name += ..."),
        ((LINE, LINE + LINE), "line 12: dx already has a value; accepted: each name once"),
        ((LINE, "    dx = j.mas - i.x  # 1\n"), "line 11: j.mas is not accepted; did you mean mass? accepted: names"),
        ((LINE, "    dx = j.x - eps  # 1\n"), "line 11: eps is not accepted; did you mean eps2? accepted: names"),
        ((LINE, "    dx = sqr(j.x)  # 1\n"), "line 11: sqr(j.x) is not accepted; did you mean sqrt? accepted: names"),
        ((LINE, "    Float = 2  # 1\n"), "line 11: the name Float is not accepted; accepted: lower-case letters"),
        ((LINE, "    lambda_ = 2\n"), "line 11: the name lambda_ is not accepted; accepted: lower-case letters"),
        ((LINE, "    sqrt = j.x\n"), "line 11: the name sqrt is not accepted; accepted: lower-case letters"),
        ((LINE, "    sums.float += j.x\n"), "line 11: the name float is not accepted; accepted: lower-case letters"),
        ((LINE, "    sums.filler0 += j.x\n"), "line 11: the name filler0 is not accepted; accepted: lower-case"),
        ((LINE, "    dx = 1 / (REST - 0.7)\n"), "line 11: 1 / (REST - 0.7) is not a number in float32 or float64 (div"),
        ((LINE, "    dx = j.x / (REST - 0.7)\n"), "line 11: REST - 0.7 is zero; accepted: a nonzero divisor"),
        ((LINE, "    dx = j.x - sqrt(1 - 2)\n"), "line 11: sqrt(1 - 2) is not a number in float32 or float64 (inva"),
        ((LINE, "    dx = j.x if log(0) < i.x else i.x\n"), "line 11: log(0) is not a number in float32 or float64"),
        ((LINE, "    dx = 1e30 * 1e30 * j.x\n"), "line 11: 1e30 * 1e30 is not a number in float32 or float64 (over"),
        ((LINE, "    dx = 1e400 * j.x\n"), "line 11: 1e400 is not accepted; accepted: 0, and numbers of a magni"),
        ((LINE, "    dx = 1e39 * j.x\n"), "line 11: 1e39 is not accepted; accepted: 0, and numbers of a magni"),
        ((LINE, "    dx = 1e-46 * j.x\n"), "line 11: 1e-46 is not accepted; accepted: 0, and numbers of a magni"),
        ((LINE, f"    dx = 1{'0' * 400} * j.x\n"), "line 11: 1000000000000000000000000000000000000000000000000000000"),
        ((LINE, "    dx = 10**400 * j.x\n"), "line 11: 10**400 is not accepted; accepted: names, numbers"),
        ((LINE, f"    dx = j.x  # {'9' * 5000}\n"), "line 11: its comment says 99999"),
        ((LINE, f"    dx = {'-' * 900}j.x\n"), "line 11: an expression has more than 50 levels; accepted: assign"),
        ((LINE, f"    dx = {'(' * 250}j.x{')' * 250}\n"), "line 11: not Python: too many nested parentheses"),
        ((LINE, f"    dx = {'sqrt(' * 60}j.x{')' * 60}\n"), "line 11: an expression has more than 50 levels; accepted"),
        ((LINE, f"    dx = 1{' + j.x' * 5000}\n"), "line 11: an expression has more than 50 levels; accepted"),
        ((LINE, f"    dx = 1{' + j.x' * 20000}\n"), " bytes; accepted: at most 32,768"),
        ((LINE, "    sums.fx += j.x\n" * 1500), ": 1,528 operations; accepted: at most 1,000"),
        ((LINE, LINE * 100000), " bytes; accepted: at most 32,768"),
        ((LINE, LINE + "    dx = 1 if j.x < 2 else 3\n" * 51), ": 52 choices; accepted: at most 50"),
        ((LINE, "".join(f"    sums.s{k} += j.x\n" for k in range(61)) + LINE), ": 65 sums; accepted: at most 64"),
        ((LINE, "    dx = j.x\0\n"), "not Python: source code string cannot contain null bytes"),
        ((LINE, f"    dx = 0x{'f' * 5000}\n"), "line 11: 0xfffffffff"),
        ((LINE, f"    dx = {'9' * 5000}\n"), "not Python: "),
        (("def interact(", "@compiled\ndef interact("), "no function interact(sums, i, j, eps2); accepted: one"),
        (("i, j, eps2)", "i, j, eps2=1)"), "no function interact(sums, i, j, eps2); accepted: one"),
        (("i, j, eps2)", "i, j, eps2, *more)"), "no function interact(sums, i, j, eps2); accepted: one"),
        (("from gravbench.model.interaction import", "from numpy import"), "line 3: from numpy import inverse_sqrt is"),
        (("import inverse_sqrt", "import inverse_sqrt as sqrt"), "accepted: from gravbench.model.interaction import"),
        (("REST = 0.7", "from math import log as exp\nREST = 0.7"), "line 5: from math import log as exp is not"),
        (("REST = 0.7", "REST = 0.7\ni = 3"), "line 6: the name i is not accepted; accepted: capital letters"),
        (("REST = 0.7", "REST = 1e400"), "line 5: 1e400 is not accepted; accepted: 0, and numbers of a"),
        (("REST = 0.7", f"REST = 1{'0' * 400}"), "line 5: 100000"),
        (('"""A spring', '"""A \\r spring'), "the first line of the docstring is 'A \\r spring between"),
        (("REST = 0.7", "REST = 0.7\nTOLERANCE = 0"), "TOLERANCE is 0; accepted: more than 0"),
        (("REST = 0.7", "REST = [1]"), "line 5: [1] is not accepted; accepted: 0, and numbers"),
        (("REST = 0.7", "print(1)"), "line 5: accepted: NAME = NUMBER and the function interact"),
        (("REST = 0.7", "REST ="), "line 5: not Python: invalid syntax"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_one_sentence(spring, tmp_path, change, said):
    spring.write_text(SPRING.replace(*change))
    config = tmp_path / "own.yaml"
    config.write_text("interaction: spring.py\nn: 8\nvariants: tiled\n")
    with pytest.raises(InputError) as error:
        load(str(config))
    assert str(error.value).startswith(str(spring))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_what_is_at_a_bound_is_computed(spring):
    lines = [f"sums.s{number} += i.x" for number in range(interaction_text.SUMS - 4)]
    lines += [f"deep = {'-' * (interaction_text.LEVELS - 2)}i.x", f"same = {'(' * 190}i.x{')' * 190}"]
    spring.write_text(SPRING.replace(LINE, LINE + "".join(f"    {line}\n" for line in lines)))
    found = interaction_files.find(str(spring))
    assert len(found.sums) == interaction_text.SUMS
    i, j = (2.0,) * len(found.body), (3.0,) * len(found.body)
    assert found.python(float, interaction.inverse_sqrt)((0.0,) * len(found.sums), i, j, 1.0)[0] == 2.0
    assert interaction_files.code_sha256(str(spring))
    assert discover()["tiled"].code_sha256("numba", found)


def test_one_expression_may_be_as_deep_as_the_bound_says_below_other_calls(spring):
    """What walks a tree calls itself: not too often, even where much has been called already."""
    most = interaction_text.LEVELS - 3  # beside a comparison and i.x, which is two
    for text in (f"{'sqrt(' * most}i.x{')' * most}", "i.x + " * most + "i.x", "i.x if i.y < 1 else " * most + "i.x"):
        spring.write_text(SPRING.replace(LINE, f"{LINE}    deep = {text}\n"))

        def below(calls):
            return below(calls - 1) if calls else interaction_files.find(str(spring))

        assert interaction_files.code_sha256(str(spring))
        assert discover()["tiled"].code_sha256("numba", below(400))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(SPRING.encode() + b"# \xff\n"), "line 22: not UTF-8; accepted: UTF-8 text"),
        (Path.mkdir, "neither a packaged interaction nor a file (not a regular file)"),
        (os.mkfifo, "neither a packaged interaction nor a file (not a regular file)"),
        (lambda path: path.symlink_to("/dev/zero"), "neither a packaged interaction nor a file (not a regular file)"),
        (
            lambda path: path.symlink_to(path),
            "neither a packaged interaction nor a file (Too many levels of symbolic links)",
        ),
        (lambda path: path.touch(), "no docstring; the file of an interaction begins with a docstring"),
    ],
)
def test_what_is_no_text_is_not_waited_for(tmp_path, make, said):
    make(tmp_path / "own.py")
    with pytest.raises(InputError) as error:
        interaction_files.find(str(tmp_path / "own.py"))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["gravity", 'a".py', "a\\.py", "a\nb.py"])
def test_a_file_is_not_called_as_a_packaged_interaction_nor_as_cuda_c_cannot_say(tmp_path, name):
    (tmp_path / name).write_text(SPRING)
    with pytest.raises(InputError, match="accepted: another name, such as own"):
        interaction_files.find(str(tmp_path / name))


def test_a_path_no_system_has_is_one_sentence():
    for name in ("a\0b", "a" * 5000, "", "/dev/null/a", "\ud800"):
        with pytest.raises(InputError):
            interaction_files.find(name)


def test_the_guide_says_the_bounds():
    guide = " ".join((ROOT / "docs" / "how-to" / "interaction.md").read_text("utf-8").split())
    said = (
        f"{interaction_text.FILE_BYTES:,} bytes", f"{interaction_text.OPERATIONS:,} operations",
        f"{interaction_text.CHOICES} choices", f"{interaction_text.SUMS} sums", f"{interaction_text.LEVELS} levels",
        f"{interaction_files.SMALLEST:.2g}", f"{interaction_files.LARGEST:.2g}",
    )  # fmt: skip
    assert [one for one in said if one not in guide] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hermit", 'interaction is "hermit", neither a file nor a packaged one; did you mean hermite'),
        ("../", "a directory"),
    ],
)
def test_an_interaction_that_is_not_there(tmp_path, text, said):
    config = tmp_path / "own.yaml"
    config.write_text(f"interaction: {text}\nn: 8\nvariants: tiled\n")
    with pytest.raises(InputError, match=said):
        load(str(config))
    with pytest.raises(InputError, match="-p interaction=nothing"):
        load("quick", ["interaction=nothing"])
