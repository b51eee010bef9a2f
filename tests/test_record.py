"""Records and the file that keeps them: nothing written is lost, changed or mixed up."""

import json
import math
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import progress
from gravbench.measuring.plan import plan
from gravbench.model import runs
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.record import QUANTILES, Record
from gravbench.model.runs import RECORDS, RecordFile, latest
from gravbench.model.variant import CPU

CASE = {
    "variant": "tiled",
    "toolkit": "cupy",
    "axes": {"p": 256, "unroll": 32},
    "n": 1000,
    "dtype": "float32",
    "bodies": "plummer",
    "subset": "even",
    "seed": 1,
    "eps": 0.025,
    "timed": "force",
}
REST = {
    "source_sha256": "a" * 64,
    "flags": ["-ftz=true"],
    "toolkit_version": "cupy 14",
    "driver": "600.1",
    "device": "Imaginary GPU",
    "device_uuid": "GPU-1",
    "status": "ok",
    "samples_seconds": [1.0],
    "median_seconds": 1.0,
    "error_max": 1e-7,
    "bodies_sha256": "b" * 64,
    "flops_per_interaction": 20.0,
    "commit": None,
    "started": "2026-01-01T00:00:00+00:00",
    "harness_version": "0.1.0",
}


def record(**changes):
    return Record(**(CASE | REST | changes))


def lines_of(store):
    return store.path.read_bytes().splitlines(keepends=True)


SAID_OF_EVERY_CASE = """
variant toolkit axes n dtype bodies seed eps status reason samples_seconds median_seconds ci_low ci_high
interactions_per_second gflops flops_per_interaction error_max error_rms registers shared_bytes local_bytes occupancy
occupancy_limiter compile_seconds device compute_capability driver toolkit_version flags source_sha256 commit started
stop_reason harness_version
"""


def test_a_line_has_all_that_is_said_of_a_case():
    assert set(SAID_OF_EVERY_CASE.split()) <= json.loads(record().model_dump_json()).keys()


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.995, 1.005, "± 0.5 %"), (0.8, 1.2, "± 20 %"), (0.01, 90.01, "± 4,500 %")]
)
def test_a_wide_interval_is_told_in_plain_digits(low, high, said):
    told = progress.outcome(record(median_seconds=1.0, ci_low=low, ci_high=high, interactions_per_second=1e9))
    assert told == f"ok  1000 ms {said} in its samples, 1e9 interactions/s"


# Round trip

numbers = st.floats(allow_nan=False, allow_infinity=False)
amounts = st.floats(0, 1e30)
durations = st.floats(1e-15, 1e12)
errors = st.floats(0) | st.just(math.inf)
# A lone surrogate is no text: no UTF-8 can hold it. What no terminal should get is replaced when a line is read.
texts = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="\xa0"), max_size=200).filter(
    str.isprintable
)
names = st.from_regex(r"\A[a-z][a-z0-9_]{0,20}\Z").filter(lambda name: name not in Case.model_fields and name != "dim")
values = st.booleans() | st.integers(-(2**62), 2**62) | numbers | texts
changes = st.fixed_dictionaries(
    {
        "variant": names,
        "axes": st.dictionaries(names, values),
        "n": st.integers(1, 2**31 - 1),
        "bodies": texts,
        "seed": st.integers(0, 2**70),
        "eps": amounts,
        "samples_seconds": st.lists(durations),
    },
    optional={
        "reason": st.none() | texts,
        "median_seconds": st.none() | durations,
        "error_max": st.none() | errors,
        "registers": st.none() | st.integers(0, 255),
        "throttle_reasons": st.lists(texts),
        "throttled": st.booleans(),
        "status": st.sampled_from(["ok", "invalid", "skipped", "failed"]),
        "anchor": st.integers(0, 100),
    },
)


@settings(max_examples=150, deadline=None)
@given(changes)
def test_a_record_survives_its_line_exactly(changes):
    one = record(**changes)
    line = one.model_dump_json()
    assert "\n" not in line
    again = Record.of_line(line.encode())
    assert again == one
    # 1, 1.0 and True are equal in Python and different values of an axis.
    assert [type(value) for value in again.axes.values()] == [type(value) for value in one.axes.values()]
    assert list(again.axes) == list(one.axes)
    assert again.key == one.key
    assert again.model_dump_json() == line


@pytest.mark.parametrize("error", [float("nan"), float("inf")])
def test_an_error_that_is_no_number_leaves_a_line_that_any_json_reader_takes(tmp_path, error):
    store = RecordFile(tmp_path)
    store.append(record(status="invalid", reason="some accelerations are NaN", error_max=error))

    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    json.loads(store.path.read_text("utf-8"), parse_constant=refuse)
    (again,) = store.read()
    assert (again.status, again.reason) == ("invalid", "some accelerations are NaN")


def test_a_reason_with_a_file_name_that_is_no_utf8_can_still_be_written(tmp_path):
    # What Python makes of the bytes b"bodies-\xff.txt" in a file's name.
    reason = os.fsdecode(b"bodies-\xff.txt: no such file")
    store = RecordFile(tmp_path)
    store.append(record(status="failed", reason=reason))
    (again,) = store.read()
    assert "bodies-" in again.reason


def test_fields_that_a_later_version_adds_are_passed_over():
    line = json.dumps(json.loads(record().model_dump_json()) | {"colour": "blue"})
    assert Record.model_validate_json(line) == record()


# The key of a case


def test_the_key_does_not_depend_on_the_order_of_the_axes():
    turned = Case(**(CASE | {"axes": dict(reversed(CASE["axes"].items()))}))
    assert turned.key == Case(**CASE).key


@pytest.mark.parametrize("folder", ["/data", "../elsewhere", "a/b"])
def test_the_key_does_not_depend_on_the_folder_of_a_file_of_bodies(folder):
    assert Case(**(CASE | {"bodies": f"{folder}/lee.txt"})).key == Case(**(CASE | {"bodies": "lee.txt"})).key


def test_the_key_is_the_same_in_another_process_and_after_reading():
    # A changed key would make every earlier run useless for --resume: this one is here to stay.
    assert Case(**CASE).key == "acacd4557a613eb3"
    assert Record.model_validate_json(record().model_dump_json()).key == Case(**CASE).key


@pytest.mark.parametrize(
    "change",
    [
        {"variant": "naive"},
        {"toolkit": "pycuda"},
        {"axes": {"p": 128, "unroll": 32}},
        {"axes": {"p": 256}},
        {"axes": {"p": 256, "unroll": 32, "q": 1}},
        {"axes": {"p": "256", "unroll": 32}},
        {"axes": {"unroll": 256, "p": 32}},
        {"n": 1001},
        {"dtype": "float64"},
        {"bodies": "uniform"},
        {"subset": "lee"},
        {"seed": 2},
        {"eps": 0.0250001},
        {"timed": "step"},
        {"interaction": "hermite"},
        {"integrator": "leapfrog"},
        {"dt": 0.001},
        {"bodies_file_sha256": "0" * 64},
        {"interaction_sha256": "0" * 64},
    ],
    ids=str,
)
def test_the_key_differs_when_anything_differs(change):
    assert Case(**(CASE | change)).key != Case(**CASE).key


def test_every_field_of_a_case_is_changed_above():
    (mark,) = test_the_key_differs_when_anything_differs.pytestmark
    assert {name for change in mark.args[1] for name in change} == set(Case.model_fields)


def test_the_key_does_not_depend_on_what_the_case_gave():
    assert record(median_seconds=1.0, status="failed", device_uuid="GPU-2").key == record().key


# The file


def test_each_record_is_a_line_behind_those_before(tmp_path):
    store = RecordFile(tmp_path / "new" / "folder")
    content = b""
    for n in range(1, 5):
        store.append(record(n=n))
        grown = store.path.read_bytes()
        assert grown.startswith(content)
        assert grown.count(b"\n") == n
        assert grown.endswith(b"\n")
        content = grown
    assert [one.n for one in store.read()] == [1, 2, 3, 4]


def test_a_record_is_on_the_disk_when_append_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    store = RecordFile(tmp_path)
    store.append(record())
    assert synced == [store.path.stat().st_size]
    store.append(record())
    assert synced[1:] == [store.path.stat().st_size]


def test_a_whole_or_an_absent_file_needs_no_repair(tmp_path):
    store = RecordFile(tmp_path)
    assert store.repair() is None
    assert not store.path.exists()
    store.append(record())
    before = store.path.read_bytes()
    assert store.repair() is None
    assert store.path.read_bytes() == before


def test_a_file_cut_off_at_any_byte_of_its_last_line_loses_at_most_that_line(tmp_path):
    store = RecordFile(tmp_path)
    # Two-byte and four-byte characters, so that some cuts go through the middle of one.
    for n in (1, 2, 3):
        store.append(record(n=n, reason="größer 🌌 than"))
    whole = store.path.read_bytes()
    first, second, last = lines_of(store)
    kept = first + second
    expected = store.read()
    # Every byte at both ends and of what has several; in between, where one byte is like the next, a prime apart.
    several = {at + k for at, byte in enumerate(last) if byte > 127 for k in (-1, 0, 1)}
    for cut in sorted({*range(20), *several, *range(0, len(last), 13), *range(len(last) - 20, len(last))}):
        store.path.write_bytes(kept + last[:cut])
        complete = last[:cut] == last[:-1]
        assert store.read() == expected[: 3 if complete else 2], cut
        word = store.repair()
        assert store.path.read_bytes() == (whole if complete else kept), cut
        assert store.read() == expected[: 3 if complete else 2], cut
        if cut == 0:
            assert word is None
        else:
            assert str(store.path) in word
            assert ("it was added" if complete else f"half-written ({cut} bytes)") in word, cut
        assert store.repair() is None
        store.append(record(n=4))
        assert [one.n for one in store.read()] == [1, 2, *([3] if complete else []), 4], cut


def test_a_file_of_one_half_line_becomes_empty(tmp_path):
    store = RecordFile(tmp_path)
    store.append(record())
    store.path.write_bytes(store.path.read_bytes()[:50])
    assert store.read() == []
    assert "50 bytes" in store.repair()
    assert store.path.read_bytes() == b""
    assert store.read() == []


@pytest.mark.parametrize("spoilt", [b"{", b"nonsense", b"[]", b'{"variant": "a"}', b"\xff\xfe", b"null"], ids=repr)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_spoilt_line_is_skipped_and_said_with_its_number_and_the_others_count(tmp_path, place, spoilt):
    store = RecordFile(tmp_path)
    for n in (1, 2, 3):
        store.append(record(n=n))
    lines = lines_of(store)
    lines[place] = spoilt + b"\n"
    store.path.write_bytes(b"".join(lines))
    said = []
    assert [one.n for one in store.read(said.append)] == [n for n in (1, 2, 3) if n != place + 1]
    (message,) = said
    assert message.startswith(f"{tmp_path / RECORDS}: skipped 1 line that is not a record: line {place + 1}: ")
    assert "\n" not in message
    before = store.path.read_bytes()
    assert store.repair() is None
    assert store.path.read_bytes() == before


def test_many_spoilt_lines_are_one_sentence_and_a_warning_where_nobody_asks(tmp_path):
    (tmp_path / RECORDS).write_bytes(b"nonsense\n" * 10 + record().model_dump_json().encode() + b"\n")
    with pytest.warns(UserWarning, match=r"skipped 10 lines that are not records: line 1: .*; and 7 more$"):
        assert len(RecordFile(tmp_path).read()) == 1


def refused(change):
    """Return what is said of a line with other values."""
    return said_of(json.dumps(json.loads(record().model_dump_json()) | change).encode())


def said_of(line):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is the question
        Record.of_line(line)
    return runs._why(caught.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n": "many"}, "n"),
        ({"n": 0}, "n"),
        ({"n": 10**200}, "n"),
        ({"cycle": 0}, "cycle"),
        ({"variant": "../../.."}, "variant"),
        ({"variant": "<script>"}, "variant"),
        ({"toolkit": "../../.."}, "toolkit"),
        ({"variant": "v" * 300}, "variant"),
        ({"axes": {"n": 3}}, "axes"),
        ({"axes": {"dim": "two"}}, "axes"),
        ({"axes": {"a b": 3}}, "axes.a b"),
        ({"axes": {"p": []}}, "axes.p"),
        ({"timed": "kernel"}, "timed"),
        ({"dtype": "float16"}, "dtype"),
        ({"status": "fine"}, "status"),
        ({"eps": "NaN"}, "eps"),
        ({"eps": -1.0}, "eps"),
        ({"median_seconds": 0.0}, "median_seconds"),
        ({"median_seconds": -1.0}, "median_seconds"),
        ({"median_seconds": "NaN"}, "median_seconds"),
        ({"median_seconds": 5e-324}, "median_seconds"),
        ({"ci_high": "NaN"}, "ci_high"),
        ({"samples_seconds": [1.0, "Infinity"]}, "samples_seconds.1"),
        ({"samples_seconds": [1.0, -1.0]}, "samples_seconds.1"),
        ({"error_max": "NaN"}, "error_max"),
        ({"error_max": -1.0}, "error_max"),
        ({"computed": {"body_cell": 0.0}}, "computed"),
        ({"stages_seconds": {"build": -1.0}}, "stages_seconds.build"),
        ({"registers": -1}, "registers"),
        ({"started": "yesterday"}, "started"),
        ({"started": "2026-02-31T00:00:00+00:00"}, "started"),
        ({"started": "2026-02-01T00:00:00"}, "started"),
        ({"dt": 0.1}, "dt"),
        ({"commit": "../x"}, "commit"),
        ({"driver": "d" * 2000}, "driver"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_that_no_record_can_have_is_refused_by_its_name(change, field):
    assert refused(change).startswith(field)


def test_what_is_said_of_a_line_shows_none_of_it():
    assert "\x1b" not in refused({"axes": {"\x1b[31m": []}})
    assert len(said_of(b'{"' + b"x" * 10_000)) < 400
    assert said_of(b"[" * 100_000)


def test_an_error_that_is_no_number_is_read_of_a_record_that_is_not_ok():
    line = record(status="invalid", error_max=math.nan, error_rms=math.inf).model_dump_json().encode()
    again = Record.of_line(line)
    assert math.isnan(again.error_max)
    assert again.error_rms == math.inf


@pytest.mark.parametrize("name", QUANTILES.values())
def test_no_quantile_of_the_errors_of_what_is_right_is_no_number(name):
    assert f"{name} is not a number, but the status is ok" in said_of(
        record(status="invalid", **{name: math.nan}).model_dump_json().replace('"invalid"', '"ok"').encode()
    )


def test_control_characters_of_a_text_are_replaced_when_it_is_read():
    evil = "a\x1b[31mred\x07\u202e\x9b\tb\nc"
    line = record(status="failed", device=evil, reason=evil, flags=[evil]).model_dump_json().encode()
    again = Record.of_line(line)
    for text in (again.device, again.reason, *again.flags):
        assert text == "a\ufffd[31mred\ufffd\ufffd\ufffd b\nc"


def test_a_long_reason_is_cut_and_not_lost():
    assert len(record(status="failed", reason="x" * 10**6).reason) < 30_000


@pytest.mark.parametrize("folder", sorted({path.parent for path in (ROOT / "reports").rglob(RECORDS)}), ids=str)
def test_every_committed_record_is_read_as_it_was_written(folder):
    lines = (folder / RECORDS).read_bytes().splitlines()
    # A line that is skipped would be a warning, and so an error here.
    records = RecordFile(folder).read()
    assert len(records) == len(lines)
    for line, one in zip(lines, records, strict=True):
        written = json.loads(line)
        if "warp_efficiency" in written:
            written["walk_overlap"] = written.pop("warp_efficiency")
        read = json.loads(one.model_dump_json())
        assert {name: read.get(name, value) for name, value in written.items()} == written


def test_equal_values_of_many_records_are_shared_and_equal_ones_of_another_type_are_not(tmp_path):
    store = RecordFile(tmp_path)
    for p in (1, 1, 1.0, True):
        store.append(record(axes={"p": p}))
    one, same, real, true = (each.axes for each in store.read())
    assert one is same
    assert [type(axes["p"]) for axes in (one, real, true)] == [int, float, bool]


def test_a_copy_with_another_value_has_another_key():
    one = record()
    assert one.key == record().key
    assert one.model_copy(update={"n": 7}).key == record(n=7).key != one.key


def test_two_cases_are_identical_where_they_have_one_key():
    several = [record(), record(n=2), *(record(axes={"p": p}) for p in (1, 1.0, True, "1"))]
    several += [record(bodies=f"{folder}/lee.txt") for folder in ("a", "b")]
    for one in several:
        for other in several:
            assert (one.identity == other.identity) == (one.key == other.key)


def test_reading_what_is_not_there_names_it(tmp_path):
    with pytest.raises(InputError, match=RECORDS):
        RecordFile(tmp_path).read()


# The latest of each case


def test_the_newest_record_of_a_case_on_a_device_is_kept():
    old, new = record(median_seconds=1.0), record(median_seconds=2.0)
    assert latest([old, new]) == [new]


def test_records_of_other_cases_and_devices_are_all_kept():
    several = [record(), record(n=2), record(device_uuid="GPU-2"), record(device="CPU", device_uuid=None)]
    assert latest(several) == several


def test_a_result_replaces_the_failure_before_it():
    assert latest([record(status="failed"), record(status="ok")]) == [record(status="ok")]


def test_a_skip_for_want_of_a_device_gives_way_to_a_device_whichever_came_first():
    skip = record(status="skipped", device=None, device_uuid=None)
    assert latest([skip, record()]) == [record()]
    assert latest([record(), skip]) == [record()]
    assert latest([skip, skip]) == [skip]


def test_of_a_repeated_anchor_the_first_is_kept():
    first, second, third = (record(anchor=number, median_seconds=number) for number in (1, 2, 3))
    assert latest([first, second, third]) == [first]


@pytest.mark.parametrize(
    "change",
    [{"status": "failed", "reason": "a passing fault"}, {"code_sha256": "0" * 64}],
    ids=["failed", "other source"],
)
def test_after_a_resume_the_anchor_is_represented_by_a_measurement_that_counts(monkeypatch, change):
    """The first run's anchor is of no use, the resumed run measures it again: the report must show the new one."""
    monkeypatch.chdir(ROOT)
    sweep = load("quick", ["n=64,128,256"], variants=["numpy_direct"])
    device = [Device(CPU, "a processor")]

    def measured(tasks, changed=None):
        made = []
        for task in tasks:
            identity = task.fingerprint.model_dump()
            fields = REST | task.case.model_dump() | identity | {"anchor": task.anchor} | (changed or {})
            made.append(Record(**fields))
        return made

    first = plan(sweep, device, None).tasks
    anchor = first[0]
    assert anchor.anchor == 1
    before = [
        *measured([anchor], change),
        *measured([task for task in first if not task.anchor], change),
    ]
    after = measured(plan(sweep, device, None, before).tasks)
    kept = {one.n: one for one in latest([*before, *after])}
    assert set(kept) == {64, 128, 256}
    assert {one.status for one in kept.values()} == {"ok"}
    assert {one.code_sha256 for one in kept.values()} == {after[0].code_sha256}
