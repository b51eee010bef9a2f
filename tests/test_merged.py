"""What is no part of a run's sweep, or no result of it, is not merged: each is refused with its line."""

import json

import pytest

from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.measuring.shards import take
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
        ({"median_seconds": 0.5}, "line 2: median_seconds: 0.5, but its samples give 1.0; measure it again"),
        ({"ci_low": 0.9}, "line 2: ci_low: 0.9, but its samples give 1.0"),
        ({"samples_seconds": [], "processes": []}, "line 2: samples_seconds: none, but the status is ok"),
        ({"processes": [1] * 19}, "line 2: processes: 19 for 20 samples"),
        ({"error_max": 0}, "line 2: error_max: 0; accepted: more, because float32 rounds sums of 1"),
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
    assert "was stopped early: at least " in refused(shards, tmp_path / "out")


def test_the_cases_of_a_sweep_are_those_of_its_hash(shards, tmp_path):
    path = shards[1] / ENVIRONMENT
    entries = json.loads(path.read_text())
    entries[0]["sweep"]["dealt"] = entries[0]["sweep"]["dealt"].rpartition(" ")[0]
    path.write_text(json.dumps(entries))
    assert "sweep_sha256 is not the hash of the cases and settings in sweep" in refused(
        shards, tmp_path / "out", partial=True
    )


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
    assert "the hashes of its bodies are not checked" in said[0]


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
    assert len(RecordFile(tmp_path / "out").read(pytest.fail, intervals=True)) == done.records
