"""Trees and multipoles are as accurate on bodies that are hard for them as anywhere: on the host, thread by thread."""

from types import SimpleNamespace

import numpy as np
import pytest

from emulator import COMPILER, Emulator, Noting
from gravbench.model.generated_bodies import GENERATORS, generate
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.verifying import comparing
from gravbench.verifying.direct_sums import direct_sums

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
HARD = [*GENERATORS][4:]
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
@pytest.mark.parametrize(
    ("n", "eps"),
    [
        (1, 0.05),
        (2, 0.05),
        pytest.param(31, 0.05, marks=pytest.mark.slow),
        pytest.param(129, 0.05, marks=pytest.mark.slow),
        (129, 1e-3),
    ],
)
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


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_bodies_at_one_place_meet_no_more_than_others(accelerations, variant):
    """They are divided among leaves of the usual size, which act as wholes: much smaller than eps."""
    met = []
    for spec in ("plummer", "coincident share=0.8"):
        prepared, _ = accelerations(variant, generate(spec, 1000, 3, 0.025), leaf_size=8)
        computed = prepared.insight()["computed"]
        met.append(computed["body_body"] + computed["body_cell"])
    assert met[1] < 1.2 * met[0]


WALK = """
#include "warp.cuh"
#include "tree_depth.cuh"
#include "tree_stack.cuh"

// Visit each node below node 0; visits and longest are real numbers, as all arrays of these kernels are.
extern "C" __global__ void visit(const real* first, const real* children, real* visits, real* longest) {
    __shared__ NodeStack stack;
    int top = stack.begin(0), most = top;
    while (top > 0) {
        const int node = stack.pop(top);
        if (node >= 0) visits[node] += 1;
        const int count = node >= 0 ? static_cast<int>(children[node]) : 0;
        stack.push(top, count > 0, node >= 0 ? static_cast<int>(first[node]) : 0, -count);
        most = max(most, top);
        __syncwarp();
    }
    if (lane_of_thread() == 0) longest[0] = most;
}
"""


def bushy_spine(depth):
    """Return the first child and the number of children of each node, of which a step of four ranges takes 32.

    On every level 32 nodes have eight children each. Of these 256, the 32 that are pushed last have children again:
    those of the lanes 28 to 31, which hold nodes 4 to 7 of the lowest of the four ranges.
    """
    first, children, level = [0], [0], [0]
    for _ in range(depth):
        following = []
        for node in level:
            first[node], children[node] = len(first), 8
            following += range(len(first), len(first) + 8)
            first += [0] * 8
            children += [0] * 8
        level = following[32:64] if len(following) == 256 else following[-32:]
    return np.float32(first), np.float32(children)


def test_the_stack_of_a_walk_holds_what_the_deepest_tree_pushes(libraries, tmp_path):
    (tmp_path / "walk.cu").write_text(WALK)
    gpu = Emulator(SimpleNamespace(path=tmp_path / "walk.py"), "float32", libraries)
    bits, ranks = 21, 20
    first, children = bushy_spine(bits + ranks)
    visits, longest = np.zeros(len(first), np.float32), np.zeros(1, np.float32)
    gpu.compile("visit", BITS=bits, RANKS=ranks)(1, 32, first, children, visits, longest)
    np.testing.assert_array_equal(visits, 1)
    # Without the rule for long stacks there were 28 ranges more on every level.
    assert 100 < longest[0] <= 512
