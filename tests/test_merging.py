"""A sweep measured in parts: the parts are the whole, and what is merged is what one run would have been."""

import json
import os
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import command
from gravbench import api
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.measuring.shards import take
from gravbench.measuring.tasks import estimate_seconds
from gravbench.model import merging, regular
from gravbench.model.device import Device
from gravbench.model.lock import alone
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile, latest, starts
from gravbench.model.shard import Shard, parse
from gravbench.model.variant import CPU
from gravbench.model.work import Work
from gravbench.verdicts.compare import Run, Verdict, compare_runs
from gravbench.verdicts.ranking import repetitions
from gravbench.version import VERSION
from test_runner import PROCESSOR, made_up

TINY = """
n: [16, 17, 18, 19]
measure: {budget_seconds: 0.02, warm_up_seconds: 0.001, min_samples: 3, processes: 1, anchor_every: 2}
variants: {variant: [numpy_direct, numba_direct], toolkit: cpu}
"""
LADDER = load("ladder", ["n=1024,4096,65536"], variants=["tiled", "numpy_direct", "numba_direct"])
GPU = Device("cuda:0", "Imaginary GPU", "GPU-1", "600.1")
MEASURED = {"samples_seconds": [1.0] * 20, "median_seconds": 1.0, "ci_low": 1.0, "ci_high": 1.0, "batch": 1}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder to work in, with a sweep of eight fixed kernels on the processor."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return load("tiny.yaml")


def measured(sweep, folder, devices=(PROCESSOR,), count=None, *, each=False, **changes):
    """Make up a run of a sweep, or its first ``count`` records; two processes measure each task."""
    todo = plan(sweep, devices, None if GPU in devices else "no GPU", chosen=True, each=each)
    with runner.open_run(folder, [], list(devices), ["run"], sweep, todo.planned) as (store, _):
        for number, task in enumerate(todo.tasks[:count], 1):
            moment = f"2026-01-{parse(changes.get('day', '1/31')).number:02}T00:00:{number:02}+00:00"
            own = MEASURED | {
                "processes": [2 * number - 1] * 10 + [2 * number] * 10,
                "started": moment,
                "harness_version": VERSION,
            }
            own |= {name: value for name, value in changes.items() if name != "day"}
            store.append(made_up(task, **own))
    return folder


def shards_of(sweep, tmp_path, count, **changes):
    return [
        measured(take(sweep, Shard(number, count)), tmp_path / f"shard{number}", **changes)
        for number in range(1, count + 1)
    ]


def merged(folders, out, **options):
    return merging.merge(folders, out, say=pytest.fail, **options)


def refused(folders, out, **options):
    with pytest.raises(InputError) as error:
        merged(folders, out, **options)
    assert not out.exists() or list(out.iterdir()) == []
    return str(error.value)


def write_bodies(folder, sha256):
    """Change the hash of bodies of every record; the function makes it of their number."""
    lines = [json.loads(line) for line in (folder / RECORDS).read_text("utf-8").splitlines()]
    text = "".join(json.dumps(line | {"bodies_sha256": sha256(line["n"])}) + "\n" for line in lines)
    (folder / RECORDS).write_text(text, "utf-8")


def change_starts(folder, **changes):
    path = folder / ENVIRONMENT
    path.write_text(json.dumps([entry | changes for entry in json.loads(path.read_text())]))


# The split


@settings(max_examples=20, deadline=None)
@given(st.integers(1, len(LADDER.cases)), st.integers(0, 5))
def test_the_shards_are_disjoint_and_complete_and_about_equally_long(count, seed):
    sweep = replace(LADDER, measure=LADDER.measure.model_copy(update={"order_seed": seed}))
    parts = [take(sweep, Shard(number, count)).cases for number in range(1, count + 1)]
    assert Counter(case.key for part in parts for case in part) == Counter(case.key for case in sweep.cases)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for on_cpu in (True, False):
        own = [
            [estimate_seconds(one, sweep.measure) for one in part if (one.toolkit == CPU) is on_cpu] for part in parts
        ]
        longest = max((second for part in own for second in part), default=0.0)
        assert max(map(sum, own)) - min(map(sum, own)) <= longest * (1 + 1e-9)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_a_shard_is_the_same_on_every_host_whatever_its_devices_and_the_order_of_the_cases(data):
    count = data.draw(st.integers(1, 20))
    shard = Shard(data.draw(st.integers(1, count)), count)
    part = take(LADDER, shard)
    others = data.draw(st.permutations(LADDER.cases))
    assert {case.key for case in take(replace(LADDER, cases=others), shard).cases} == {case.key for case in part.cases}
    devices = [PROCESSOR, GPU, Device("cuda:1", "Imaginary GPU", "GPU-2", "600.1")]
    planned = [plan(part, devices[: number + 1], None, anchors=False).tasks for number in range(3)]
    for tasks in planned:
        assert {task.case.key for task in tasks} == {case.key for case in part.cases}


def test_another_order_seed_makes_another_split_of_what_is_equally_long():
    sweep = load("quick", ["n=64"])
    other = load("quick", ["n=64", "measure.order_seed=2"])
    keys = [{case.key for case in take(one, Shard(1, 3)).cases} for one in (sweep, other)]
    assert keys[0] != keys[1]
    assert sweep.sha256 != other.sha256


def test_all_shards_have_the_hash_of_their_sweep_which_knows_no_paths_and_no_limits_of_a_host(tiny, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "other.yaml").write_text(TINY.replace("16, 17, 18, 19", "19, 18, 17, 16"))
    assert load("copy/other.yaml", ["measure.memory_gigabytes=3"]).sha256 == tiny.sha256
    assert {take(tiny, Shard(number, 3)).sha256 for number in (1, 2, 3)} == {tiny.sha256}
    assert load("tiny.yaml", ["n=16,17,18"]).sha256 != tiny.sha256
    assert load("tiny.yaml", ["measure.budget_seconds=3"]).sha256 != tiny.sha256


@pytest.mark.parametrize(
    "word", ["3", "a/3", "3/a", "0/3", "4/3", "1/0", "0/0", "-1/3", "1/3/3", " 1/3", "1/3 ", "1.0/3", "", "²/³", "1/9",
             "9" * 5000 + "/" + "9" * 5000, "1/" + "9" * 40, "1\n/3", "1/3\n"],
)  # fmt: skip
def test_what_is_no_shard_of_the_sweep_is_one_sentence(word, tiny, tmp_path):
    assert len(tiny.cases) == 8
    code, said = command("run", "tiny.yaml", f"--shard={word}", "--dry-run")
    assert (code, said.count("accepted: K/N")) == (2, 1)
    assert said.startswith("--shard ")
    assert said.isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_a_shard_can_be_planned_and_nothing_is_run(tiny, tmp_path):
    planned = [command("run", "tiny.yaml", "--shard", f"{number}/3", "--dry-run") for number in (1, 2, 3)]
    assert {code for code, _ in planned} == {0}
    for case in tiny.cases:
        assert sum(f"{case.label} (cpu" in said for _, said in planned) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


# A shard goes on as what it is


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "2/3"], "is of shard 1/3, not of shard 2/3; add --shard 1/3"),
        (["--shard", "1/4"], "is of shard 1/3, not of shard 1/4; add --shard 1/3"),
        ([], "is of shard 1/3, not of a whole sweep; add --shard 1/3"),
        (["--shard", "1/3", "-p", "n=16,17,18"], "is of shard 1/3 of another sweep"),
        (["--shard", "1/3", "-p", "measure.order_seed=9"], "is of shard 1/3 of another sweep"),
    ],
)
def test_a_shard_is_resumed_as_the_same_shard_or_not_at_all(options, said, tiny, tmp_path):
    folder = measured(take(tiny, Shard(1, 3)), tmp_path / "out")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for dry in (["--dry-run"], []):
        code, sentence = command("run", "tiny.yaml", "--resume", "--out", folder, *options, *dry)
        assert code == 2
        assert said in sentence
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    code, sentence = command("run", "tiny.yaml", "--resume", "--out", folder, "--shard", "1/3", "--dry-run")
    assert (code, sentence.split(",")[0]) == (0, "0 measurements")


def test_a_whole_run_is_resumed_as_no_shard_and_a_merged_one_not_at_all(tiny, tmp_path):
    whole = measured(tiny, tmp_path / "whole")
    code, said = command("run", "tiny.yaml", "--resume", "--out", whole, "--shard", "1/3")
    assert code == 2
    assert "is of a whole sweep, not of shard 1/3; leave --shard out" in said
    merged(shards_of(tiny, tmp_path, 2), tmp_path / "merged")
    for options in ([], ["--shard", "1/2"]):
        code, said = command("run", "tiny.yaml", "--resume", "--out", "merged", *options)
        assert code == 2
        assert "resume the runs that it was merged from" in said
    with pytest.raises(InputError, match="several shards"):
        api.run(tiny, "merged", devices=["cpu"], resume=True)


def test_a_run_from_before_shards_is_resumed_as_a_whole(tiny, tmp_path):
    folder = measured(tiny, tmp_path / "out")
    entries = [{name: value for name, value in entry.items() if name != "shard"} for entry in starts(folder)]
    (folder / ENVIRONMENT).write_text(json.dumps(entries))
    assert command("run", "tiny.yaml", "--resume", "--out", folder, "--dry-run")[0] == 0


# What is merged


@pytest.mark.timeout(900)
def test_three_shards_measured_and_merged_have_the_cases_of_one_run(tiny, tmp_path):
    options = ["--device", "cpu", "--variant", "numpy_direct", "-p", "measure.anchor_every=10"]
    for number in (1, 2, 3):
        code, said = command("run", "tiny.yaml", *options, "--shard", f"{number}/3")
        assert (code, "0 failed, 0 skipped" in said) == (0, True), said
    folders = sorted((tmp_path / "reports").iterdir())
    assert [folder.name[:9] for folder in folders] == ["tiny-1of3", "tiny-2of3", "tiny-3of3"]
    measured(load("tiny.yaml", options[-1:], variants=["numpy_direct"]), tmp_path / "one")
    code, said = command("merge", *folders, "--out", "merged")
    assert code == 0, said
    one, several = (RecordFile(tmp_path / name).read() for name in ("one", "merged"))
    cases = [case.key for case in tiny.cases if case.variant == "numpy_direct"]
    assert Counter(record.key for record in latest(several)) == Counter(cases)
    assert Counter(record.key for record in latest(one)) == Counter(cases)
    own = [{number for one in RecordFile(folder).read() for number in one.processes} for folder in folders]
    assert len({number for record in several for number in record.processes}) == sum(map(len, own))
    assert command("report", "merged")[0] == 0
    assert command("report", "merged", "--html", "page.html")[0] == 0
    code, said = command("compare", "one", "merged", "--json")
    assert code == 0, said
    (comparison,) = json.loads(said)["comparisons"]
    assert sum(comparison["counts"].values()) == len(cases)


def test_a_merged_run_is_the_same_as_one_run_on_a_device_of_the_same_name(tiny, tmp_path):
    same = merged(shards_of(tiny, tmp_path, 3), tmp_path / "merged")
    one = measured(tiny, tmp_path / "one")
    found = compare_runs(*(Run(folder.name, RecordFile(folder).read()) for folder in (same.folder, one)))
    assert found.counts[Verdict.SAME] == len(tiny.cases) == len(found.pairs)
    assert found.only_base == found.only_new == []


def test_shards_of_gpus_of_one_name_are_compared_case_by_case_with_a_run_on_one_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = load("ladder", ["n=1024"], variants=["tiled"], toolkits=["numba"])
    sweep = replace(sweep, cases=sweep.cases[:6])
    gpus = [Device("cuda:0", "Imaginary GPU", f"GPU-{number}", "600.1") for number in range(3)]
    folders = [
        measured(take(sweep, Shard(number + 1, 3)), tmp_path / f"s{number}", [gpu]) for number, gpu in enumerate(gpus)
    ]
    one = measured(sweep, tmp_path / "one", gpus[:1])
    two = measured(sweep, tmp_path / "two", [gpus[0], replace(gpus[1], selector="cuda:1")], each=True)
    same = merged(folders, tmp_path / "merged").folder
    read = {path.name: Run(path.name, RecordFile(path).read()) for path in (one, two, same)}
    assert {record.device_uuid for record in read["merged"].records} == {"GPU-0", "GPU-1", "GPU-2"}
    found = compare_runs(read["one"], read["merged"])
    assert len(found.pairs) == 6
    assert set(found.scatters) == {("Imaginary GPU (one of 3)", Work.GPU)}
    # Where one run has a case on two cards, each is compared with itself, or with another where there is no such one.
    found = compare_runs(read["two"], read["merged"])
    assert len(found.pairs) == 6
    assert all(
        (pair.base.device_uuid == pair.new.device_uuid) != (pair.new.device_uuid == "GPU-2") for pair in found.pairs
    )
    assert len(compare_runs(read["two"], read["two"]).pairs) == 12


def test_the_order_of_the_folders_does_not_matter_and_a_part_can_be_merged_first(tiny, tmp_path):
    folders = shards_of(tiny, tmp_path, 3)
    first = merged(folders, tmp_path / "first")
    second = merged(folders[::-1], tmp_path / "second")
    assert first.missing == second.missing == []
    part = merged([folders[2], folders[0]], tmp_path / "part", partial=True)
    assert part.missing == ["of 3 shards 1 is missing: 2/3"]
    third = merged([folders[1], part.folder], tmp_path / "third")
    assert first.cases == second.cases == third.cases == len(tiny.cases)
    contents = [(one.folder / RECORDS).read_bytes() for one in (first, second)]
    assert contents[0] == contents[1]
    assert {record.key for record in RecordFile(third.folder).read()} == {case.key for case in tiny.cases}
    assert [entry["shard"] for entry in starts(first.folder)] == ["1/3", "2/3", "3/3"]
    assert len(starts(third.folder)) == 3


def test_processes_of_different_folders_are_different_ones(tiny, tmp_path):
    folders = shards_of(tiny, tmp_path, 2)
    records = RecordFile(merged(folders, tmp_path / "merged").folder).read()
    per_record = [set(record.processes) for record in records]
    assert sum(map(len, per_record)) == len(set.union(*per_record)) == 2 * len(records)
    sources = [record for folder in folders for record in RecordFile(folder).read()]
    rest = [Counter(one.model_dump_json(exclude={"processes"}) for one in some) for some in (sources, records)]
    assert rest[0] == rest[1]
    assert {len(record.processes) for record in records} == {20}


def test_the_repetitions_of_an_anchor_of_two_folders_are_numbered_by_when_they_were_started(tiny, tmp_path):
    folders = [measured(tiny, tmp_path / "late", day="9/31"), measured(tiny, tmp_path / "early", day="3/31")]
    records = RecordFile(merged(folders, tmp_path / "merged").folder).read()
    (same,) = repetitions(records)
    assert len(same) == 2 * sum(record.anchor > 0 for record in RecordFile(folders[0]).read()) >= 8
    in_order = sorted(same, key=lambda record: record.anchor)
    assert [record.anchor for record in in_order] == list(range(1, len(same) + 1))
    assert [record.started for record in in_order] == sorted(record.started for record in same)
    # Of a case that both have, the newer counts.
    assert {record.started[:10] for record in latest(records) if not record.anchor} == {"2026-01-09"}
    assert [record.started for record in records] == sorted(record.started for record in records)


def test_records_that_are_identical_are_kept_once(tiny, tmp_path):
    folder = measured(tiny, tmp_path / "one")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (ENVIRONMENT, RECORDS):
        (copy / name).write_bytes((folder / name).read_bytes())
    records = RecordFile(folder).read()
    assert RecordFile(merged([folder, copy], tmp_path / "merged").folder).read() == records
    # Also where a run was merged before, and has other numbers of processes since.
    other = measured(tiny, tmp_path / "other", day="9/31")
    both = merged([folder, other], tmp_path / "both").folder
    assert RecordFile(merged([both, other, copy], tmp_path / "again").folder).read() == RecordFile(both).read()


def test_without_a_name_the_merged_run_is_the_newest_of_its_configuration(tiny, tmp_path):
    code, said = command("merge", *shards_of(tiny, tmp_path, 2))
    assert code == 0
    (folder,) = (tmp_path / "reports").iterdir()
    assert folder.name.startswith("tiny-20")
    assert str(folder.relative_to(tmp_path)) in said
    assert command("report", "tiny")[0] == 0


def test_the_folders_that_are_merged_stay_as_they_are(tiny, tmp_path):
    folders = shards_of(tiny, tmp_path, 2)
    before = {path: path.read_bytes() for folder in folders for path in folder.iterdir()}
    merged(folders, tmp_path / "merged")
    assert {path: path.read_bytes() for folder in folders for path in folder.iterdir()} == before
    assert sorted(path.name for path in (tmp_path / "merged").iterdir()) == [ENVIRONMENT, RECORDS]


# What is not


def test_a_missing_shard_is_refused_or_said(tiny, tmp_path):
    folders = shards_of(tiny, tmp_path, 4)
    assert refused(folders[::2], tmp_path / "out").startswith("of 4 shards 2 are missing: 2/4, 4/4; ")
    code, said = command("merge", *folders[::2], "--out", "out", "--partial")
    assert code == 0
    assert "of 4 shards 2 are missing: 2/4, 4/4" in said
    assert command("report", "out")[0] == 0


def test_a_shard_that_was_stopped_before_its_end_is_refused_or_said(tiny, tmp_path):
    folders = [
        measured(take(tiny, Shard(1, 2)), tmp_path / "a"),
        measured(take(tiny, Shard(2, 2)), tmp_path / "b", count=3),
    ]
    lacking = len(take(tiny, Shard(2, 2)).cases) - len(latest(RecordFile(folders[1]).read()))
    assert lacking > 0
    said = f"b was stopped early: at least {lacking} of its results are missing"
    assert said in refused(folders, tmp_path / "out")
    (missing,) = merged(folders, tmp_path / "out", partial=True).missing
    assert said in missing
    assert f"at least {lacking} of its results are missing" in refused([tmp_path / "out"], tmp_path / "again")


def test_a_shard_twice_is_refused(tiny, tmp_path):
    first = measured(take(tiny, Shard(1, 2)), tmp_path / "a")
    second = measured(take(tiny, Shard(1, 2)), tmp_path / "b")
    assert refused([first, second], tmp_path / "out").endswith("are both shard 1/2; accepted: each shard once")
    assert "is the same folder as" in refused([first, tmp_path / "b" / ".." / "a"], tmp_path / "out")


def test_shards_of_another_number_and_whole_runs_are_refused_beside_shards(tiny, tmp_path):
    first = measured(take(tiny, Shard(1, 2)), tmp_path / "a")
    second = measured(take(tiny, Shard(2, 3)), tmp_path / "b")
    whole = measured(tiny, tmp_path / "c")
    assert "differ in the number of shards (2, 3)" in refused([first, second], tmp_path / "out")
    assert "differ in what they are (shards, whole runs)" in refused([first, whole], tmp_path / "out")


def test_runs_of_different_sweeps_are_refused(tiny, tmp_path):
    first = measured(take(tiny, Shard(1, 2)), tmp_path / "a")
    second = measured(take(load("tiny.yaml", ["measure.budget_seconds=1"]), Shard(2, 2)), tmp_path / "b")
    assert "a and " in (said := refused([first, second], tmp_path / "out"))
    assert "differ in the sweep that was measured" in said


def test_a_run_whose_sweep_is_not_known_is_refused(tiny, tmp_path):
    first, second = shards_of(tiny, tmp_path, 2)
    change_starts(second, sweep_sha256=None)
    assert "does not record which sweep was measured" in refused([first, second], tmp_path / "out")
    (second / ENVIRONMENT).unlink()
    assert "is missing or empty" in refused([first, second], tmp_path / "out")


@pytest.mark.parametrize(
    "changes",
    [{"shard": "5/2"}, {"shard": "0/2"}, {"shard": 3}, {"shard": "9" * 400}, {"planned": -1}, {"planned": "x"},
     {"sweep_sha256": "no hash"}, {"harness_version": []}, {"harness_version": None}, {"shard": ["1/2"]}],
    ids=str,
)  # fmt: skip
def test_what_no_run_writes_into_its_environment_is_one_sentence(changes, tiny, tmp_path):
    first, second = shards_of(tiny, tmp_path, 2)
    change_starts(second, **changes)
    assert ENVIRONMENT in refused([first, second], tmp_path / "out")


def test_a_count_of_shards_that_somebody_wrote_costs_nothing(tiny, tmp_path):
    folder = measured(take(tiny, Shard(7, 8)), tmp_path / "a")
    change_starts(folder, shard="7/999999999")
    assert refused([folder], tmp_path / "out").startswith("of 999,999,999 shards 999,999,998 are missing: 1/99")


def test_runs_of_different_versions_are_refused(tiny, tmp_path):
    first = measured(take(tiny, Shard(1, 2)), tmp_path / "a")
    second = measured(take(tiny, Shard(2, 2)), tmp_path / "b", harness_version="0.0.9")
    said = refused([first, second], tmp_path / "out")
    assert f"differ in the version of gravbench ({VERSION}, 0.0.9)" in said


def test_runs_of_different_bodies_are_refused(tiny, tmp_path):
    first = measured(tiny, tmp_path / "a")
    second = measured(tiny, tmp_path / "b", bodies_sha256="b" * 64, day="9/31")
    change_starts(second, generated_by={"numpy": "2.0"})
    write_bodies(second, lambda n: f"{n:064}")
    with pytest.raises(InputError) as error:
        merging.merge([first, second], tmp_path / "out", say=lambda _: None)
    (sentence,) = error.value.args
    where = re.fullmatch(rf"{first / RECORDS}, line (\d+) and {second / RECORDS}, line (\d+) differ in (.*)", sentence)
    assert where[1] == where[2]
    assert where[3].startswith("the bodies that plummer n=")
    assert where[3].endswith("where it is wrong, remove the line, and continue the run with --resume")


def test_a_case_measured_on_one_device_with_two_sources_is_refused(tiny, tmp_path):
    first = measured(tiny, tmp_path / "a")
    second = measured(tiny, tmp_path / "b", code_sha256="c" * 64, day="9/31")
    assert "differ in the source of num" in refused([first, second], tmp_path / "out")


@pytest.mark.usefixtures("tiny")
def test_shards_of_two_sources_of_one_variant_are_refused(tmp_path):
    one = load("tiny.yaml", variants=["numba_direct"])
    first = measured(take(one, Shard(1, 2)), tmp_path / "a")
    second = measured(take(one, Shard(2, 2)), tmp_path / "b", code_sha256="c" * 64)
    assert "differ in the source of num" in refused([first, second], tmp_path / "out")


def test_a_folder_in_which_a_run_is_writing_is_refused(tiny, tmp_path):
    first, second = shards_of(tiny, tmp_path, 2)
    with alone(second):
        assert f"process {os.getpid()} on " in (said := refused([first, second], tmp_path / "out"))
        assert said.endswith("merge it when that run has finished")
    # Without its lock the file means nothing.
    (second / "run.lock").write_text("process 1 on a host that is gone")
    assert merged([first, second], tmp_path / "out").cases == len(tiny.cases)


def test_an_output_that_exists_is_refused_and_one_that_cannot_be_made_too(tiny, tmp_path):
    folders = shards_of(tiny, tmp_path, 2)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("shard1", "file", "link"):
        code, said = command("merge", *folders, "--out", name)
        assert code == 2
        assert "exists already" in said
    code, said = command("merge", *folders, "--out", "file/below")
    assert (code, "cannot be" in said) == (2, True)


def test_a_merge_that_cannot_be_written_leaves_nothing_behind(tiny, tmp_path, monkeypatch):
    folders = shards_of(tiny, tmp_path, 2)

    def full(descriptor, content):  # noqa: ARG001
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(regular, "write_all", full)
    assert "No space left on device" in refused(folders, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lines_that_are_no_records_are_said(tiny, tmp_path):
    first, second = shards_of(tiny, tmp_path, 2)
    with (second / RECORDS).open("ab") as file:
        file.write(b"{}\n")
    said = []
    merging.merge([first, second], tmp_path / "out", say=said.append)
    assert len(said) == 1
    assert "skipped 1 line that is not a record" in said[0]
