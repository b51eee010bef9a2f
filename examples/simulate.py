"""Run a GPU kernel without a GPU: Numba's simulator executes it on the CPU, thread by thread.

``python examples/simulate.py tiled`` runs the Numba version of a variant for a few bodies, and compares its
accelerations with direct sums in float64. The simulator is thousands of times slower than a GPU: it shows what a kernel
computes, not how fast.
"""

import os
import sys
import time
from importlib.util import find_spec

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # has to be set before Numba is imported

import numpy as np

from gravbench.errors import InputError
from gravbench.model.generators import plummer
from gravbench.model.variant import discover
from gravbench.toolkits.opening import open_toolkit

SMALL = {"p": 32, "q": 2, "unroll": 4, "r": 2}
"""Axis values that make few threads: each of them is a thread of the CPU here."""


def simulate(name, n=100):
    """Run one evaluation of a variant; return its accelerations and the largest relative error."""
    variant = discover().get(name)
    if variant is None or "numba" not in variant.toolkits:
        known = ", ".join(name for name, one in discover().items() if "numba" in one.toolkits)
        problem = "no such variant" if variant is None else "it has no Numba kernel"
        raise InputError(f"{name}: {problem}; accepted: {known}")
    if find_spec("numba_cuda") is None:  # Numba's own simulator has another cuda.shared.array
        raise InputError("the simulator is part of numba-cuda; install it with: pip install numba-cuda")
    bodies = plummer(n, 1, 0.025)
    gpu = open_toolkit("numba", variant, "float32")
    axes = variant.complete({axis: value for axis, value in SMALL.items() if axis in variant.axes})
    prepared = variant.prepare(gpu, bodies, **axes)
    prepared.launch()
    found = prepared.accelerations
    columns = [gpu.download(one) for one in found] if isinstance(found, tuple) else gpu.download(found).T[:3]
    accelerations = np.stack(columns[:3], axis=1)
    difference = bodies.position - bodies.position[:, None]
    weight = bodies.mass / ((difference**2).sum(axis=2) + bodies.eps**2) ** 1.5
    expected = (weight[:, :, None] * difference).sum(axis=1)
    error = np.linalg.norm(accelerations - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return accelerations, error.max()


def main(names):
    """Simulate some variants, one after the other."""
    for name in names or ["naive"]:
        began = time.perf_counter()
        accelerations, error = simulate(name)
        seconds = time.perf_counter() - began
        sys.stdout.write(f"{name}: {len(accelerations)} bodies in {seconds:.1f} s, largest error {error:.1e}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
