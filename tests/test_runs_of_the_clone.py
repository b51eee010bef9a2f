"""The runs that a clone brings: found from any folder, behind a person's own, and only read there."""

import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, invoke
from gravbench import api, packaged
from gravbench.cli import completion
from gravbench.errors import InputError
from gravbench.model import run_names, runs
from gravbench.model.runs import RECORDS, RecordFile
from test_record import record

LADDER = ROOT / "reports" / "h100" / "ladder"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Be in a folder without runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Run from a made-up clone with two runs and the ceilings of a device."""
    clone = tmp_path / "clone"
    for name in ("card/ladder", "card/arena"):
        RecordFile(clone / "reports" / name).append(record(n=64))
    (clone / "reports" / "card" / "ceilings").mkdir()
    (clone / "reports" / "card" / "ceilings" / runs.CEILINGS).write_text("{}")
    (clone / packaged.SOURCES).mkdir()
    monkeypatch.setattr(packaged, "folder", lambda _: clone / packaged.SOURCES)
    return clone


def refused(name):
    with pytest.raises(InputError) as said:
        run_names.find(name)
    return str(said.value)


def test_the_runs_of_the_clone_are_found_from_any_folder(elsewhere):
    assert packaged.runs_of_the_clone() == ROOT / "reports"
    assert run_names.find("h100/ladder") == run_names.find("h100/ladder/") == LADDER
    assert "h100/ladder" in completion.runs("h100/l")
    assert api.compare("h100/gems3", "h100/gems3").pairs
    done = invoke("export", "h100/gems3", "--to", "all.csv")
    assert done.exit_code == 0, done.output
    assert f"h100/gems3: {LADDER.parent / 'gems3'}, a run of the clone of gravbench\n" in done.stderr
    assert sorted(path.name for path in elsewhere.iterdir()) == ["all.csv"]


def test_a_run_of_ones_own_and_a_path_come_before_those_of_the_clone(elsewhere, clone):
    assert run_names.find("card/ladder") == clone / "reports" / "card" / "ladder"
    RecordFile(elsewhere / "reports" / "card" / "ladder").append(record(n=64))
    assert run_names.find("card/ladder").resolve() == elsewhere / "reports" / "card" / "ladder"
    RecordFile(elsewhere / "card" / "ladder").append(record(n=64))
    assert run_names.find("card/ladder").resolve() == elsewhere / "card" / "ladder"
    # Behind a name of one's own sweep, too.
    RecordFile(elsewhere / "reports" / "arena-20270101-000000").append(record(n=64))
    RecordFile(clone / "reports" / "arena").append(record(n=64))
    assert run_names.find("arena").name == "arena-20270101-000000"
    for path in (clone / "reports" / "card" / "ladder", clone / "reports" / "card" / "ladder" / RECORDS):
        assert run_names.find(str(path)) == clone / "reports" / "card" / "ladder"


def test_folders_that_are_no_runs_are_found_by_their_names_too(elsewhere, clone):
    ceilings = clone / "reports" / "card" / "ceilings"
    assert refused("card/ceilings").startswith("card/ceilings: not a run, but the measured peak rates of a device")
    assert run_names.located(ceilings.relative_to(clone / "reports")) == ceilings
    (elsewhere / "card" / "ceilings").mkdir(parents=True)
    assert run_names.located(ceilings.relative_to(clone / "reports")) == ceilings.relative_to(clone / "reports")
    assert run_names.located(elsewhere / "nowhere") == elsewhere / "nowhere"
    for words in (
        ["peaks", "--from"],
        ["selftest", "--from"],
        ["explain", "validate", "card/ladder", "--peaks"],
    ):
        done = invoke(*words, "card/nowhere")
        assert str(done.exception) == f"{words[-1]} card/nowhere: no such folder, neither as a path nor below reports/"


def test_an_unknown_run_is_answered_with_ones_own_and_those_of_the_clone(elsewhere, clone):
    assert refused("card/lader") == (
        f"card/lader: no such run; did you mean card/ladder? there is none below {elsewhere / 'reports'} yet; "
        "`gravbench run quick` makes one; the clone of gravbench has card/arena, card/ladder"
    )
    RecordFile(elsewhere / "reports" / "mine").append(record(n=64))
    assert refused("card/lader") == (
        "card/lader: no such run, neither a folder with a records.jsonl nor a name; did you mean card/ladder? "
        "accepted: mine; the clone of gravbench has card/arena, card/ladder"
    )
    assert refused("card") == "card: a folder of 2 runs; accepted: one of card/arena, card/ladder"
    for number in range(12):
        RecordFile(clone / "reports" / f"many-{number:02}").append(record(n=64))
    assert refused("x").endswith(
        f"has card/arena, card/ladder, {', '.join(f'many-{i:02}' for i in range(8))} and 4 more"
    )


def test_in_the_clone_its_runs_are_ones_own(clone, monkeypatch):
    monkeypatch.chdir(clone)
    assert str(run_names.find("card/ladder")) == "reports/card/ladder"
    assert not run_names.is_of_the_clone(run_names.find("card/ladder"))
    assert refused("x").endswith("accepted: card/arena, card/ladder")


def test_nothing_is_written_into_a_run_of_the_clone_from_elsewhere(elsewhere, clone):
    before = {path: path.read_bytes() for path in clone.rglob("*") if path.is_file()}
    done = invoke("explain", "bottleneck", "card/ladder")
    assert str(done.exception) == (
        f"RUN card/ladder: {clone / 'reports' / 'card' / 'ladder'} is a run of the clone of gravbench, which is "
        "only read from elsewhere; accepted: a run of your own, or the same command in the clone"
    )
    assert {path: path.read_bytes() for path in clone.rglob("*") if path.is_file()} == before
    # A folder to write to is a path, never a name.
    assert runs.new_folder("quick").resolve().parent == elsewhere / "reports"


def test_a_plain_installation_says_where_the_runs_are(tmp_path):
    site, here = tmp_path / "site", tmp_path / "here"
    for source, place in (
        ("harness", "gravbench"),
        ("variants", "gravbench/variants"),
        ("configs", "gravbench/configs"),
    ):
        shutil.copytree(ROOT / source, site / place, ignore=shutil.ignore_patterns("__pycache__"))
    here.mkdir()
    environment = os.environ | {"PYTHONPATH": str(site)}
    where = [sys.executable, "-c", "import gravbench; print(gravbench.__file__)"]
    done = subprocess.run(where, cwd=here, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{site / 'gravbench' / '__init__.py'}\n"
    words = [sys.executable, "-m", "gravbench", "report", "h100/ladder"]
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        f"gravbench: h100/ladder: no such run; there is none below {here / 'reports'} yet; `gravbench run quick` makes "
        "one; published runs such as h100/ladder are in a clone of gravbench, not in this installation\n",
    )
    words = [sys.executable, "-m", "gravbench", "peaks", "--from", "h200/ceilings"]
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "gravbench: --from h200/ceilings: no such folder, neither as a path nor below reports/; published runs such as "
        "h100/ladder are in a clone of gravbench, not in this installation\n",
    )
