"""The judge outside: it contradicts a session whose judge a variant has replaced, and agrees with one that has not."""

import atexit
import io
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from tempfile import NamedTemporaryFile

import numpy as np
import psutil
import pytest

from conftest import GPUS
from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import outside_judge, runner, stages
from gravbench.measuring.engine import DISAGREE
from gravbench.measuring.outside_judge import Answer, OutsideJudge
from gravbench.measuring.plan import plan
from gravbench.measuring.processes import workplace
from gravbench.measuring.stages import Job, Station
from gravbench.model.device import Device
from gravbench.model.quantities import FORCE
from gravbench.model.runs import RecordFile
from gravbench.model.variant import CPU, discover
from gravbench.toolkits.devices import processor_name
from gravbench.verifying import outside
from gravbench.verifying.comparing import Limits
from gravbench.verifying.outside import OWN, Question, RowsAhead, for_few, handed_rows

VARIANTS = discover()
MEASURE = Measure(budget_seconds=0.02, warm_up_seconds=0.001, min_samples=3, sample_seconds=1e-6)
MISSING = "did not hand over"

WAYS = {
    "the_verdict": """
from gravbench.model.record import Errors
from gravbench.verifying.verify import Judge
Judge.verdict = lambda *_, **__: (Errors(error_max=1e-7, error_rms=1e-7, error_rows=N), None)
""",
    "module_attributes": """
from gravbench.verifying import verify
verify.objection_to = verify.scale_objection = lambda *_: None
verify.check = lambda *_: None
""",
    "numpy": """
import numpy as np
np.subtract = lambda one, other, **_: np.zeros(np.shape(other))
""",
    "the_limits": """
import math
from gravbench.verifying import verify
from gravbench.verifying.comparing import Limits
verify.limits_of = lambda *_, **__: Limits(math.inf, math.inf, math.inf)
verify.reference_of = lambda *arguments: (reference_of(*arguments)[0], Limits(math.inf, math.inf, math.inf))
from gravbench.verifying.comparing import reference_of
""",
    "the_stages": """
from gravbench.model.record import Errors
from gravbench.verifying.verify import Judge
Judge.verdict = lambda *_, **__: (Errors(error_max=1e-7, error_rms=1e-7, error_rows=N), None)
Judge.check_more = Judge.check_many = lambda *_: None
Judge.elsewhere = lambda *_, **__: None
""",
}
"""How a variant replaces the judge in its own process."""
TEXT = '''"""Is numpy_direct, times {factor}, and replaces what would say so."""

from dataclasses import replace

from gravbench.model.variant import variant
from gravbench.variants.cpu import numpy_direct
{imported}

@variant(parent="numpy_direct", source="planted by the tests")
def prepare(cpu, bodies):
    """Prepare what is wrong."""
    prepared = numpy_direct.prepare.prepare(cpu, bodies)
    exec({prepared!r}, {{}})

    def launch():
        prepared.launch()
        prepared.accelerations[:] *= cpu.real({factor})

    return replace(prepared, launch=launch)
'''
N = 300


def write_run(folder, **texts):
    """Write variants, and a configuration that measures them and numba_direct; return its path."""
    for name, parts in texts.items():
        parts = {"imported": "", "prepared": "", "factor": 1.01, **parts}
        (folder / f"{name}.py").write_text(TEXT.format(**parts).replace("=N)", f"={N})"))
    config = folder / "cheats.yaml"
    config.write_text(
        f"variant_folders: [{folder}]\nn: {N}\nvariants: [{', '.join(texts)}, numba_direct]\n"
        "measure: {budget_seconds: 0.02, warm_up_seconds: 0.01, min_samples: 3, processes: 1}\n"
    )
    return config


@cache
def every_variant():
    """Return the path of a sweep of all variants."""
    with NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write("bodies: plummer\nn: [1024, 4096]\nvariants: all\n")
    atexit.register(os.unlink, file.name)
    return file.name


@cache
def records_of_a_run(folder):
    """Return the records of one run of all cheats, and of what is right among them."""
    folder.mkdir()
    sweep = load(
        str(write_run(folder, **{name: {"prepared": way} for name, way in WAYS.items()}, honest={"factor": 1.0}))
    )
    todo = plan(sweep, [Device(CPU, processor_name())], None, anchors=False)
    return {record.variant: record for record in runner.run(sweep, todo, folder / "out", runner.SILENT)}


@pytest.mark.parametrize("name", [*WAYS, "honest", "numba_direct"])
def test_a_variant_that_replaces_the_judge_in_its_own_process_is_found_out(name, tmp_path_factory):
    record = records_of_a_run(tmp_path_factory.getbasetemp() / "cheats")[name]
    if name not in WAYS:
        assert (record.status, record.reason) == ("ok", None)
        return
    assert record.status == "invalid", record.reason
    assert record.reason.startswith(DISAGREE)
    assert (MISSING in record.reason) == (name == "the_stages")
    assert record.median_seconds, "it was measured, as its session found it right"


@pytest.mark.slow
def test_a_variant_that_replaces_the_judge_when_it_is_imported_is_found_out(tmp_path):
    """In all processes that import it: the sessions and the one that records."""
    config = write_run(tmp_path, when_imported={"imported": WAYS["the_verdict"]})
    command = [sys.executable, "-m", "gravbench", "run", config, "--out", tmp_path / "out"]
    subprocess.run(command, check=False, capture_output=True)
    records = {record.variant: record for record in RecordFile(tmp_path / "out").read()}
    assert records["when_imported"].reason.startswith(DISAGREE)
    assert records["numba_direct"].status == "ok"


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """A judge in a process of its own."""
    with workplace() as place:
        judge = OutsideJudge(place, tmp_path_factory.mktemp("judge") / "log")
        (place.folder / "log").touch()
        yield judge
        judge.close()


def asked(job, outcome, **changes):
    """Return what the engine asks about an outcome."""
    case = job.case
    tolerance = VARIANTS[case.variant].accepted(case.dtype, case.axes)
    drawings = job.drawings(outraced=outcome.results.measurement.outraced)
    return replace(Question(case, tolerance, job.seed, drawings, outcome.launches), **changes)


def objection(question):
    return outside.objection(question, RowsAhead())


def ended(steps):
    """Have steps end; return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def answered(judge, question):
    return ended(judge.answer(question))


def job_of(name, *words, settings=MEASURE, toolkit=CPU, **asked_for):
    sweep = load(every_variant(), words, variants=[name], toolkits=[toolkit])
    return Job(0, sweep.cases[0], settings, **asked_for)


def done(job):
    outcome = stages.run(job, Station(), lambda _: None)
    assert outcome.status == "ok", outcome.reason
    return outcome


@pytest.mark.parametrize(
    ("name", "toolkit"),
    [
        (name, toolkit)
        for name, variant in VARIANTS.items()
        for toolkit in variant.toolkits
        if toolkit in (CPU, "numba")
    ],
)
def test_it_agrees_about_every_variant_of_the_processor_and_of_the_pretended_device(name, toolkit):
    if toolkit == "numba" and GPUS:
        pytest.skip("there is a GPU, which no simulator stands for")
    small = [f"{axis}=32" for axis in ("p", "j_bag") if axis in VARIANTS[name].axes and toolkit == "numba"]
    job = job_of(name, "n=33", *small, settings=MEASURE if toolkit == CPU else None, toolkit=toolkit)
    outcome = done(job)
    assert [launch.drawing for launch in outcome.launches] == list(job.drawings(outraced=False))
    assert objection(asked(job, outcome)) is None


@pytest.mark.parametrize("settings", [None, MEASURE])
@pytest.mark.parametrize("how", [{}, {"again": True}, {"repeated": True}])
@pytest.mark.parametrize("words", [(), ("timed=call",), ("timed=step", "integrator=leapfrog", "dt=0.001")])
def test_it_sees_launches_before_and_after_the_samples_of_whatever_is_timed(words, how, settings):
    job = job_of("numba_direct", "n=200", *words, settings=settings, **how)
    outcome = done(job)
    assert objection(asked(job, outcome)) is None
    if job.case.timed == FORCE or not how.get("repeated"):  # of which more is handed over than has to be
        assert MISSING in objection(asked(job, outcome, launches=outcome.launches[:-1]))


def wrong_launches(launches, place, change):
    sums = np.frombuffer(launches[place].sums, np.float32).copy()
    change(sums)
    return (*launches[:place], replace(launches[place], sums=sums.tobytes()), *launches[place + 1 :])


def by_one_per_cent(sums):
    sums *= np.float32(1.01)


def one_nan(sums):
    sums[len(sums) // 2] = np.nan


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(("change", "words"), [(by_one_per_cent, "exceeds the tolerance"), (one_nan, "NaN")])
@pytest.mark.parametrize("most", [outside.MOST_ROWS, 256])
def test_each_of_the_launches_is_judged_also_where_a_part_of_its_rows_is_handed_over(
    place, change, words, most, monkeypatch
):
    monkeypatch.setattr(outside, "MOST_ROWS", most)
    job = job_of("numba_direct", "n=700")
    outcome = done(job)
    assert len(outcome.launches[0].sums) == 12 * min(700, most)
    assert objection(asked(job, outcome)) is None
    wrong = asked(job, outcome, launches=wrong_launches(outcome.launches, place, change))
    assert words in objection(wrong)


def test_what_is_handed_over_of_other_bodies_is_no_answer_for_these():
    job = job_of("numba_direct", "n=100")
    outcome = done(job)
    first, other, *rest = outcome.launches
    for launches in (
        (replace(other, drawing=OWN), other, *rest),
        (first, replace(first, drawing=1), *rest),
        (first, replace(other, sums=other.sums[:-4]), *rest),
        (first, other, *rest, *outcome.launches),
    ):
        assert objection(asked(job, outcome, launches=launches))
    assert objection(asked(job, outcome, seed=job.seed + 1))


@pytest.mark.parametrize(("n", "count"), [(outside.MOST_ROWS, outside.MOST_ROWS), (10_000_000, outside.MOST_ROWS)])
def test_the_rows_that_are_handed_over_are_few_and_the_same_for_both_sides(n, count):
    rows = handed_rows(n, 7)
    np.testing.assert_array_equal(rows, handed_rows(n, 7))
    assert len(rows) == count
    assert (np.diff(rows) > 0).all()
    assert 0 <= rows[0] <= rows[-1] < n
    assert (handed_rows(n, 8) != rows).any() == (n > count)


def test_few_rows_are_judged_by_limits_that_chance_does_not_reach():
    """Of errors as unequal as they can be for their limits, no sample in a thousand exceeds the widened ones."""
    generator = np.random.default_rng(1)
    limits = Limits(1.0, 0.1, 1.0)
    for rows in (16, 64, 256):
        widened = for_few(limits, rows)
        squares = np.where(generator.random((1000, rows)) < limits.rms**2 / limits.max**2, limits.max**2, 0.0)
        assert (np.sqrt(squares.mean(axis=1)) <= widened.rms).all()
        assert widened.max > limits.max
    assert for_few(limits, 1 << 20).rms < 1.05 * limits.rms


@cache
def right_question():
    job = job_of("numba_direct", "n=64")
    return asked(job, done(job))


def test_it_answers_in_another_process_waits_while_it_is_suspended_and_is_replaced_where_it_dies(judge, monkeypatch):
    question = right_question()
    assert answered(judge, question) == Answer()
    judge.suspend()
    steps = judge.answer(question)
    assert [next(steps) for _ in range(3)] == [None] * 3
    assert judge.waits_for == []
    judge.resume()
    assert ended(steps) == Answer()
    strange = replace(question, case=question.case.model_copy(update={"bodies": "nowhere.npz"}))
    assert "nowhere.npz" in answered(judge, strange).error
    assert judge._process.root.pid != os.getpid()
    judge._process.root.kill()
    judge._process.root.wait()
    assert answered(judge, question) == Answer()
    monkeypatch.setattr(outside_judge, "serve", os._exit)
    judge._process.root.kill()
    judge._process.root.wait()
    assert answered(judge, question).error == "its process died twice"
    monkeypatch.undo()
    assert answered(judge, question) == Answer()


def test_it_starts_no_other_process_so_that_to_suspend_it_none_is_looked_for(judge, monkeypatch):
    assert answered(judge, right_question()) == Answer()
    assert judge._process.root.children(recursive=True) == []
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: pytest.fail("all processes are looked through"))
    judge.suspend()
    try:
        deadline = time.monotonic() + 10
        while judge._process.root.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
            time.sleep(0.01)
        assert judge._process.root.status() == psutil.STATUS_STOPPED
    finally:
        judge.resume()
    assert answered(judge, right_question()) == Answer()


def test_rows_are_drawn_and_summed_ahead_and_serve_for_one_judgement(monkeypatch):
    question, summed = right_question(), []
    direct_sums = outside.direct_sums
    monkeypatch.setattr(outside, "direct_sums", lambda *given: summed.append(given[2]) or direct_sums(*given))
    monkeypatch.setattr(outside, "TERMS", 20 * question.case.n)
    ahead = RowsAhead()
    ahead.add(question.case, question.seed, question.drawings)
    assert [len(rows) for rows in summed] == [20] * 3
    assert outside.objection(question, ahead) is None
    assert len(summed) == 3
    wrong = replace(question, launches=wrong_launches(question.launches, 3, by_one_per_cent))
    assert "exceeds the tolerance" in outside.objection(wrong, ahead)
    assert any(set(rows) != set(summed[0]) for rows in summed[3:]), "the rows are drawn anew"
    # What is there for another case, or other bodies of it, serves for none.
    ahead.add(question.case, question.seed + 1, question.drawings)
    ahead.add(question.case.model_copy(update={"seed": 2}), question.seed, question.drawings)
    before = len(summed)
    assert outside.objection(question, ahead) is None
    assert len(summed) == before + 3


def test_of_cases_that_nobody_asks_about_few_rows_are_kept(monkeypatch):
    monkeypatch.setattr(outside, "MOST_AHEAD", 4)
    question, ahead = right_question(), RowsAhead()
    for seed in range(5):
        ahead.add(question.case, seed, (OWN, 1, OWN))
    assert [(seed, drawing) for seed, drawing, _ in ahead._kept] == [(3, 0), (3, 1), (4, 0), (4, 1)]


def test_what_its_process_cannot_compute_ahead_it_says_when_it_is_asked(judge):
    question = right_question()
    strange = question.case.model_copy(update={"bodies": "nowhere.npz"})
    for case in (question.case, strange):
        judge.expect(case, question.seed, question.drawings)
    assert "nowhere.npz" in answered(judge, replace(question, case=strange)).error
    assert answered(judge, question) == Answer()
    judge.suspend()
    for _ in range(200):  # more than a pipe holds
        judge.expect(question.case, question.seed, question.drawings)
    judge.resume()
    assert answered(judge, question) == Answer()
    judge._process.root.kill()
    judge._process.root.wait()
    judge.expect(question.case, question.seed, question.drawings)
    assert answered(judge, question) == Answer()


def test_the_answer_to_a_question_that_nobody_waits_for_is_not_taken_for_another(judge):
    question = right_question()
    strange = replace(question, case=question.case.model_copy(update={"bodies": "nowhere.npz"}))
    judge._process.suspend()  # so that it cannot answer at once
    steps = judge.answer(strange)
    assert next(steps) is None
    steps.close()
    judge._process.resume()
    assert answered(judge, question) == Answer()


def test_what_is_sent_to_its_process_names_no_variant_that_it_would_import():
    question = right_question()
    names = set()

    class Naming(pickle.Unpickler):
        def find_class(self, module, name):
            names.add(module)
            return super().find_class(module, name)

    Naming(io.BytesIO(pickle.dumps(question))).load()
    assert "gravbench.verifying.outside" in names
    assert not [name for name in names if name.startswith(("gravbench.variants", "gravbench_variant"))]
