"""What is no part of a run's sweep, or no result of it, is not merged: each is refused with its line."""

import json
import re
from dataclasses import replace

import pytest

from gravbench.config.load import load
from gravbench.config.search import Search
from gravbench.errors import InputError
from gravbench.measuring import lanes, runner
from gravbench.measuring.plan import plan
from gravbench.measuring.shards import take
from gravbench.model import merged as merged_module
from gravbench.model import merging
from gravbench.model.device import Device
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.shard import Shard
from gravbench.version import VERSION
from test_merging import change_starts, measured, merged, refused, tiny  # noqa: F401
from test_runner import PROCESSOR, made_up


@pytest.fixture
def shards(tiny, tmp_path):  # noqa: F811
    """Both shards of a sweep of eight cases."""
    return [measured(take(tiny, Shard(number, 2)), tmp_path / f"shard{number}") for number in (1, 2)]


def lines_of(folder):
    return [json.loads(line) for line in (folder / RECORDS).read_text("utf-8").splitlines()]


def write(folder, lines):
    (folder / RECORDS).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def changed(folder, **changes):
    """Change the second record of a run, whose processes stay as they are."""
    lines = lines_of(folder)
    write(folder, [lines[0], lines[1] | changes, *lines[2:]])


def test_a_case_of_another_shard_with_halved_times_is_refused(shards, tmp_path):
    other = lines_of(shards[0])[-1]
    faster = {"samples_seconds": [0.5] * 20, "median_seconds": 0.5, "ci_low": 0.5, "ci_high": 0.5}
    lines = lines_of(shards[1])
    write(shards[1], [*lines, other | faster | {"started": "2026-02-01T00:00:00+00:00"}])
    said = refused(shards, tmp_path / "out")
    assert said.startswith(f"{shards[1] / RECORDS}, line {len(lines) + 1}: ")
    assert "is a case of another shard than 2/2; remove the line" in said
    # In a run that was merged before, it is a case of no shard that is there.
    part = tmp_path / "part"
    with pytest.raises(InputError, match="another shard than 2/2"):
        merged(shards[1:], part, partial=True)


def test_a_case_that_the_sweep_does_not_have_is_refused(shards, tmp_path):
    lines = lines_of(shards[0])
    write(shards[0], [*lines, lines[-1] | {"n": 33}])
    said = refused(shards, tmp_path / "out")
    assert f"line {len(lines) + 1}: the sweep has no case num" in said
    assert " n=33 " in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"median_seconds": 0.5},
            "line 2: median_seconds: 0.5, but its samples give 1.0; remove the line, and continue the run with --",
        ),
        ({"ci_low": 0.9}, "line 2: ci_low: 0.9, but its samples give 1.0"),
        ({"samples_seconds": [], "processes": []}, "line 2: samples_seconds: none, but the status is ok"),
        ({"processes": [1] * 19}, "line 2: processes: 19 for 20 samples"),
        ({"error_max": 0}, "line 2: error_max: 0; accepted: more, because float32 rounds sums of 1"),
        ({"error_max": None}, "line 2: error_max: none, but the status is ok; remove the line"),
        ({"bodies_sha256": None}, "line 2: bodies_sha256: none, but the status is ok"),
        ({"device": None}, "line 2: device: none, but the status is ok"),
        ({"processes": [], "ci_low": None, "ci_high": None}, "line 2: processes: none, but the status is ok"),
        ({"ci_low": None, "ci_high": None}, "line 2: ci_low: none, but its samples give 1.0"),
        ({"ci_high": None}, "line 2: ci_high: none, but its samples give 1.0"),
        ({"status": "skipped"}, "line 2: samples_seconds: 20, but the status is skipped; accepted: none"),
        ({"driver": "580.1"}, "line 2: driver: '580.1', but the toolkit is cpu; accepted: none"),
        (
            {"device": "NVIDIA H200"},
            "line 2: no device of the run is NVIDIA H200; accepted: what environment.json has (",
        ),
        ({"error_max": 0.01}, "line 2: the largest error is 0.01 and the status ok; accepted: up to "),
        ({"device_uuid": "GPU-1"}, "line 2: device_uuid: 'GPU-1', but the toolkit is cpu"),
    ],
    ids=str,
)
def test_what_is_no_result_of_the_case_is_refused(changes, said, shards, tmp_path):
    changed(shards[1], **changes)
    for options in ({}, {"partial": True}):
        assert f"{shards[1] / RECORDS}, {said}" in refused(shards, tmp_path / "out", **options)


@pytest.mark.parametrize("planned", [0, 1, 3, 5, 10**6])
def test_what_was_planned_is_what_the_sweep_gives_the_shard(planned, shards, tmp_path):
    change_starts(shards[1], planned=planned)
    said = refused(shards, tmp_path / "out", partial=True)
    assert said == f"{shards[1] / ENVIRONMENT}: planned is {planned:,}; accepted: 4, the cases of shard 2/2"


def test_nothing_that_is_planned_hides_a_shard_that_was_cut(shards, tmp_path):
    kept = [line for line in lines_of(shards[1]) if line["n"] != lines_of(shards[1])[-2]["n"]]
    write(shards[1], kept)
    change_starts(shards[1], planned=0)
    said = refused(shards, tmp_path / "out")
    assert said == f"{shards[1] / ENVIRONMENT}: planned is 0; accepted: 4, the cases of shard 2/2"
    change_starts(shards[1], planned=4)
    assert "was stopped early: at least " in refused(shards, tmp_path / "out")


def test_a_case_of_another_shard_is_named_also_where_results_are_missing(shards, tmp_path):
    lines = lines_of(shards[1])
    write(shards[1], [*lines[:1], lines_of(shards[0])[-1]])
    assert "line 2: num" in (said := refused(shards, tmp_path / "out"))
    assert "is a case of another shard than 2/2; remove the line" in said


def test_the_line_of_a_record_with_nan_is_named(shards, tmp_path):
    lines = lines_of(shards[1])
    other = lines_of(shards[0])[-1] | {"status": "invalid", "reason": "wrong", "error_max": float("nan")}
    write(shards[1], [*lines, other])
    assert f"line {len(lines) + 1}: num" in refused(shards, tmp_path / "out")


def test_all_shards_take_the_cases_in_one_order(shards, tmp_path):
    """A shard that takes a case of another one would count twice for it, with whatever times it has."""
    path = shards[1] / ENVIRONMENT
    entries = json.loads(path.read_text())
    keys = entries[0]["sweep"]["dealt"].split()
    keys[0], keys[1] = keys[1], keys[0]
    entries[0]["sweep"]["dealt"] = " ".join(keys)
    path.write_text(json.dumps(entries))
    said = refused(shards, tmp_path / "out", partial=True)
    assert "shard1 and " in said
    assert " differ in the order in which shards take the cases (" in said


def test_cases_that_no_device_was_fit_for_are_counted(tiny, tmp_path):  # noqa: F811
    folder = measured(tiny, tmp_path / "run")
    lines = lines_of(folder)
    kept = [line for line in lines if line["n"] != 19]
    write(folder, kept)
    path = folder / ENVIRONMENT
    entries = json.loads(path.read_text())
    left_out = sorted({record.key for record in read_all(lines, tmp_path) if record.n == 19})
    entries[0] |= {"planned": 6, "sweep": entries[0]["sweep"] | {"left_out": " ".join(left_out)}}
    path.write_text(json.dumps(entries))
    said = []
    done = merging.merge([folder], tmp_path / "out", say=said.append)
    assert (done.cases, done.missing) == (6, [])
    assert said == ["2 cases were left out, because no chosen device fits"]


def read_all(lines, tmp_path):
    (tmp_path / "all").mkdir()
    write(tmp_path / "all", lines)
    return RecordFile(tmp_path / "all").read(pytest.fail)


def test_two_results_of_one_measurement_are_refused(shards, tmp_path):
    lines = lines_of(shards[1])
    write(shards[1], [*lines, lines[1] | {"processes": [7] * 20, "anchor": 3}])
    merged(shards, tmp_path / "out")
    halved = {"samples_seconds": [0.5] * 20, "median_seconds": 0.5, "ci_low": 0.5, "ci_high": 0.5}
    write(shards[1], [*lines, lines[1] | halved])
    said = refused(shards, tmp_path / "again")
    path = shards[1] / RECORDS
    assert said.startswith(f"{path}, line 2 and {path}, line {len(lines) + 1} are two results of num")
    assert said.endswith(f"that began at {lines[1]['started']}; remove the line that is wrong")
    # A case does not begin twice in the moment that a record has.
    assert re.fullmatch(r"[-0-9]{10}T[0-9:]{8}\.[0-9]{3}\+00:00", lanes.moment())
    # Counters are counted later, of the same measurement.
    write(shards[1], [*lines, lines[1] | {"counters": {"issue_slots": 0.5}, "anchor": 0}])
    merged(shards, tmp_path / "again")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("places", [("cpu", "host:cpu"), ("host1:cpu:0", "host2:cpu:0")])
def test_every_kind_of_processor_measures_every_case(places, tmp_path):
    sweep = load("tiny.yaml", ["n=16,17"], variants=["numpy_direct"])
    devices = [Device(place, f"Processor {number}") for number, place in enumerate(places)]
    folder = measured(sweep, tmp_path / "run", devices)
    assert json.loads((folder / ENVIRONMENT).read_text())[0]["planned"] == 4
    done = merging.merge([folder], tmp_path / "out", say=lambda _: None)
    assert (done.cases, done.missing) == (2, [])
    change_starts(folder, planned=5)
    assert "planned is 5; accepted: 2 to 4, the cases of the sweep" in refused([folder], tmp_path / "again")


def test_a_search_that_left_cases_out_is_not_taken_for_a_run_that_was_stopped(tiny, tmp_path):  # noqa: F811
    sweep = replace(tiny, search=Search(budget_trials=3))
    folder = measured(sweep, tmp_path / "run", count=3)
    said = refused([folder], tmp_path / "out")
    lacking = len(tiny.cases) - len({line["n"] for line in lines_of(folder)})
    assert f"at least {lacking} of its results are missing, which its search left out unless it was stopped" in said
    assert "--resume" not in said
    assert merged([folder], tmp_path / "out", partial=True).cases == len(tiny.cases) - lacking


def test_a_run_whose_list_of_cases_is_missing_is_refused_with_that_word(shards, tmp_path):
    change_starts(shards[1], sweep=None)
    said = refused(shards, tmp_path / "out")
    assert "does not record the list of the cases of its sweep, as in older versions of gravbench" in said


def test_the_cases_of_a_sweep_are_those_of_its_hash(shards, tmp_path):
    path = shards[1] / ENVIRONMENT
    entries = json.loads(path.read_text())
    entries[0]["sweep"]["dealt"] = entries[0]["sweep"]["dealt"].rpartition(" ")[0]
    path.write_text(json.dumps(entries))
    assert "sweep_sha256 is not the hash of the cases and settings in sweep" in refused(
        shards, tmp_path / "out", partial=True
    )


def test_false_bodies_of_one_of_two_shards_are_named_by_their_line(shards, tmp_path):
    changed(shards[1], bodies_sha256="0" * 64)
    said = refused(shards, tmp_path / "out")
    assert said.startswith(f"{shards[1] / RECORDS}, line 2: bodies_sha256 is 00000000..., but plummer n=1")
    assert said.endswith("; remove the line, and continue the run with --resume")


def test_bodies_that_the_generator_does_not_make_are_refused(tiny, tmp_path):  # noqa: F811
    folder = measured(tiny, tmp_path / "run")
    changed(folder, bodies_sha256="0" * 64)
    said = refused([folder], tmp_path / "out", partial=True)
    assert said.startswith(f"{folder / RECORDS}, line 2: bodies_sha256 is 00000000..., but plummer n=1")


def test_bodies_of_another_host_are_not_checked_and_that_is_said(tiny, tmp_path):  # noqa: F811
    """The last bits of powers and sines depend on the instructions of a processor."""
    folder = measured(tiny, tmp_path / "run")
    write(folder, [line | {"bodies_sha256": f"{line['n']:064}"} for line in lines_of(folder)])
    assert "bodies_sha256 is 00000000..." in refused([folder], tmp_path / "out")
    change_starts(folder, generated_by={"numpy": "2.0", "instructions": "none"})
    said = []
    merging.merge([folder], tmp_path / "out", say=said.append)
    assert [one.partition(": ")[0] for one in said] == [str(folder)]
    assert "generated with another NumPy, C library or processor" in said[0]
    assert "the hashes of its bodies are not checked" in said[0]
    change_starts(folder, generated_by={})
    said.clear()
    merging.merge([folder], tmp_path / "again", say=said.append)
    assert said == [
        f"{folder}: it does not record what generated its bodies, as in older versions of gravbench, so the hashes of "
        "its bodies are not checked"
    ]


def test_bodies_that_are_too_many_to_generate_again_are_not_checked_and_that_is_said(
    tiny,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    folder = measured(tiny, tmp_path / "run")
    monkeypatch.setattr(merged_module, "MOST_GENERATED", 17)
    said = []
    merging.merge([folder], tmp_path / "out", say=said.append)
    assert said == [
        f"{folder}: the hashes of more than 17 bodies are not checked, because it takes long to generate these again"
    ]


def test_one_hash_for_two_sets_of_bodies_is_refused_on_every_host(shards, tmp_path):
    for folder in shards:
        change_starts(folder, generated_by={"numpy": "2.0", "instructions": "none"})
        write(folder, [line | {"bodies_sha256": "0" * 64} for line in lines_of(folder)])
    assert "bodies_sha256 is that of other bodies, those of plummer n=1" in refused(shards, tmp_path / "out")


@pytest.mark.usefixtures("tiny")
def test_runs_of_one_sweep_on_two_kinds_of_devices_lack_nothing(tmp_path):
    """Each leaves out what its devices, chosen by hand, cannot run."""
    (tmp_path / "both.yaml").write_text(
        "n: [16, 17]\nvariants: [{variant: numpy_direct}, {variant: tiled, toolkit: numba, p: 64, unroll: 8}]\n"
    )
    sweep = load("both.yaml")
    folders = []
    for number, device in enumerate((PROCESSOR, Device("cuda:0", "Imaginary GPU", "GPU-1", "600.1")), 1):
        todo = plan(sweep, [device], None, chosen=True)
        assert (len(todo.left_out), todo.planned) == (2, 2)
        folder = tmp_path / f"on{number}"
        opened = runner.open_run(folder, [], [device], ["run"], sweep, todo.planned, todo.left_out)
        with opened as (store, _):
            for place, task in enumerate(todo.tasks, 1):
                store.append(made_up(task, processes=[place], harness_version=VERSION))
        folders.append(folder)
    done = merged(folders, tmp_path / "out")
    assert (done.cases, done.missing) == (4, [])
    assert len(RecordFile(tmp_path / "out").read(pytest.fail)) == done.records
