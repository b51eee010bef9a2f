"""Noise alone buys no verdict: runs made up by models of what real machines do, compared with themselves.

Each model makes whole pairs of runs up: a case measured by some processes, and an anchor repeated five times.
"""

import math
import re

import numpy as np
import pytest

from conftest import ROOT
from gravbench.verdicts import compare
from gravbench.verdicts.compare import Run, Verdict
from test_compare import record

PAIRS = 100
"""Of each model, times ``--attacks``; with ``--attacks 20`` there are 2,000."""

MOST_FALSE = 0.01
DOCUMENT = (ROOT / "docs" / "explanation" / "comparing.md").read_text("utf-8")
pytestmark = pytest.mark.timeout(3600)
REPETITIONS = 5
CHANGED = (Verdict.SLOWER, Verdict.FASTER)


def independent(generator, shape, scatter):
    return generator.normal(0, scatter, shape)


def autoregressive(generator, shape, scatter, coefficient):
    """Make samples of which each keeps a part of the one before."""
    found = generator.normal(0, scatter, shape)
    for i in range(1, shape[-1]):
        found[..., i] = coefficient * found[..., i - 1] + math.sqrt(1 - coefficient**2) * found[..., i]
    return found


def switching(generator, shape, reach, chance):
    """Make samples that jump between two modes, ``reach`` above and below, with a chance at each sample."""
    first = generator.integers(0, 2, (*shape[:-1], 1))
    jumps = np.cumsum(generator.random(shape) < chance, axis=-1)
    return reach * (2 * ((first + jumps) % 2) - 1) + generator.normal(0, 0.005, shape)


def interrupted(generator, shape, scatter):
    return generator.normal(0, scatter, shape) + scatter * generator.exponential(1, shape)


def drifting(generator, shape, reach):
    """Make each process slower or faster as it goes on."""
    slope = generator.normal(0, reach, (*shape[:-1], 1))
    return slope * np.linspace(-1, 1, shape[-1]) + generator.normal(0, 0.005, shape)


# Samples of one process; scatter between processes of the case, and of the anchor; processes, samples of each.
MODELS = {
    "independent, 0.2 %": (independent, {"scatter": 0.002}, 0.001, 0.001, 4, 10),
    "independent, 5 %": (independent, {"scatter": 0.05}, 0.0, 0.0, 4, 30),
    "a tail of interruptions, 3 %": (interrupted, {"scatter": 0.03}, 0.002, 0.002, 4, 30),
    "AR(1), 0.9, 10 %": (autoregressive, {"scatter": 0.1, "coefficient": 0.9}, 0.0, 0.0, 4, 13),
    "AR(1), 0.9, 10 %, long": (autoregressive, {"scatter": 0.1, "coefficient": 0.9}, 0.0, 0.0, 4, 75),
    "AR(1), 0.9, 10 %, quiet anchor": (autoregressive, {"scatter": 0.1, "coefficient": 0.9}, 0.0, None, 4, 13),
    "AR(1), 0.9, 10 %, one process": (autoregressive, {"scatter": 0.1, "coefficient": 0.9}, 0.0, 0.0, 1, 50),
    "modes of ± 5 %, often": (switching, {"reach": 0.05, "chance": 0.1}, 0.0, 0.0, 4, 13),
    "modes of ± 5 %, seldom": (switching, {"reach": 0.05, "chance": 0.02}, 0.0, 0.0, 4, 13),
    "modes of ± 10 %, often": (switching, {"reach": 0.1, "chance": 0.1}, 0.0, 0.0, 4, 13),
    "modes of ± 10 %, one process": (switching, {"reach": 0.1, "chance": 0.05}, 0.0, 0.0, 1, 50),
    "modes of ± 5 %, quiet anchor": (switching, {"reach": 0.05, "chance": 0.1}, 0.0, None, 4, 13),
    "modes of ± 5 %, one to a process": (switching, {"reach": 0.05, "chance": 0.0}, 0.0, 0.0, 4, 13),
    "processes differ by 2 %": (independent, {"scatter": 0.002}, 0.02, 0.02, 4, 10),
    "processes differ by 2 %, one a case": (independent, {"scatter": 0.002}, 0.02, 0.02, 1, 10),
    "processes differ by 2 %, quiet anchor": (independent, {"scatter": 0.002}, 0.02, None, 4, 10),
    "processes differ by 5 %, no anchor": (independent, {"scatter": 0.002}, 0.05, False, 4, 10),
    "processes differ by 2 %, no evidence": (independent, {"scatter": 0.002}, 0.02, False, 1, 10),
    "each process drifts by 5 %": (drifting, {"reach": 0.05}, 0.0, 0.0, 4, 13),
}

TEMPLATE = record(1.0, toolkit="cpu", variant="numpy_direct", axes={}, device="Imaginary CPU")
ANCHOR = TEMPLATE.model_copy(update={"n": 64})


def made(template, logs, first, anchor):
    """Make a record of samples up, each row those of one process."""
    samples = np.exp(logs)
    return template.model_copy(
        update={
            "samples_seconds": samples.ravel().tolist(),
            "median_seconds": float(np.exp(np.log(np.median(samples, axis=-1)).mean())),
            "processes": np.repeat(np.arange(first, first + len(samples)), samples.shape[1]).tolist(),
            "anchor": anchor,
        }
    )


def verdicts_of(model, pairs, change=1.0):
    """Compare as many pairs of runs; NEW takes ``change`` times as long."""
    draw, options, of_case, of_anchor, processes, samples = model
    generator = np.random.default_rng(17)
    shape = (pairs, 2, 1 + REPETITIONS, processes, samples)
    logs = draw(generator, shape, **options)
    if of_anchor is None:  # quieter than the case
        logs[:, :, 1:] = generator.normal(0, 0.002, logs[:, :, 1:].shape)
    logs[:, :, 0] += generator.normal(0, of_case, (pairs, 2, processes, 1))
    logs[:, :, 1:] += generator.normal(0, of_anchor or 0.0, (pairs, 2, REPETITIONS, processes, 1))
    logs[:, 1] += math.log(change)
    counts = dict.fromkeys(Verdict, 0)
    for pair in logs:
        anchors = [
            [made(ANCHOR, one, 1 + place * processes, place) for place, one in enumerate(own[1:], 1)] for own in pair
        ]
        cases = [made(TEMPLATE, own[0], 1, 0) for own in pair]
        runs = [
            Run("run", [case, *([] if of_anchor is False else own)]) for case, own in zip(cases, anchors, strict=True)
        ]
        (judged,) = [found for found in compare.compare_runs(*runs).pairs if not found.base.anchor]
        counts[judged.verdict] += 1
    return counts


def table(found):
    rows = [f"| {name} | {' | '.join(str(counts[verdict]) for verdict in Verdict)} |" for name, counts in found.items()]
    return "\n".join([f"| noise | {' | '.join(Verdict)} |", "| --- | ---: | ---: | ---: | ---: |", *rows])


@pytest.fixture(scope="module")
def judged(attacks):
    """The verdicts on every model."""
    return {name: verdicts_of(model, PAIRS * attacks) for name, model in MODELS.items()}


def test_no_model_of_noise_buys_more_than_one_false_verdict_in_a_hundred(judged, attacks):
    if PAIRS * attacks == 2000:
        written = re.search(r"<!-- noise: .*? -->\n(.*?)\n<!-- end of noise -->", DOCUMENT, re.DOTALL)[1]
        assert written == table(judged)
    false = {name: sum(counts[verdict] for verdict in CHANGED) for name, counts in judged.items()}
    assert max(false.values()) <= MOST_FALSE * PAIRS * attacks, table(judged)


def test_without_evidence_of_what_processes_differ_by_nothing_is_said(judged):
    counts = judged["processes differ by 2 %, no evidence"]
    assert counts[Verdict.UNCLEAR] == sum(counts.values())


@pytest.mark.parametrize(("change", "verdict"), [(1.03, Verdict.SLOWER), (1 / 1.03, Verdict.FASTER)])
def test_a_change_of_three_per_cent_is_always_found_where_noise_is_small(attacks, change, verdict):
    counts = verdicts_of(MODELS["independent, 0.2 %"], PAIRS * attacks, change)
    assert counts[verdict] == PAIRS * attacks, counts
