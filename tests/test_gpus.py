"""Several GPUs of one host: how work is dealt out, in which order it runs, and what a sweep makes of a case of them."""

from itertools import pairwise

import numpy as np
import pytest

from direct import direct_accelerations
from emulator import COMPILER
from gravbench.measuring import comparing
from gravbench.model import generators
from gravbench.model.variant import discover
from gravbench.variants.common import several
from pretended import Gpu

EPS = 0.05
SIZES = (1, 2, 31, 127, 128, 129, 1000)
COUNTS = range(1, 9)
VARIANTS = {name: discover()[name] for name in ("symmetric_gpus", "tiled_gpus")}


@pytest.mark.parametrize("n", [*SIZES, 65_536])
def test_rows_are_dealt_out_once_and_evenly_and_the_first_has_some(n):
    for count in COUNTS:
        found = several.spans(several.edges(n, count))
        assert [row for first, last in found for row in range(first, last)] == list(range(n))
        lengths = [last - first for first, last in found]
        assert max(lengths) - min(lengths) <= 1
        assert found[0][0] == 0
        assert len(found) == min(n, count)


def meetings(n, r, first, last):
    """Count for each ordered pair of bodies how often kernel ``symmetric`` adds the second's pull on the first.

    A block meets groups first .. last - 1 of its ring; its own groups it computes in one direction.
    """
    blocks = -(-n // (32 * r))
    met = np.zeros((n, n), int)
    body = np.arange(n)
    for block in range(blocks):
        length = r * (1 + (blocks - 1) // 2 + (blocks % 2 == 0 and block < blocks / 2))
        for ahead in range(first, min(length, last)):
            group = (block * r + ahead) % (blocks * r)
            own, partners = body[body // (32 * r) == block], body[body // 32 == group]
            met[np.ix_(own, partners)] += 1
            if ahead >= r:
                met[np.ix_(partners, own)] += 1
    return met


@pytest.mark.parametrize("r", [1, 4])
@pytest.mark.parametrize("n", SIZES)
def test_every_pair_is_met_once_by_one_gpu(n, r):
    for count in COUNTS if n < 1000 else (3, 8):
        found = several.spans(several.ring_edges(-(-n // (32 * r)), r, count))
        assert found[0][0] == 0
        assert (sum(meetings(n, r, *span) for span in found) == 1).all()


@pytest.mark.parametrize("r", [1, 4, 8])
@pytest.mark.parametrize("blocks", [1, 2, 3, 64, 255, 256, 4096])
def test_the_pairs_of_gpus_differ_by_less_than_two_groups_of_each_block(blocks, r):
    half = blocks // 2 if blocks % 2 == 0 else 0
    shorter = r * (1 + (blocks - 1) // 2)

    def groups(first, last):
        longer = min(shorter + r, last) - min(shorter + r, first)
        return (blocks - half) * (min(shorter, last) - min(shorter, first)) + half * longer

    for count in COUNTS:
        found = [groups(*span) for span in pairwise(several.ring_edges(blocks, r, count))]
        assert sum(found) == blocks * shorter + half * r
        assert max(found) - min(found) < 2 * blocks


def orders():
    """Ways to choose whose turn it is: the first GPU always, never while another can go on, and at random."""
    generator = np.random.default_rng(5)
    return [min, max, lambda able: able[generator.integers(len(able))]]


RUNS = [
    ("symmetric_gpus", "float32", 2, {"p": 64, "r": 1}),
    ("symmetric_gpus", "float32", 3, {"p": 32, "r": 2, "copies": 2, "parts": 2}),
    ("symmetric_gpus", "float64", 8, {"p": 32, "r": 1, "equal_mass": 1}),
    ("tiled_gpus", "float32", 2, {"p": 32, "unroll": 8}),
    ("tiled_gpus", "float64", 8, {"p": 16, "unroll": 8}),
]


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("linked", [True, False], ids=["linked", "apart"])
@pytest.mark.parametrize(("name", "dtype", "count", "axes"), RUNS, ids=[f"{run[0]}-{run[2]}" for run in RUNS])
def test_evaluations_in_a_row_are_right_in_whatever_order_the_streams_run(libraries, name, dtype, count, axes, linked):
    variant = VARIANTS[name]
    sizes = (1, 33, 161) if linked else (129,)
    for n in sizes:
        first, then = (generators.collision(max(n, 2), seed, EPS) for seed in (3, 4))
        first, then = (one if n > 1 else generators.plummer(1, 3, EPS) for one in (first, then))
        for order in orders():
            gpu = Gpu(variant, dtype, libraries, linked=linked)
            prepared = variant.prepare(gpu, first, **variant.complete({"gpus": count, **axes}))
            rows = gpu.interaction.rows(then.position, then.velocity, then.mass)
            found = []

            def noted(found=found, prepared=prepared):
                found.append(prepared.accelerations[:, :3].copy())

            prepared.launch()
            gpu.host.queue(noted)
            gpu.host.queue(lambda prepared=prepared, rows=rows: np.copyto(prepared.bodies, rows))
            prepared.launch()
            gpu.host.queue(noted)
            prepared.launch()
            gpu.host.queue(noted)
            gpu.host.run(order)
            for bodies, accelerations in zip((first, then, then), found, strict=True):
                expected = direct_accelerations(bodies, np.arange(bodies.n), dtype)
                errors = comparing.compare(accelerations, expected)
                assert comparing.objection_to(errors, variant.accepted(dtype, {})) is None, (n, count)
