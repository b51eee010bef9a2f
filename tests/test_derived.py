"""What a record derives from its samples is computed again as it is read; a line that states something else is none."""

import json
import math

import pytest

from conftest import ROOT, command, flat
from gravbench import api
from gravbench.errors import InputError
from gravbench.model import derived
from gravbench.model.runs import RECORDS, RecordFile, has_measurements
from gravbench.model.statistics import CONFIDENCE, bounds

H100 = ROOT / "reports" / "h100"
COMMITTED = sorted(path.parent for path in (ROOT / "reports").glob(f"*/*/**/{RECORDS}"))


def whole(kind="gpu", **conditions):
    """Return a committed record of the ladder, as it stands in the file."""
    lines = map(json.loads, (H100 / "ladder" / RECORDS).read_text("utf-8").splitlines())
    return next(
        one
        for one in lines
        if one["status"] == "ok"
        and (one["toolkit"] == "cpu") == (kind == "cpu")
        and len(one["samples_seconds"]) > 6
        and all(one[name] == value for name, value in conditions.items())
    )


@pytest.fixture
def run(tmp_path):
    """A run whose second line is a committed record with changes."""

    def written(kind="gpu", **changes):
        record = whole(kind)
        folder = tmp_path / "run"
        folder.mkdir()
        lines = [record | {"seed": 7}, record | {name: made(record) for name, made in changes.items()}]
        (folder / RECORDS).write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
        return folder

    return written


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_every_committed_record_is_what_its_samples_give(folder):
    lines = (folder / RECORDS).read_bytes().splitlines()
    assert len(RecordFile(folder).read(pytest.fail)) == len(lines)


FALSE = {
    "a median that is half of its samples'": {"median_seconds": lambda one: one["median_seconds"] / 2},
    "a median that is a millionth off": {"median_seconds": lambda one: one["median_seconds"] * (1 + 1e-6)},
    "samples halved, and not the median": {"samples_seconds": lambda one: [s / 2 for s in one["samples_seconds"]]},
    "an interval that is too narrow": {"ci_low": lambda one: one["median_seconds"]},
    "an interval that ends too low": {"ci_high": lambda one: one["median_seconds"]},
    "a rate of another median": {"interactions_per_second": lambda one: 2 * one["interactions_per_second"]},
    "GFLOP/s of another convention": {"gflops": lambda one: 1.9 * one["gflops"]},
    "steps of what is no step": {"steps_per_second": lambda _: 10.0},
    "a largest error of zero": {"error_max": lambda _: 0},
    "a largest error below the quantile": {"error_max": lambda one: one["error_p99"] / 2},
    "a quantile above the largest": {"error_p99": lambda one: 2 * one["error_max"]},
    "fewer processes than samples": {"processes": lambda one: one["processes"][:-1]},
    "more processes than samples": {"processes": lambda one: [*one["processes"], 1]},
    "no samples": {"samples_seconds": lambda _: [], "processes": lambda _: []},
    "no median": {"median_seconds": lambda _: None},
    "no largest error": {"error_max": lambda _: None},
    "no hash of the bodies": {"bodies_sha256": lambda _: None},
    "no device": {"device": lambda _: None},
    "no processes by a method that tells them": {
        "processes": lambda _: [],
        "method": lambda _: 1,
        "ci_low": lambda _: None,
        "ci_high": lambda _: None,
    },
    "no interval by a method, of samples that give one": {
        "ci_low": lambda _: None,
        "ci_high": lambda _: None,
        "method": lambda _: 1,
    },
    "samples of what was skipped": {"status": lambda _: "skipped"},
    "a sample of zero": {"samples_seconds": lambda one: [0, *one["samples_seconds"][1:]]},
    "a negative sample": {"samples_seconds": lambda one: [-1.0, *one["samples_seconds"][1:]]},
    "a sample that is no number": {"samples_seconds": lambda one: [math.nan, *one["samples_seconds"][1:]]},
    "a sample in quotes": {"samples_seconds": lambda one: [str(s) for s in one["samples_seconds"]]},
}


@pytest.mark.parametrize("what", FALSE)
@pytest.mark.parametrize("words", [("compare", "RUN", "LADDER"), ("report", "RUN"), ("best", "RUN")], ids=" ".join)
def test_a_record_that_is_not_what_its_samples_give_is_refused_by_line(what, words, run):
    folder = run(**FALSE[what])
    runs = {"RUN": folder, "LADDER": H100 / "ladder"}
    code, text = command(*(runs.get(word, word) for word in words))
    assert code == 0
    said = flat(text)
    assert f"{folder / RECORDS}: skipped 1 line that is not a record: line 2: " in said
    # The field that is named, its value and what it should be.
    named = said.partition("line 2: ")[2]
    samples = "samples_seconds"
    assert any(named.startswith(field) for field in (*FALSE[what], "error_max", "processes", "median_seconds", samples))


def test_the_sentence_has_the_field_its_value_and_what_it_should_be(run):
    median = whole()["median_seconds"]
    said = []
    RecordFile(run(median_seconds=lambda _: median / 2)).read(said.append)
    assert said[0].endswith(f"line 2: median_seconds: {median / 2!r}, but its samples give {median!r}")


def test_a_run_of_nothing_else_is_refused(run):
    folder = run(samples_seconds=lambda _: [], processes=lambda _: [])
    lines = (folder / RECORDS).read_text("utf-8").splitlines()
    (folder / RECORDS).write_text(lines[1] + "\n", "utf-8")
    code, said = command("compare", folder, H100 / "ladder")
    assert code == 2
    assert "line 1: samples_seconds: none, but the status is ok" in said
    with pytest.raises(InputError, match="line 1: samples_seconds"):
        api.compare(folder, H100 / "ladder")


@pytest.mark.parametrize(("field", "value"), [("device_uuid", "GPU-11111111-2222"), ("driver", "580.1")])
def test_a_processor_has_nothing_of_a_gpu(field, value, run):
    folder = run("cpu", **{field: lambda _: value})
    said = []
    RecordFile(folder).read(said.append)
    assert said[0].endswith(f"line 2: {field}: '{value}', but the toolkit is cpu; accepted: none")


def test_whether_a_run_has_measurements_is_told_without_its_intervals(run, monkeypatch):
    folder = run(ci_low=lambda one: one["median_seconds"])
    monkeypatch.setattr(derived, "interval", pytest.fail)
    assert has_measurements(folder)


def test_everybody_else_reads_with_intervals(run):
    folder = run(ci_low=lambda one: one["median_seconds"])
    with pytest.warns(UserWarning, match="skipped 1 line that is not a record: line 2: ci_low: "):
        (pair,) = api.compare(folder, folder).pairs
    assert pair.base.seed == 7
    said = []
    assert len(list(RecordFile(folder).records(said.append))) == 1
    assert said[0].startswith("line 2: ci_low: ")


@pytest.mark.parametrize(
    ("dtype", "n", "rows", "accepted"),
    [
        ("float32", 1, 1, True),
        ("float32", 2, 2, False),
        ("float64", 2, 2, True),
        ("float64", 4096, 4096, False),
    ],
)
def test_an_error_of_zero_is_accepted_only_where_nothing_is_rounded(dtype, n, rows, accepted, run):
    errors = [name for name in whole() if name.startswith("error_") and name not in ("error_rows", "error_max_of")]
    changes = {name: (lambda _: 0.0) for name in errors} | {"dtype": lambda _: dtype, "error_rows": lambda _: rows}
    speed = {"interactions_per_second": lambda _: None, "gflops": lambda _: None}
    said = []
    found = RecordFile(run(n=lambda _: n, **changes, **speed)).read(said.append)
    assert (len(found) == 2) is accepted
    if not accepted:
        assert f"line 2: error_max: 0; accepted: more, because {dtype} rounds sums of {n:,} bodies" in said[0]


def test_the_interval_of_an_older_record_is_that_of_independent_samples(tmp_path):
    """Records without ``processes`` are from before samples counted as possibly dependent."""
    for line in (H100 / "ladder" / RECORDS).read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["toolkit"] == "cpu" or record["status"] != "ok":
            continue
        low, high = bounds(record["samples_seconds"], CONFIDENCE)
        if low != record["ci_low"]:
            break
    older = record | {"processes": [], "method": None, "ci_low": low, "ci_high": high}
    said = []
    for number, changes in enumerate(({}, {"processes": record["processes"]}), 1):
        (tmp_path / RECORDS).write_text(json.dumps(older | changes) + "\n", "utf-8")
        store = RecordFile(tmp_path)
        assert len(list(store.records(said.append))) == 2 - number
    assert said[0].startswith("line 1: ci_low: ")


def test_false_records_are_measured_again_by_resume(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(
        "n: [16, 17, 18, 19]\nmeasure: {budget_seconds: 0.02, warm_up_seconds: 0.001, min_samples: 3, processes: 1}\n"
        "variants: {variant: numpy_direct, toolkit: cpu}\n"
    )
    assert command("run", "tiny.yaml", "--device", "cpu", "--out", "out")[0] == 0
    path = tmp_path / "out" / RECORDS
    lines = path.read_text("utf-8").splitlines()
    broken = {17: {"median_seconds": 1e-9}, 18: {"samples_seconds": []}, 19: {"ci_low": 1e-9}}
    spoilt = [json.dumps(one | broken.get(one["n"], {})) for one in map(json.loads, lines)]
    path.write_text("\n".join(spoilt) + "\n", "utf-8")
    code, said = command("run", "tiny.yaml", "--device", "cpu", "--out", "out", "--resume")
    assert code == 0, said
    assert "1 cases are already in out and are kept" in said
    assert {one.n for one in RecordFile(tmp_path / "out").read(lambda _: None)} == {16, 17, 18, 19}
