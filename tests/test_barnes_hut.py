"""The hybrid tree on every toolkit: bodies that make trees difficult, its switches, its stages."""

import os

import numpy as np
import pytest

from conftest import saying
from direct import direct_accelerations
from gravbench.measuring.protocol import stage_seconds
from gravbench.measuring.step import Stepper
from gravbench.model.bodies import Bodies
from gravbench.model.generators import cube, plummer
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, discover
from gravbench.toolkits.opening import open_toolkit

VARIANT = discover()["barnes_hut"]
TOOLKITS = [
    pytest.param(toolkit, marks=[pytest.mark.gpu] if catalogue()[toolkit].cuda_c else [])
    for toolkit in VARIANT.toolkits
]
SMALL = {"p": 32} if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else {}


def at(positions, mass=None):
    positions = np.array(positions, np.float64)
    return Bodies(np.ones(len(positions)) if mass is None else mass, positions, np.zeros_like(positions), 0.05)


LINE = np.linspace(-1, 1, 33)[:, None] * [1.0, 0.0, 0.0]
DIFFICULT = {
    "one": at([[0.3, 0.1, -0.2]]),
    "two": at([[0.0, 0, 0], [1.0, 0, 0]]),
    "one point": at(np.full((40, 3), 0.7)),
    "two nearly at one place": at([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5 + 1e-7], [-1.0, 0, 0]]),
    "on a line": at(LINE),
    "masses over 12 orders": at(plummer(40, 1, 0.05).position, np.logspace(-12, 0, 40)),
    "without any mass": at(plummer(40, 1, 0.05).position, np.zeros(40)),
}


@pytest.fixture
def prepared_of(need_toolkit):
    def prepare(toolkit, bodies, dtype="float32", **axes):
        need_toolkit(toolkit)
        opened = open_toolkit(toolkit, VARIANT, dtype)
        return opened, VARIANT.prepare(opened, bodies, **VARIANT.complete({**SMALL, **axes}))

    return prepare


@pytest.mark.parametrize("toolkit", TOOLKITS)
@pytest.mark.parametrize("theta", [0, 0.7])
def test_difficult_bodies(prepared_of, toolkit, theta):
    for kind, bodies in DIFFICULT.items():
        with saying(kind):
            _, prepared = prepared_of(toolkit, bodies, theta=theta, leaf_size=2)
            prepared.launch()
            found = prepared.accelerations[:, :3]
            assert np.isfinite(found).all()
            expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
            scale = np.abs(expected).max()
            # Theta 0 is the direct sum; theta 0.7 is held to a few per cent of the strongest pull.
            assert np.abs(found - expected).max() <= (1e-5 if theta == 0 else 0.1) * scale


@pytest.mark.slow
@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_leaves_of_more_bodies_than_a_block_has_threads(prepared_of, toolkit):
    """As those of section 31.6 of GPU Gems 3: each leaf is the eighth of a cube."""
    bodies = cube(280, 1, 0.05)
    _, prepared = prepared_of(toolkit, bodies, theta=0.5, walk="warp", leaf_size=64, p=32)
    prepared.launch()
    found, expected = prepared.accelerations[:, :3], direct_accelerations(bodies, np.arange(bodies.n), "float32")
    assert np.abs(found - expected).max() <= 0.05 * np.abs(expected).max()
    computed = prepared.insight()["computed"]
    assert bodies.n / 8 < computed["body_body"] <= bodies.n


@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_the_switches_that_only_move_data_change_no_bit(prepared_of, toolkit):
    bodies = plummer(40, 1, 0.05)
    results = []
    for memory, streams, buffers in (
        ("pageable", 1, "per_step"),
        ("pinned", 2, "persistent"),
        ("pinned", 2, "per_step"),
    ):
        _, prepared = prepared_of(toolkit, bodies, memory=memory, streams=streams, buffers=buffers)
        for _ in range(2):
            prepared.launch()
        results.append(prepared.accelerations.copy())
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_the_stages_are_those_of_a_step(prepared_of, toolkit):
    bodies = plummer(40, 1, 0.05)
    opened, prepared = prepared_of(toolkit, bodies, buffers="per_step", streams=1)
    stepper = Stepper(open_toolkit(CPU, VARIANT, "float32"), prepared, bodies, "leapfrog", 1e-3)
    prepared.launch()
    assert stepper.objection() is None
    found = stage_seconds(opened.synchronize, stepper.stages)
    assert list(found) == [
        "bounding box", "sort", "reorder", "build", "compact", "allocate", "upload", "traverse", "download", "free",
        "integrate",
    ]  # fmt: skip
    assert all(seconds >= 0 for seconds in found.values())


@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_what_is_counted(prepared_of, toolkit):
    bodies = plummer(70, 1, 0.05)
    _, exact = prepared_of(toolkit, bodies, theta=0)
    exact.launch()
    counted = exact.insight()
    # A tree that opens every cell meets every body once.
    assert counted["computed"] == {"body_body": 70.0, "body_cell": 0.0}
    assert counted["walk_overlap"] == 1.0
    _, wide = prepared_of(toolkit, bodies, theta=1.0, leaf_size=1, walk="thread", node="full")
    wide.launch()
    counted = wide.insight()
    assert counted["computed"]["body_body"] < 70
    assert counted["computed"]["body_cell"] > 1
    assert 1 / 32 < counted["walk_overlap"] < 1
    assert counted["stages_bytes"]["download"] == 70 * 16
