"""A search space for other autotuners: Kernel Tuner reads it, and finds in it what the records say is fastest."""

import json
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import ROOT
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.explain import tuning_problem
from gravbench.explain.tuning_problem import problem_of
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.report.chosen import Chosen
from gravbench.toolkits.interface import FLAGS
from nvrtc import compile_cuda

LADDER = ROOT / "reports" / "h100" / "ladder"
RECORDS = RecordFile(LADDER).read()
SWEPT = [r for r in RECORDS if (r.variant, r.n, r.toolkit) == ("tiled", 65536, "cupy") and r.anchor == 0]

HALVES = [r for r in RECORDS if (r.variant, r.n, r.toolkit) == ("symmetric", 65536, "cupy") and r.anchor == 0]


def chosen(variant, n=65536):
    return Chosen((n,), (variant,))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    for variant in ("tiled", "symmetric"):
        words = [
            "export",
            str(LADDER),
            "--variant",
            variant,
            "--n",
            "65536",
            "--to",
            str(folder / f"{variant}.t1.json"),
        ]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    return folder


def test_the_space_of_tiled_is_that_of_the_sweep(exported):
    space = json.loads((exported / "tiled.t1.json").read_text("utf-8"))
    values = {one["Name"]: json.loads(one["Values"]) for one in space["ConfigurationSpace"]["TuningParameters"]}
    assert values == {"block_size_x": [128, 256, 512], "UNROLL": [1, 8, 32, 128]}
    assert space["ConfigurationSpace"]["Conditions"] == []
    assert space["KernelSpecification"]["ProblemSize"] == [65536, 1]
    assert space["KernelSpecification"]["GridDivX"] == ["block_size_x"]
    assert [(one["Name"], one["FillType"]) for one in space["KernelSpecification"]["Arguments"]] == [
        ("bodies", "Random"), ("accelerations", "Constant"), ("n", "Constant"), ("eps2", "Constant"),
    ]  # fmt: skip


@pytest.mark.parametrize("variant", ["tiled", "symmetric"])
def test_kernel_tuner_reads_the_space_and_finds_the_fastest_without_a_gpu(exported, variant, monkeypatch):
    kernel_tuner = pytest.importorskip("kernel_tuner")
    monkeypatch.chdir(exported)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metadata, output = kernel_tuner.tune_kernel_T1(
            Path(f"{variant}.t1.json"), cache_filepath=Path(f"{variant}.cache.json"), simulation_mode=True
        )
    there = {toolkit: set() for toolkit in ("cupy", "pycuda")}
    for r in RECORDS:
        if r.toolkit in there and (r.variant, r.n, r.status, r.anchor) == (variant, 65536, "ok", 0):
            there[r.toolkit].add(round(1e3 * r.median_seconds, 9))
    times = [
        measured["value"] for one in output["results"] for measured in one["measurements"] if measured["name"] == "time"
    ]
    assert sorted(round(time, 9) for time in times) in [sorted(own) for own in there.values()]
    assert metadata["schema_version"] == output["schema_version"]


@pytest.mark.parametrize("variant", ["tiled", "symmetric"])
def test_the_kernel_compiles_with_what_a_tuner_defines(exported, variant):
    space = json.loads((exported / f"{variant}.t1.json").read_text("utf-8"))
    parameters = {one["Name"]: one["Default"] for one in space["ConfigurationSpace"]["TuningParameters"]}
    text = (exported / f"{variant}.cu").read_text("utf-8")
    defined = [f"--define-macro={name}={value}" for name, value in parameters.items()]
    _, ptx, _ = compile_cuda(text, "compute_90", [*FLAGS, *defined])
    assert f".entry {variant}(" in ptx
    unset = next(name for name in parameters if parameters[name] != 128)
    with pytest.raises(AssertionError, match=unset):
        compile_cuda(text, "compute_90", [*FLAGS, *(word for word in defined if unset not in word)])


def test_combinations_that_were_not_measured_are_excluded():
    problem = problem_of([SWEPT[1:]], Chosen(), discover())
    (condition,) = problem.specification["ConfigurationSpace"]["Conditions"]
    points = {(r.axes["p"], r.axes["unroll"]) for r in SWEPT[1:]}
    assert {
        (p, unroll)
        for p in (128, 256, 512)
        for unroll in (1, 8, 32, 128)
        if eval(condition["Expression"], {"block_size_x": p, "UNROLL": unroll})
    } == points


def test_blocks_of_two_dimensions_are_two_parameters():
    (split,) = [r for r in RECORDS if (r.variant, r.n, r.toolkit) == ("split", 65536, "cupy") and r.anchor == 0]
    wide = split.model_copy(update={"axes": {"p": 128, "q": 4, "unroll": 8}})
    space = problem_of([[split, wide]], Chosen(), discover()).specification
    names = [one["Name"] for one in space["ConfigurationSpace"]["TuningParameters"]]
    assert names == ["block_size_x", "block_size_y", "UNROLL"]
    assert space["KernelSpecification"]["LocalSize"] == {"X": "block_size_x", "Y": "block_size_y", "Z": "1"}
    assert space["KernelSpecification"]["GridDivX"] == ["block_size_x"]


def test_records_of_a_kernel_that_is_gone_are_left_out():
    gone = SWEPT[0].model_copy(update={"axes": SWEPT[0].axes | {"stagger": 1}, "median_seconds": 1e-9})
    problem = problem_of([[*SWEPT, gone]], Chosen(), discover())
    assert problem.times == problem_of([SWEPT], Chosen(), discover()).times


def test_a_wrong_result_has_no_time():
    bad = SWEPT[0].model_copy(update={"status": "invalid"})
    problem = problem_of([[bad, *SWEPT[1:]]], Chosen(), discover())
    times = [entry["time"] for entry in problem.times["cache"].values()]
    assert times.count(tuning_problem.FAILED) == 1
    assert min(time for time in times if time != tuning_problem.FAILED) == 1e3 * min(
        r.median_seconds for r in SWEPT[1:]
    )


@pytest.mark.parametrize(
    ("records", "chosen", "said"),
    [
        (RECORDS, Chosen((65536,)), "is of one variant; accepted: --variant with one of"),
        (RECORDS, Chosen((), ("naive",)), "one n, one setting and one device, and the records have 9; accepted: --n"),
        (RECORDS, chosen("numpy_direct", 1024), r"needs records of CUDA C"),
        (
            [*HALVES, HALVES[0].model_copy(update={"axes": HALVES[0].axes | {"parts": 7}})],
            Chosen(),
            r"symmetric: its configurations launch .* with other arguments, which .* \(\.t1\.json\) cannot say",
        ),
        ([r.model_copy(update={"variant": "gone"}) for r in SWEPT], Chosen(), "gone: a search space needs a variant"),
    ],
)
def test_what_is_no_space_is_said_in_a_sentence(records, chosen, said):
    with pytest.raises(InputError, match=said):
        problem_of([records], chosen, discover())
