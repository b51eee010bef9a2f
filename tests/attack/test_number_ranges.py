"""Random bodies: what computes nothing is never right, and what computes the formula is right or refused."""

from dataclasses import replace

import numpy as np
import pytest

from gravbench.config.load import load
from gravbench.measuring import stages
from gravbench.measuring.stages import Job, Station
from gravbench.model.bodies import SMALLEST_EPS, Bodies
from gravbench.model.variant import discover

LARGEST = {"float32": 40, "float64": 280}
"""Decades up to which numbers are drawn, some of them outside of the number type."""


def drawn(random, decades):
    """Draw up to 30 bodies whose lengths, masses and softening are anything; some far from all others."""
    n = int(random.integers(2, 30))
    ten = lambda low, high: 10.0 ** random.uniform(low, high)  # noqa: E731
    # Most of what can be computed with is near 1.
    decades *= random.choice([0.1, 0.3, 1.0])
    position = random.standard_normal((n, 3)) * ten(-decades, decades)
    if random.random() < 0.3:
        position[random.integers(n)] *= ten(0, min(decades, 20))
    if random.random() < 0.2:
        position[:, 2] = 0
    if random.random() < 0.1:
        position[:] = position[0]
    mass = random.random(n) * ten(-decades, decades)
    mass[random.random(n) < random.choice([0.0, 0.5])] = 0
    eps = max(SMALLEST_EPS, ten(-decades, decades))
    return Bodies(mass, position, random.standard_normal((n, 3)), eps)


@pytest.mark.parametrize("dtype", LARGEST)
def test_zeros_are_never_right_and_refusals_have_a_sentence(dtype, attacks, monkeypatch):
    one = discover(())["numpy_direct"]

    def nothing(toolkit, bodies):
        prepared = one.prepare(toolkit, bodies)
        return replace(prepared, launch=lambda: prepared.accelerations.fill(0))

    (case,) = load("quick", ["n=40", f"dtype={dtype}"], variants=["numpy_direct"]).cases
    random = np.random.default_rng(1)
    statuses = set()
    for number in range(60 * attacks):
        bodies = drawn(random, LARGEST[dtype])
        monkeypatch.setattr(stages.initial_conditions, "of_case", lambda _, bodies=bodies: bodies)
        job = Job(0, case.model_copy(update={"n": bodies.n, "eps": bodies.eps}), None)
        for prepare in (one.prepare, nothing):
            changed = replace(one, prepare=prepare)
            monkeypatch.setattr(stages, "discover", lambda _, changed=changed: {"numpy_direct": changed})
            with np.errstate(all="ignore"):
                outcome = stages.run(job, Station(), lambda _: None)
            said = (number, outcome.status, outcome.reason)
            assert outcome.status != "skipped", said
            assert (outcome.reason is None) == (outcome.status == "ok"), said
            assert outcome.reason is None or outcome.reason.isprintable(), said
            if prepare is nothing:
                assert outcome.status != "ok", said
            else:
                statuses.add(outcome.status)
                refused = outcome.status == "failed" and "accepted in" in outcome.reason
                assert outcome.status == "ok" or refused or "are all zero" in outcome.reason, said
    assert statuses >= {"ok", "failed"}
