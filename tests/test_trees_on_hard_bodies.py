"""Trees and multipoles are as accurate on bodies that are hard for them as anywhere: on the host, thread by thread."""

import numpy as np
import pytest

from emulator import COMPILER, Noting
from gravbench.model.generated_bodies import GENERATORS, generate
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.verifying import comparing
from gravbench.verifying.direct_sums import direct_sums

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
HARD = [*GENERATORS][3:]
VARIANTS = ["resident_tree", "fast_multipole"]
# The other bodies are hard however few they are.
SMALL = {"coincident": "coincident share=0.5", "clumps": "clumps count=3"}


@pytest.fixture(scope="module")
def accelerations(libraries):
    """Return a function that launches a variant twice, and returns what was prepared and the last accelerations."""

    def launch(name, bodies, **axes):
        variant = discover()[name]
        prepared = variant.prepare(Noting(variant, "float32", libraries), bodies, **variant.complete(axes))
        for _ in range(2):
            prepared.accelerations[:] = np.nan
            prepared.launch()
        return prepared, prepared.accelerations[:, :3].copy()

    return launch


def errors_of(bodies, found):
    sums = direct_sums(find(GRAVITY), bodies, np.arange(bodies.n), "float32")
    return comparing.compare(found, sums.exact, magnitudes=sums.magnitudes)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize(("n", "eps"), [(1, 0.05), (2, 0.05), (31, 0.05), (129, 0.05), (129, 1e-3)])
def test_where_every_cell_is_opened_they_are_the_direct_sum(accelerations, variant, name, n, eps):
    bodies = generate(SMALL.get(name, name), n, 3, eps)
    _, found = accelerations(variant, bodies, theta=0)
    assert comparing.objection_to(errors_of(bodies, found), DIRECT_SUM["float32"]) is None


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", HARD)
def test_by_default_they_are_within_their_tolerance(accelerations, variant, name):
    bodies = generate(SMALL.get(name, name), 400, 3, 0.025)
    prepared, found = accelerations(variant, bodies, leaf_size=8)
    accepted = discover()[variant].accepted("float32", discover()[variant].complete({}))
    assert comparing.objection_to(errors_of(bodies, found), accepted) is None
    computed = prepared.insight()["computed"]
    assert sum(computed.values()) > 0
    assert computed["body_body"] <= bodies.n


@pytest.mark.parametrize("variant", VARIANTS)
def test_bodies_at_one_place_meet_no_more_than_others(accelerations, variant):
    """They are divided among leaves of the usual size, which act as wholes: much smaller than eps."""
    met = []
    for spec in ("plummer", "coincident share=0.8"):
        prepared, _ = accelerations(variant, generate(spec, 1000, 3, 0.025), leaf_size=8)
        computed = prepared.insight()["computed"]
        met.append(computed["body_body"] + computed["body_cell"])
    assert met[1] < 1.2 * met[0]


class ShortStack(Noting):
    """Its walks hold as few ranges of nodes as they can: every step takes one where the stack has more than one."""

    replaced = (
        ("most_ranges = 512", "most_ranges = 1 + 32 + 8 * levels"),
        ("many_ranges >= 64", "many_ranges == 1"),
        # A walk that holds more ends at once, and has left bodies out.
        ("top += __popc(all);", "top += __popc(all);\n        if (top > most_ranges) top = -most_ranges;"),
    )

    def source(self):
        """Return the code with a short stack."""
        text = super().source()
        for before, after in self.replaced:
            assert text.count(before) <= 1
            text = text.replace(before, after)
        return text


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["cusp", "line", "filament"])
def test_a_walk_that_holds_many_nodes_takes_one_range_in_a_step_and_meets_the_same(libraries, variant, name):
    bodies = generate(name, 400, 3, 0.025)
    found = {}
    for emulator in (Noting, ShortStack):
        gpu = emulator(discover()[variant], "float32", libraries)
        prepared = discover()[variant].prepare(gpu, bodies, **discover()[variant].complete({"leaf_size": 8}))
        prepared.launch()
        found[emulator] = prepared.insight()["computed"], prepared.accelerations[:, :3].copy()
    (usual, before), (short, after) = found.values()
    assert short == usual
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-6 * np.abs(before).max())
