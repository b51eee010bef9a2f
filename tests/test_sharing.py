"""Bundles of runs: what is in them and what is not, what tampering is found, and what a hostile file can do."""

import getpass
import io
import json
import re
import socket
import stat
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import ROOT
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.explain import assembling
from gravbench.model import interaction_files
from gravbench.model.record import Record
from gravbench.model.run_names import find
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.variant import discover
from gravbench.sharing import bundle, checks, code_checks, kernels, merkle, redaction, writing
from gravbench.sharing.bundle import FACTS, TREE
from tampering import CPU, FAILURES, FOUND, GPU, HIDDEN, SOURCE, records_of, sealed, with_records

RUNS = sorted(path.parent for path in (ROOT / "reports").glob("*/*/records.jsonl"))
OF_ANY_SIZE = [pytest.param(run, marks=[pytest.mark.slow] * (run.parent.name == "search"), id=run.name) for run in RUNS]
LADDER = ROOT / "reports" / "h100" / "ladder"
UUID = re.compile(rb"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")


@cache
def shared(run):
    """The files of a packaged run's bundle."""
    return bundle.with_tree(writing.files_of(find(run), discover(), warnings.warn))


def read(files, folder):
    path = folder / "run.gravbench.zip"
    path.write_bytes(bundle.packed(files))
    return bundle.read(path)


def decided(check, made):
    (found,) = [each for each in checks.every(all_kernels=True) if each.name == check]
    try:
        return found.decide(made)
    except InputError as error:
        return code_checks.Outcome([str(error)])


@cache
def found_before(run, check):
    """What a check finds in the bundle of a packaged run, which nobody tampered with."""
    with tempfile.TemporaryDirectory() as folder:
        return decided(check, read(shared(run), Path(folder))).findings


# What is found.


@pytest.mark.parametrize("name", FOUND)
def test_tampering_is_found_by_the_check_that_is_for_it(name, tmp_path):
    way = FOUND[name]
    files = way.change(shared(way.run))
    made = read(sealed(files) if way.sealed else files, tmp_path)
    assert found_before(way.run, way.check) == []
    assert decided(way.check, made).findings != []
    if way.sealed:
        assert decided("hashes", made).findings == []
        assert decided("description", made).findings == []


@pytest.mark.parametrize("name", HIDDEN)
def test_what_the_page_says_cannot_be_found_is_not_found(name, tmp_path):
    way = HIDDEN[name]
    made = read(sealed(way.change(shared(way.run))), tmp_path)
    assert checks.verify(made).consistent


def test_a_result_that_is_said_to_be_lacking_is_told_of(tmp_path):
    way = HIDDEN["a removed result that is declared missing"]
    outcome = decided("plan", read(sealed(way.change(shared(way.run))), tmp_path))
    assert any("1 planned result without a record" in sentence for sentence in outcome.unchecked)


def test_the_page_names_every_way_of_tampering():
    page = " ".join((ROOT / "docs" / "how-to" / "share.md").read_text("utf-8").split())
    assert [name for name in (*FOUND, *HIDDEN) if name not in page] == []


@pytest.mark.parametrize("run", [GPU, CPU, FAILURES], ids=["gpu", "cpu", "failures"])
def test_a_packaged_run_is_consistent(run, tmp_path):
    answer = checks.verify(read(shared(run), tmp_path))
    assert {name: outcome.findings for name, outcome in answer.outcomes.items() if outcome.findings} == {}


def test_a_run_that_was_continued_is_consistent(tmp_path):
    """A start that continues a run plans its repeated anchors once more."""
    start = json.loads(shared(CPU)[ENVIRONMENT])[0]
    again = start | {"command": f"{start['command']} --resume", "planned": start["planned"] + 1}
    made = read(sealed(shared(CPU) | {ENVIRONMENT: json.dumps([start, again]).encode()}), tmp_path)
    assert checks.verify(made).consistent


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=pytest.mark.slow if run.name == "counters" else pytest.mark.corpus) for run in RUNS],
    ids=lambda run: run.name,
)
def test_every_packaged_run_is_consistent(run, tmp_path):
    answer = checks.verify(read(bundle.with_tree(writing.files_of(run, discover(), warnings.warn)), tmp_path))
    assert {name: outcome.findings for name, outcome in answer.outcomes.items() if outcome.findings} == {}


# What is shared.


def test_every_field_of_a_record_has_a_rule():
    assert redaction.without_rule() == []
    assert redaction.RULED.keys() <= redaction.RECORD.keys()


@pytest.mark.parametrize("run", OF_ANY_SIZE)
def test_no_uuid_host_user_or_folder_of_a_packaged_run_is_shared(run, monkeypatch):
    # Code and kernels are this checkout's, and take long.
    monkeypatch.setattr(writing, "_codes", lambda *_: ([], {}, {}))
    files = writing.files_of(run, discover(), warnings.warn)
    raw = b"".join((run / name).read_bytes() for name in (RECORDS, ENVIRONMENT))
    whole = b"\n".join(files.values())
    assert UUID.findall(whole) == []
    assert [uuid for uuid in set(UUID.findall(raw)) if uuid in whole] == []
    own = {str(Path.home()), socket.gethostname(), getpass.getuser()} - {"root", "localhost", "/"}
    assert [word for word in own if re.search(rf"\b{re.escape(word)}\b".encode(), whole)] == []
    assert re.findall(rb"/(?:home|root|usr|tmp|opt|Users)/[\w.]+", files[RECORDS] + files[ENVIRONMENT]) == []
    assert len(records_of(files)) == len(RecordFile(run).read())


def test_texts_lose_what_names_a_machine_or_a_person(monkeypatch):
    monkeypatch.setattr(redaction, "local_names", lambda: {"gpu-node-17": "HOST", "mallory": "USER"})
    rules = redaction.Redaction(b"salt")
    assert rules.prose("nvcc at /usr/local/cuda/bin/nvcc failed on GPU-NODE-17 for mallory") == (
        "nvcc at nvcc failed on HOST for USER"
    )
    assert (
        rules.prose("see https://example.org/a/b and 3 interactions/s")
        == "see https://example.org/a/b and 3 interactions/s"
    )
    paths = "-I/home/m/include /a:/home/m/lib file:///home/m/x.py ~m/y.cu (../m/z) p=/opt/q/ C:/r"
    assert rules.prose(paths) == "-Iinclude a:lib x.py y.cu (z) p=q C:r"
    assert rules.prose("at http://node3:8787/status") == "at ADDRESS"
    assert rules.prose("from 10.0.0.5 and 10.0.0.6:8786, not fe80::1, by ::1") == (
        "from ADDRESS and ADDRESS, not ADDRESS, by ADDRESS"
    )
    # Versions are no addresses, and neither are names of C++.
    kept = "driver 580.159.04 and 32.0.15.8129, std::vector, a::b at 12:30:05"
    assert rules.prose(kept) == kept
    assert rules.prose("CUDA_HOME=/home/alice, ~alice or /Users/alice/ but /home/alice/x") == (
        "CUDA_HOME=USER, USER or USER but x"
    )
    command = rules.command(
        "gravbench run /home/mallory/my.yaml --bodies=../x/cold.tab --scheduler tcp://10.0.0.7:8786"
    )
    assert command == "gravbench run my.yaml --bodies=cold.tab --scheduler ADDRESS"
    start = rules.start({"devices": [{"selector": "node9:cuda:0", "name": "NVIDIA H200", "serial": "17"}], "secret": 1})
    assert start == {"devices": [{"selector": "host1:cuda:0", "name": "NVIDIA H200"}]}
    assert rules.prose("the worker tcp://10.1.2.3:99 on node9 ended") == "the worker ADDRESS on host1 ended"
    assert rules.selector("cuda:1") == "cuda:1"


def test_cards_are_told_apart_within_a_run_and_not_known_in_another():
    first, second = redaction.Redaction(b"one"), redaction.Redaction(b"two")
    cards = [f"GPU-10fca55d-0ff4-9bd1-922b-b52d37fbdda{digit}" for digit in "ab"]
    names = [first.hashed(card) for card in cards]
    assert names[0] != names[1]
    assert first.hashed(cards[0]) == names[0]
    assert second.hashed(cards[0]) != names[0]
    assert all(re.fullmatch(r"GPU-[0-9a-f]{16}", name) for name in names)


def test_the_same_run_gives_the_same_bytes():
    again = bundle.with_tree(writing.files_of(find(GPU), discover(), warnings.warn))
    assert bundle.packed(again) == bundle.packed(shared(GPU))


def test_a_record_keeps_every_number_and_its_case():
    before = RecordFile(find(GPU)).read()
    after = [Record.of_line(line) for line in shared(GPU)[RECORDS].splitlines()]
    assert [record.key for record in after] == [record.key for record in before]
    changed = {
        name for one, other in zip(before, after, strict=True) for name, value in one if value != getattr(other, name)
    }
    assert changed == {"device_uuid", "toolkit_version"}  # the latter names the path of nvcc


def test_code_of_another_version_is_not_shared_as_what_ran(tmp_path):
    records = [fields | {"code_sha256": "1" * 64} for fields in records_of(shared(GPU))]
    run = tmp_path / "run"
    run.mkdir()
    (run / RECORDS).write_bytes(b"".join(map(redaction.line, records)))
    (run / ENVIRONMENT).write_bytes(shared(GPU)[ENVIRONMENT])
    facts = json.loads(writing.files_of(run, discover(), warnings.warn)[FACTS])
    assert facts["codes"] == facts["kernels"] == []
    assert facts["without_code"] == len(records)


def test_the_root_depends_on_names_contents_and_nothing_else():
    digests = {name: merkle.digest(name.encode()) for name in "abcde"}
    assert merkle.root(digests) == merkle.root(dict(reversed(digests.items())))
    roots = {
        merkle.root(digests),
        merkle.root({**digests, "e": digests["a"]}),
        merkle.root({**digests, "f": digests["a"]}),
    }
    renamed = {("g" if name == "e" else name): value for name, value in digests.items()}
    assert len(roots | {merkle.root(renamed)}) == 4


# What a hostile file can do.


def archive(entries):
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        warnings.simplefilter("ignore")  # two files of one name
        for name, content in entries:
            made.writestr(name, content)
    return out.getvalue()


def link():
    info = zipfile.ZipInfo("code/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def lying_size(content):
    """Let the archive say of every file that it is one byte."""
    place = content.find(b"PK\x01\x02")
    while place >= 0:
        content = content[: place + 24] + b"\1\0\0\0" + content[place + 28 :]
        place = content.find(b"PK\x01\x02", place + 4)
    return content


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _: b"no archive", "is no readable ZIP archive"),
        (lambda whole: archive([*whole, ("../evil", b"")]), "a file of the name ../evil"),
        (lambda whole: archive([*whole, ("/etc/evil", b"")]), "a file of the name /etc/evil"),
        (lambda whole: archive([*whole, ("code/a/b/c/d/e", b"")]), "a file of the name"),
        (lambda whole: archive([*whole, (link(), b"/etc/passwd")]), "is a link"),
        (lambda whole: archive([*whole, whole[0]]), "two files of one name"),
        (lambda whole: archive([*whole, ("zeros", bytes(1 << 22))]), "bytes made of"),
        (lambda whole: archive([*whole, *((f"f{number}", b"") for number in range(5_000))]), "more than 5,000"),
        (lambda whole: archive(whole[1:]), "no bundle.json in it"),
        (lambda whole: lying_size(archive(whole)), "ZIP archive"),
        (lambda whole: archive(whole)[:-40], "is no readable ZIP archive"),
    ],
)
def test_a_hostile_archive_is_refused_in_one_sentence(make, says, tmp_path):
    path = tmp_path / "run.zip"
    path.write_bytes(make(sorted(shared(CPU).items())))
    with pytest.raises(InputError, match=re.escape(says)) as refused:
        bundle.read(path)
    assert len(refused.value.args) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_large_archive_and_one_that_is_not_there_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_BYTES", 10)
    path = tmp_path / "run.zip"
    path.write_bytes(bytes(11))
    with pytest.raises(InputError, match="more than"):
        bundle.read(path)
    with pytest.raises(InputError, match="no such file"):
        bundle.read(tmp_path / "other.zip")


@pytest.mark.parametrize("name", [RECORDS, ENVIRONMENT, FACTS, TREE, "ro-crate-metadata.json"])
@pytest.mark.parametrize("content", [b"", b"[" * 40_000, b'{"files": 1}', b"\xff\xfe", b"[1, 2]"])
def test_files_of_any_content_are_found_and_end_no_check(name, content, tmp_path):
    answer = checks.verify(read(shared(CPU) | {name: content}, tmp_path))
    assert answer.outcomes["hashes"].findings != []


HOSTILE = (
    *(None, True, -1, 0, 2**31, 2**63, 10**400, 1e308, 5e-324, "NaN", "Infinity", "", "\x1b[31m", "../../etc/passwd"),
    *("\ud800", "x" * 5_000, [], {}, [[]], {"": None}, [1e308] * 5, {"p": 10**9, "unroll": -1}, [0.5] * 3),
)
"""Values that no run writes."""


@pytest.mark.parametrize("run", [CPU, pytest.param(FAILURES, marks=pytest.mark.slow)], ids=["cpu", "failures"])
def test_values_that_no_run_writes_end_no_check(run, tmp_path):
    random = np.random.default_rng(1)
    whole = shared(run)
    for _ in range(20):
        records = records_of(whole)
        entries = json.loads(whole[ENVIRONMENT])
        stated = json.loads(whole[FACTS])
        for place in (records[random.integers(len(records))], entries[0], stated):
            place[str(random.choice(sorted(place)))] = HOSTILE[random.integers(len(HOSTILE))]
        files = whole | {
            RECORDS: b"".join(map(redaction.line, records)),
            ENVIRONMENT: json.dumps(entries).encode(),
            FACTS: json.dumps(stated).encode(),
        }
        answer = checks.verify(read(bundle.with_tree(files), tmp_path))
        said = [sentence for outcome in answer.outcomes.values() for sentence in outcome.findings]
        assert [sentence for sentence in said if "end the check" in sentence] == []


def test_a_launch_that_no_device_has_and_axes_that_no_variant_has_prepare_nothing(tmp_path):
    records = [fields | {"waves": 5e-324, "axes": fields["axes"] | {"p": 10**9}} for fields in records_of(shared(GPU))]
    outcome = decided("machine code", read(with_records(shared(GPU), records), tmp_path))
    assert any("accepts no such p here" in sentence for sentence in outcome.unchecked)


def test_what_a_bundle_says_reaches_no_terminal_as_a_command(tmp_path):
    stated = json.loads(shared(CPU)[FACTS])
    stated["codes"][0]["stems"][0]["python"] = "\x1b[31mred/launch"
    path = tmp_path / "run.zip"
    path.write_bytes(bundle.packed(shared(CPU) | {FACTS: json.dumps(stated).encode()}))
    answer = CliRunner().invoke(app, ["verify", str(path)])
    assert answer.exit_code == 1
    assert "\x1b[31mred" not in answer.output
    assert "x1b" in answer.output


@pytest.mark.parametrize(
    "text",
    [
        '#include "/etc/passwd"',
        '# /* */ include "x"',
        '#inc\\\nlude "x"',
        '%:include "x"',
        '??=include "x"',
        '#embed "x"',
    ],
)
def test_a_text_of_another_source_that_includes_a_file_is_not_compiled(text):
    job = kernels.Job(f"{text}\n", (), "float32", "sm_90")
    (answer,) = kernels.compiled([job], trusted=False)
    assert answer.refusal == kernels.INCLUDES


def test_a_text_that_takes_for_ever_to_compile_is_given_up():
    endless = "template <int n> struct T { T<n - 1> a; T<n - 2 + (n & 1)> b; }; template struct T<100000>;"
    bomb = "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); } static_assert(f(60) > 0);"
    jobs = [kernels.Job(text, (), "float32", "sm_90") for text in (endless, bomb)]
    answers = kernels.compiled(jobs, trusted=False, seconds=3)
    assert all(answer.refusal and not answer.cubin for answer in answers)


# The commands.


def test_share_and_verify_as_a_person_calls_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["share", GPU])
    assert told.exit_code == 0, told.output
    file = tmp_path / "naive.gravbench.zip"
    assert "Check it: gravbench verify naive.gravbench.zip" in told.output
    answer = CliRunner().invoke(app, ["verify", str(file)])
    assert answer.exit_code == 0
    assert answer.output.startswith("CONSISTENT")
    as_json = json.loads(CliRunner().invoke(app, ["verify", str(file), "--json", "--all-kernels"]).output)
    assert as_json["consistent"]
    assert as_json["root"] in " ".join(told.output.split())
    records = records_of(shared(GPU))
    records[0]["median_seconds"] *= 0.9
    file.write_bytes(bundle.packed(sealed(with_records(shared(GPU), records))))
    wrong = CliRunner().invoke(app, ["verify", str(file)])
    assert wrong.exit_code == 1
    assert wrong.output.startswith("INCONSISTENT")
    assert "line 1 (naive pycuda" in " ".join(wrong.output.split())


def test_show_prints_what_would_be_shared_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["share", GPU, "--show"])
    assert told.exit_code == 0
    assert list(tmp_path.iterdir()) == []
    assert all(name in told.output for name in ("records.jsonl", SOURCE, "device_uuid: GPU-", "operating_system"))


def test_without_rocrate_share_says_what_to_install_and_verify_works(tmp_path, monkeypatch):
    made = read(shared(CPU), tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "rocrate.rocrate", None)
    with pytest.raises(InputError, match=r"pip install 'gravbench\[share\]'"):
        writing.files_of(find(CPU), discover(), warnings.warn)
    assert checks.verify(made).consistent


def test_without_nvrtc_machine_code_is_said_not_to_be_checked(tmp_path, monkeypatch):
    made = read(shared(GPU), tmp_path)
    monkeypatch.setattr(code_checks.nvrtc, "is_usable", lambda: False)
    outcome = decided("machine code", made)
    assert outcome.findings == []
    assert any("NVRTC" in sentence for sentence in outcome.unchecked)


@pytest.mark.skipif(bool(assembling.missing()), reason=assembling.missing() or "")
@pytest.mark.parametrize(("unroll", "bounded"), [(64, False), (32, True)])
def test_a_loop_that_has_only_the_rest_of_a_tile_bounds_no_rate(unroll, bounded):
    """A record of a kernel whose loop over a tile is unrolled whole was faster than the bound of what was left."""
    variants = discover()
    (ran, *_) = [each for each in RecordFile(LADDER).read() if (each.variant, each.toolkit) == ("tiled", "cupy")]
    record = ran.model_copy(update={"axes": variants["tiled"].complete({"p": 64, "unroll": unroll})})
    ((stem, constants),) = kernels.Asked(variants).by(record)
    job = kernels.Job(variants[stem].cuda_source(interaction_files.find("gravity")), constants, "float32", "sm_90")
    bounds = code_checks.Bounds()
    said = bounds.add(job, stem, *kernels.compiled([job], trusted=True), mutual=False)
    assert said == (
        [] if bounded else ["no bound: its loop over a tile is unrolled whole, so no loop has its interactions alone"]
    )
    assert (bounds.of(job.source, [(stem, frozenset(constants), "float32", None)]) is not None) == bounded


def test_another_compiler_decides_nothing_about_machine_code(tmp_path, monkeypatch):
    made = read(shared(GPU), tmp_path)
    monkeypatch.setattr(code_checks, "compiler", lambda: "NVRTC 99.0")
    outcome = decided("machine code", made)
    assert outcome.findings == []
    assert any("but NVRTC 99.0 is installed" in sentence for sentence in outcome.unchecked)
