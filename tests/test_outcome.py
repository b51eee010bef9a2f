"""What a variant says of itself, and how, does not end a run: it is the failure of its own case."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from conftest import ROOT
from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring import progress, runner, stages
from gravbench.measuring.outcome import CaseError, Outcome, Results, counted, text_of
from gravbench.measuring.plan import plan
from gravbench.measuring.stages import Job, Station
from gravbench.model.device import Device
from gravbench.model.quantities import FORCE
from gravbench.model.record import Errors, Inside, Preparation
from gravbench.model.runs import RecordFile
from gravbench.model.variant import CPU, Tolerance, discover
from gravbench.toolkits.devices import processor_name

QUICK = Measure(budget_seconds=0.01, warm_up_seconds=0, min_samples=3, sample_seconds=1e-4)


def case_of(variant, n=40):
    (case,) = load("quick", [f"n={n}"], variants=[variant]).cases
    return case


def outcome_of(monkeypatch, change, settings=QUICK):
    """Work on numpy_direct with what ``change`` makes of its ``Prepared``; return the outcome and the phases."""
    one = discover(())["numpy_direct"]
    changed = replace(one, prepare=lambda *arguments, **axes: change(one.prepare(*arguments, **axes)))
    monkeypatch.setattr(stages, "discover", lambda _: {"numpy_direct": changed})
    phases = []
    return stages.run(Job(0, case_of("numpy_direct"), settings), Station(), phases.append), phases


NONSENSE = {
    "no mapping": (
        ["computed"],
        "insight() returned something that a record cannot hold: Input should be a valid dictionary",
    ),
    "nothing": (None, "insight() returned something that a record cannot hold: Input should be a valid dictionary"),
    "another key": ({"compute": {}}, "compute: Extra inputs are not permitted"),
    "a number for a mapping": ({"computed": 3.0}, "computed: Input should be a valid dictionary"),
    "a text": ({"computed": {"body_body": "40"}}, "computed.body_body: Input should be a valid number"),
    "true": ({"computed": {"body_body": True}}, "computed.body_body: Input should be a valid number"),
    "NaN": ({"computed": {"body_body": math.nan}}, "computed.body_body: Input should be a finite number"),
    "infinite": ({"stages_bytes": {"upload": math.inf}}, "stages_bytes.upload: Input should be a finite number"),
    "too large for a float": ({"stages_bytes": {"upload": 10**400}}, "stages_bytes.upload: Input should be"),
    "huge": ({"computed": {"body_body": 1e30}}, "1e+30 interactions per body (computed); accepted: above 0, up to 40"),
    "zero": ({"computed": {"body_body": 0.0}}, "0 interactions per body (computed); accepted: above 0, up to 40"),
    "negative": ({"computed": {"body_body": -1.0}}, "should be greater than or equal to 0"),
    "overlap": ({"walk_overlap": 1.5}, "walk_overlap: Input should be less than or equal to 1"),
    "surrogates": ({"computed": {"\ud800": 1.0}}, "unable to parse raw data as a unicode string"),
    "many": (
        {"computed": {f"kind {number}": 0.1 for number in range(200)}},
        "computed: Dictionary should have at most",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_of_insight_is_the_failure_of_its_case_in_one_sentence(name, monkeypatch):
    answer, reason = NONSENSE[name]
    outcome, _ = outcome_of(monkeypatch, lambda prepared: replace(prepared, insight=lambda: answer))
    assert outcome.status == "failed"
    assert reason in outcome.reason
    assert outcome.reason.startswith("insight() returned ")
    assert "\n" not in outcome.reason
    assert outcome.reason.isprintable()
    assert outcome.results.inside == Inside(on_host=False)


def test_what_insight_may_say_is_recorded():
    told = {"computed": {"body_body": np.float64(2.5), "body_cell": np.int64(3)}, "stages_bytes": {"upload": 12}}
    kept = Inside(stages_seconds={"build": 1.0})
    found = counted(lambda: MappingProxyType(told), 40, kept)
    assert found.stages_seconds == {"build": 1.0}
    assert found.computed == {"body_body": 2.5, "body_cell": 3.0}
    assert found.stages_bytes == {"upload": 12.0}
    assert counted(lambda: {"walk_overlap": None}, 40, kept) == kept
    assert counted(lambda: {"computed": {"body_body": 40.0}}, 40, kept).computed == {"body_body": 40.0}
    with pytest.raises(CaseError, match="41 interactions"):
        counted(lambda: {"computed": {"body_body": 40.0, "body_cell": 1.0}}, 40, kept)


LOOSE = {"float32": Tolerance(max=0.5, rms=0.5)}


@pytest.mark.parametrize(
    ("declared", "change", "expected"),
    [
        ({}, {}, False),
        ({"approximates": "distances"}, {}, False),
        ({"approximates": "distances", "tolerance": LOOSE}, {}, True),
        ({"approximates": "distances", "tolerance": LOOSE}, {"insight": lambda: {"walk_overlap": 0.5}}, True),
        ({"approximates": "distances", "tolerance": LOOSE}, {"insight": lambda: {"computed": {"near": 3.0}}}, False),
        ({"tolerance": LOOSE}, {}, False),
    ],
    ids=["direct", "as accurate", "no insight", "insight without a count", "a count", "not an approximation"],
)
def test_an_approximation_that_does_not_count_is_said_not_to(declared, change, expected, monkeypatch):
    own = discover(())["numpy_direct"]
    changed = replace(own, prepare=lambda *arguments: replace(own.prepare(*arguments), **change), **declared)
    monkeypatch.setattr(stages, "discover", lambda _: {"numpy_direct": changed})
    found = stages.run(Job(0, case_of("numpy_direct"), QUICK), Station(), lambda _: None)
    assert found.status == "ok", found.reason
    assert found.results.inside.uncounted == expected


def test_a_reason_has_no_colours_of_a_terminal_and_an_escape_for_what_else_cannot_be_printed():
    text = "Failed in nopython mode\n\x1b[1mname 'x' is \x1b[38;5;9mnot defined\x1b[0m\x1b[K \x1b\a\ud800"
    plain = r"name 'x' is not defined \x1b\x07\ud800"
    assert text_of(ValueError(text)) == f"Failed in nopython mode; {plain}"
    assert Outcome("failed", text).recordable().reason == f"Failed in nopython mode\n{plain}"


UNCOUNTED = """
\"\"\"Guesses.\"\"\"

from gravbench.model.variant import Tolerance, variant
from gravbench.variants.cpu import numpy_direct

LOOSE = {"float32": Tolerance(max=0.5, rms=0.5), "float64": Tolerance(max=0.5, rms=0.5)}


@variant(parent="numpy_direct", source="nobody", approximates="what is far away", tolerance=LOOSE)
def prepare(cpu, bodies):
    \"\"\"Evaluate.\"\"\"
    return numpy_direct.prepare.prepare(cpu, bodies)


def cpu_kernel(*_):
    \"\"\"Is not asked for.\"\"\"
"""


def test_the_record_of_an_approximation_that_does_not_count_has_a_time_and_no_rate(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "guesses.py").write_text(UNCOUNTED.lstrip())
    config = tmp_path / "own.yaml"
    config.write_text(
        "variant_folders: [own]\nn: 40\nmeasure: {processes: 1, budget_seconds: 0.05, warm_up_seconds: 0}\n"
        "variants: [guesses]\n"
    )
    sweep = load(str(config))
    todo = plan(sweep, [Device(CPU, processor_name())], None, anchors=False)
    (found,) = runner.run(sweep, todo, tmp_path / "out", runner.SILENT)
    assert (found.status, found.reason) == ("ok", None)
    assert found.median_seconds > 0
    assert found.uncounted
    assert (found.interactions_per_second, found.gflops, found.joules_per_interaction) == (None, None, None)
    (kept,) = RecordFile(tmp_path / "out").read()
    assert kept == found
    assert "interactions" not in progress.outcome(found)
    assert progress.outcome(found).startswith("ok  ")


class OddError(InputError):
    """Has no text."""

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (OddError("made"), "skipped", "(its message cannot be shown)"),
        (InputError("half: \ud800"), "skipped", r"half: \ud800"),
        (ValueError("bell: \x07\nsecond"), "failed", r"ValueError: bell: \x07; second"),
        (MemoryError("\udfff"), "failed", r"out of memory: \udfff"),
        (SystemExit(3), "failed", "SystemExit: 3"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_variant_raises_has_a_sentence(error, status, reason, monkeypatch):
    def launch():
        raise error

    outcome, _ = outcome_of(monkeypatch, lambda prepared: replace(prepared, launch=launch))
    assert (outcome.status, outcome.reason) == (status, reason)
    json.dumps(outcome.reason, ensure_ascii=False).encode()


def test_names_of_stages_that_no_file_can_hold_fail_the_case(monkeypatch):
    def change(prepared):
        def stages(lap):
            prepared.launch()
            lap("\ud800")

        return replace(prepared, stages=stages)

    outcome, _ = outcome_of(monkeypatch, change)
    assert outcome.status == "failed"
    assert "stages_seconds" in outcome.reason


def test_an_outcome_has_the_plain_types_of_a_record():
    class Real(float):
        """Is known here alone."""

    found = Results(
        errors=Errors().model_copy(update={"cycle": np.int64(2), "error_max": np.float32(0.5)}),
        preparation=Preparation().model_copy(update={"compile_seconds": Real(2)}),
    )
    plain = Outcome("ok", None, found).recordable()
    assert plain.status == "ok"
    assert type(plain.results.errors.cycle) is int
    assert type(plain.results.errors.error_max) is float
    assert type(plain.results.preparation.compile_seconds) is float
    assert plain.results.preparation.compile_seconds == 2
    found.errors = Errors().model_copy(update={"cycle": object()})
    failed = Outcome("ok", None, found).recordable()
    assert failed.status == "failed"
    assert failed.reason.startswith("its errors cannot be recorded: ")
    assert failed.results.preparation.compile_seconds == 2


LOADED = """
import sys

from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import protocol, stages

sampled = protocol.sampled


def counted(*arguments, **options):
    before = set(sys.modules)
    found = sampled(*arguments, **options)
    print(sorted(set(sys.modules) - before), "scipy.special" in before)
    return found


protocol.sampled = counted
(case,) = load("quick", ["n=40"], variants=["numpy_direct"]).cases
job = stages.Job(1, case, Measure(budget_seconds=0.05, warm_up_seconds=0))
outcome = stages.run(job, stages.Station(), lambda _: None)
print(outcome.status)
"""


def test_nothing_is_imported_while_the_first_case_is_measured():
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[] True", "ok"], done.stderr


def test_what_a_first_launch_would_compile_on_the_host_counts_as_compiling(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # it is not compiled yet
    case = case_of("numpy_direct").model_copy(update={"variant": "compiles_late"})
    phases = []
    outcome = stages.run(Job(0, case, None), Station((ROOT / "tests" / "faulty" / "cpu",)), phases.append)
    assert (outcome.status, outcome.reason) == ("ok", None)
    assert phases == ["loading", "compiling", "verifying", "verifying", "releasing"]
    assert 0.01 < outcome.results.preparation.compile_seconds < 60


def test_a_variant_that_says_nothing_of_an_approximation_is_no_cycle_of_launches():
    case = case_of("numpy_direct").model_copy(update={"variant": "cycles"})
    outcome = stages.run(Job(0, case, None), Station((ROOT / "tests" / "faulty" / "cpu",)), lambda _: None)
    assert outcome.status == "invalid"
    assert "a cycle of 2; accepted: 1, because cycles does not say what it approximates" in outcome.reason


def test_preparing_does_not_include_compiling_whenever_that_was():
    case = case_of("numpy_direct").model_copy(update={"variant": "built_before"})
    outcome = stages.run(Job(0, case, None), Station((ROOT / "tests" / "faulty" / "cpu",)), lambda _: None)
    assert (outcome.status, outcome.reason) == ("ok", None)
    assert outcome.results.preparation.compile_seconds > 3600
    assert 0.1 <= outcome.results.preparation.untimed_seconds["preparing"] < 5


@pytest.mark.parametrize(
    ("asked", "is_raced"),
    [
        ({"settings": QUICK, "behind": 1.0}, True),
        ({"settings": QUICK}, False),
        ({"settings": None, "behind": 1.0}, False),
        ({"settings": QUICK, "behind": 1.0, "timed": "step"}, False),
    ],
)
def test_only_a_case_that_is_raced_has_everybody_else_suspended_for_that(asked, is_raced):
    phases = []
    (case,) = load("quick", ["n=40", f"timed={asked.get('timed', FORCE)}"], variants=["numpy_direct"]).cases
    job = Job(0, case, asked["settings"], behind=asked.get("behind"))
    assert stages.run(job, Station(), phases.append).status == "ok"
    assert (stages.RACING in phases) == is_raced


def test_what_is_compiled_for_the_host_counts(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # it is not compiled yet
    phases = []
    outcome = stages.run(Job(0, case_of("numba_direct"), None), Station(), phases.append)
    assert outcome.status == "ok"
    assert outcome.results.preparation.compile_seconds > 0.01
