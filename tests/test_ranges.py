"""What over- or underflows in a case's number type is refused, and nothing is judged against zeros."""

from dataclasses import replace

import numpy as np
import pytest

from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import stages
from gravbench.measuring.outcome import Outcome, Results
from gravbench.measuring.plan import plan
from gravbench.measuring.runner import _record
from gravbench.measuring.stages import Job, Station
from gravbench.model.bodies import RANGES, unfit, unfit_eps
from gravbench.model.device import Device
from gravbench.model.generated_bodies import GENERATORS
from gravbench.model.generators import plummer
from gravbench.model.record import Measurement
from gravbench.model.variant import CPU, discover

SOME = plummer(20, 1, 0.025)


def outcome_of(monkeypatch, bodies, dtype="float32", zeros=False, settings=None):
    """Work on bodies with numpy_direct or, with ``zeros``, with what leaves zeros and computes nothing."""
    one = discover(())["numpy_direct"]

    def prepare(toolkit, own):
        prepared = one.prepare(toolkit, own)
        return replace(prepared, launch=lambda: prepared.accelerations.fill(0))

    if zeros:
        monkeypatch.setattr(stages, "discover", lambda _: {"numpy_direct": replace(one, prepare=prepare)})
    monkeypatch.setattr(stages.initial_conditions, "of_case", lambda _: bodies)
    (case,) = load("quick", [f"n={bodies.n}"], variants=["numpy_direct"]).cases
    case = case.model_copy(update={"dtype": dtype, "eps": bodies.eps})
    return stages.run(Job(0, case, settings), Station(), lambda _: None)


def written(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(f"n: 10\nvariants: numpy_direct\n{text}\n")
    return str(path)


def test_a_softening_length_that_a_number_type_cannot_compute_with_is_refused_at_planning(tmp_path):
    with pytest.raises(InputError, match=r"sweep\.yaml.*eps is 1e\+30; accepted in float32: up to 1e\+12, because eps"):
        load(written(tmp_path, "eps: [0.025, 1e30]\ndtype: [float32, float64]"))
    with pytest.raises(InputError, match=r"eps is 1e\+120; accepted in float64: up to 1e\+100"):
        load(written(tmp_path, "dtype: float64"), ["eps=1e120"])
    assert len(load(written(tmp_path, "eps: 1e30\ndtype: float64")).cases) == 1
    some = tmp_path / "some.yaml"
    some.write_text(
        "n: 10\neps: [0.025, 1e30]\ndtype: [float32, float64]\n"
        "variants: {variant: numpy_direct, when: eps < 1 or dtype == 'float64'}\n"
    )
    assert len(load(str(some)).cases) == 3


@pytest.mark.parametrize("dtype", RANGES)
def test_the_largest_softening_length_has_a_cube_that_does_not_underflow(dtype):
    real = np.dtype(dtype).type
    eps = real(RANGES[dtype].length)
    with np.errstate(all="raise"):
        assert real(1) / np.sqrt(eps * eps) ** 3 >= np.finfo(dtype).tiny
        # Bodies at the ends of two opposite corners.
        r2 = 13 * eps * eps
        assert real(1) / np.sqrt(r2) ** 3 >= np.finfo(dtype).tiny / 2
    assert unfit_eps(float(eps), dtype) is None


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_what_gravbench_makes_fits_every_number_type(name, dtype, n):
    for eps in (1e-9, 0.025, 1.0, 1000.0):
        assert unfit(GENERATORS[name](n, 1, eps), dtype) is None


MISFITS = {
    "far": (replace(SOME, position=SOME.position * 1e20), "position of body"),
    "infinitely far": (replace(SOME, position=SOME.position * 1e300), "position of body"),
    "fast": (replace(SOME, velocity=SOME.velocity * 1e30), "velocity of body"),
    "soft": (replace(SOME, eps=1e30), r"eps is 1e+30; accepted in float32: up to 1e+12"),
    "heavy": (replace(SOME, mass=SOME.mass * 1e60), "the masses add up to 1e+60; accepted in float32 with eps = 0.025"),
    "heavy when near": (replace(SOME, mass=SOME.mass * 1e20, eps=1e-9), "the masses add up to 1e+20"),
    "light": (replace(SOME, mass=SOME.mass * 1e-40), "the pull of a mean mass over the length of all bodies"),
    "light when far": (
        replace(SOME, mass=SOME.mass * 1e-3, position=SOME.position * 1e11, eps=1e9),
        "accepted in float32: 1e-37 or more",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("zeros", [False, True])
def test_bodies_that_a_number_type_cannot_compute_with_fail_in_one_sentence(name, zeros, monkeypatch):
    bodies, reason = MISFITS[name]
    outcome = outcome_of(monkeypatch, bodies, zeros=zeros)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("plummer: ")
    assert reason in outcome.reason
    assert outcome.reason.isprintable()


@pytest.mark.parametrize(
    "bodies",
    [
        replace(SOME, position=np.ones((20, 3))),
        replace(SOME, mass=np.zeros(20)),
        replace(SOME, position=SOME.position * 1e-60),
    ],
    ids=["in one place", "without mass", "all but in one place"],
)
@pytest.mark.parametrize("zeros", [False, True])
def test_accelerations_that_are_all_zero_judge_nothing(bodies, zeros, monkeypatch):
    outcome = outcome_of(monkeypatch, bodies, zeros=zeros)
    assert outcome.status == "invalid"
    assert outcome.reason.startswith("the expected accelerations of these bodies are all zero in float32")


def test_a_body_alone_and_bodies_of_which_some_are_in_one_place_are_judged(monkeypatch):
    some = replace(SOME, position=np.concatenate([np.zeros((10, 3)), SOME.position[10:]]))
    for bodies in (plummer(1, 1, 0.025), plummer(2, 1, 0.025), some):
        outcome = outcome_of(monkeypatch, bodies)
        assert (outcome.status, outcome.reason) == ("ok", None)


def test_what_no_record_can_hold_is_a_failed_record():
    (task,) = plan(load("quick", ["n=40"], variants=["numpy_direct"]), [Device(CPU, "a processor")], None).tasks
    found = Results(measurement=Measurement().model_copy(update={"median_seconds": "soon"}))
    record = _record(task, Outcome("ok", None, found), 20.0, "2026-01-01T00:00:00+00:00")
    assert record.status == "failed"
    assert record.reason.startswith("its results do not make a valid record: ")
    assert record.reason.isprintable()
