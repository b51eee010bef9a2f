"""triton_tiles run by Triton's own interpreter, which needs no GPU."""

import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT
from direct import direct_accelerations
from gravbench.model import generators
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import DIRECT_SUM
from gravbench.verifying import comparing as reference

EPS = 0.05
# Triton 3.6 makes numbers of arrays of one element, which NumPy refuses from 2.4 on.
REFUSED = "only 0-dimensional arrays can be converted to Python scalars"


def interpreted(folder, bodies, p, tile):
    """Run the kernel in float32; returns accelerations, shape (n, 3)."""
    if missing := catalogue()["triton"].missing:
        pytest.skip(missing)
    path = folder / "bodies.npz"
    columns = dict(zip(("x", "y", "z"), bodies.position.T.astype(np.float32), strict=True))
    eps2 = np.array([EPS**2], np.float32)
    np.savez(path, **columns, mass=bodies.mass.astype(np.float32), eps2=eps2, p=p, tile=tile)
    command = [sys.executable, str(ROOT / "tests" / "triton_on_host.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if REFUSED in done.stderr:
        pytest.skip("this Triton's interpreter needs NumPy before 2.4")
    assert done.returncode == 0, done.stderr
    return np.load(path)["found"].T


@pytest.mark.parametrize("n", [1, 2, 31, 127, 128, 129, 300])
@pytest.mark.parametrize(("p", "tile"), [(32, 64), (128, 16)])
def test_it_agrees_with_the_float64_direct_sum_at_every_edge_of_a_tile(tmp_path, n, p, tile):
    bodies = generators.plummer(n, 3, EPS)
    errors = reference.compare(
        interpreted(tmp_path, bodies, p, tile), direct_accelerations(bodies, np.arange(n), "float32")
    )
    assert reference.objection_to(errors, DIRECT_SUM["float32"]) is None


def test_bodies_in_one_place_do_not_pull_each_other(tmp_path):
    bodies = generators.plummer(40, 3, EPS)
    bodies.position[:] = bodies.position[0]
    assert not interpreted(tmp_path, bodies, 16, 16).any()
