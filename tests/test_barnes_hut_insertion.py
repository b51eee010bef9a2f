"""The tree by insertion: its cells are a textbook's, whatever the order, and its walk is the sum over them."""

import numpy as np
import pytest

from direct import direct_accelerations
from gravbench.measuring.protocol import stage_seconds
from gravbench.model import generators
from gravbench.model.bodies import Bodies, flattened
from gravbench.model.variant import discover
from gravbench.toolkits.opening import open_toolkit
from gravbench.variants.barnes_hut import insertion
from gravbench.verifying import comparing as reference
from test_barnes_hut_classic import insert_all

VARIANT = discover()["barnes_hut_insertion"]


def prepared(bodies, dtype="float32", **axes):
    opened = open_toolkit("cpu", VARIANT, dtype)
    own = VARIANT.prepare(opened, bodies, **VARIANT.complete(axes))
    own.launch()
    return own


def grown(bodies, *, dim, sort="none", theta=1.0):
    rows = np.column_stack([bodies.position, bodies.mass])
    own = insertion.Inserted(bodies.n, np.float64, dim=dim, bits=10, theta=theta, sort=sort, workers=1)
    own.build(rows)
    return own


def bodies_in(own, place):
    """Return the bodies in a place and in the cells below it, by their numbers in the input."""
    if place == insertion.EMPTY:
        return []
    if place >= 0:
        return [body for part in own.parts[place] for body in bodies_in(own, part)]
    chain, body = [], insertion.FIRST_BODY - place
    while body >= 0:
        chain.append(int(own.order[body]))
        body = own.following[body]
    return chain


def test_the_cells_are_those_of_a_textbook_in_the_order_in_which_they_are_made():
    bodies = flattened(generators.plummer(200, 5, 0.05))
    own = grown(bodies, dim=2)
    textbook = [cell for cell in insert_all(bodies.position[:, :2], own.low[:2], own.width) if len(cell.bodies) > 1]
    assert own.count == len(textbook) > 80
    found = [(width, frozenset(bodies_in(own, cell))) for cell, width in enumerate(own._widths[: own.count])]
    assert set(found) == {(cell.width, frozenset(cell.bodies)) for cell in textbook}
    assert found[0][1] == frozenset(range(200))


@pytest.mark.parametrize("sort", insertion.SORTS)
@pytest.mark.parametrize("dim", [2, 3])
def test_every_order_makes_the_same_cells_with_their_centres_of_mass(dim, sort):
    bodies = generators.collision(300, 5, 0.05)
    bodies = flattened(bodies) if dim == 2 else bodies
    own, plain = grown(bodies, dim=dim, sort=sort, theta=0.5), grown(bodies, dim=dim, theta=0.5)
    assert own.count == plain.count
    for cell in range(own.count):
        inside = sorted(bodies_in(own, cell))
        centre = np.average(bodies.position[inside], axis=0, weights=bodies.mass[inside])
        assert own.cells[cell, :3] == pytest.approx(centre, abs=1e-12)
        assert own.cells[cell, 3] == pytest.approx(bodies.mass[inside].sum())
        assert own.cells[cell, 4] == pytest.approx((2 * own._widths[cell]) ** 2)
    assert np.sort(own.cells[: own.count, 3]) == pytest.approx(np.sort(plain.cells[: own.count, 3]))


@pytest.mark.parametrize("sort", insertion.SORTS[1:])
def test_sorted_bodies_walk_in_the_order_of_their_codes(sort):
    own = grown(generators.plummer(500, 5, 0.05), dim=3, sort=sort)
    assert (np.diff(own._keys[own._keys.argsort(kind="stable")].astype(np.int64)) >= 0).all()
    assert (np.diff(own._keys.astype(np.int64)) >= 0).all()
    assert sorted(own.order.tolist()) == list(range(500))


@pytest.mark.slow
@pytest.mark.parametrize("axes", [{"dim": 2}, {"dim": 3, "sort": "radix"}, {"dim": 3, "cores": "one"}], ids=str)
def test_with_theta_0_it_is_the_direct_sum(axes):
    bodies = generators.plummer(150, 5, 0.05)
    bodies = flattened(bodies) if axes["dim"] == 2 else bodies
    bodies = Bodies(bodies.mass * np.linspace(0, 2, 150), bodies.position, bodies.velocity, 0.05)
    own = prepared(bodies, theta=0, **axes)
    errors = reference.compare(own.accelerations, direct_accelerations(bodies, np.arange(150), "float32"))
    assert reference.objection_to(errors, VARIANT.accepted("float32", {"theta": 0})) is None
    assert own.insight() == {"computed": {"body_body": 150.0, "body_cell": 0.0}}


def test_bodies_at_one_place_share_the_place_of_one():
    position = np.zeros((9, 3))
    position[5:] = [1.0, 2.0, 3.0]
    position[8] = [1.0, 2.0, 3.0 + 1e-15]
    bodies = Bodies(np.ones(9), position, np.zeros((9, 3)), 0.05)
    own = grown(bodies, dim=3)
    assert sorted(bodies_in(own, 0)) == list(range(9))
    assert own.count <= 2 * insertion.LEVELS  # more than the room that was made for two cells per body
    assert own.count > 18
    alone = prepared(Bodies(np.ones(1), np.ones((1, 3)), np.zeros((1, 3)), 0.05))
    assert not alone.accelerations.any()
    for same in (position[:5], position[:2]):
        together = prepared(Bodies(np.ones(len(same)), same, np.zeros_like(same), 0.05), theta=1.0)
        assert not together.accelerations.any()


@pytest.mark.parametrize(("dim", "theta"), [(2, 0.5), (2, 1.0), (3, 0.7)])
def test_the_tolerance_holds_and_is_not_of_the_wrong_order(dim, theta):
    for make, seed in ((generators.plummer, 1), (generators.uniform, 2), (generators.collision, 3)):
        bodies = make(2000, seed, 0.025)
        bodies = flattened(bodies) if dim == 2 else bodies
        own = prepared(bodies, theta=theta, dim=dim)
        errors = reference.compare(own.accelerations, direct_accelerations(bodies, np.arange(bodies.n), "float32"))
        accepted = VARIANT.accepted("float32", {"theta": theta, "dim": dim})
        assert reference.objection_to(errors, accepted) is None
        assert errors.error_rms > accepted.rms / 300
        assert own.insight()["computed"]["body_cell"] > own.insight()["computed"]["body_body"]


@pytest.mark.parametrize("sort", insertion.SORTS)
def test_the_stages_tell_sorting_from_building(sort):
    own = prepared(generators.plummer(500, 5, 0.05), sort=sort)
    expected = ["bounding box", *["sort", "reorder"][: 2 * (sort != "none")], "build", "traverse"]
    assert list(stage_seconds(lambda: None, own.stages)) == expected
