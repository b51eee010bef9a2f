"""What is said to a person who made a mistake: whole sentences, as they stand on the terminal and in a pipe."""

import pytest
from typer.testing import CliRunner

from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.compiler_log import sentences
from gravbench.model.variant import SHARED, discover
from gravbench.toolkits import devices


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Be in an empty folder, with a memory of one's own and without a GPU."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)


def invoke(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})


def refused(*words):
    """Return the lines that a command ends with."""
    done = invoke(*words)
    assert isinstance(done.exception, InputError), (done.output, done.exception)
    return str(done.exception).splitlines()


@pytest.fixture
def mine(tmp_path):
    """Make a variant of one's own; the function changes one of its files and returns the path."""
    assert invoke("new", "mine").exit_code == 0

    def change(suffix, *pairs):
        path = tmp_path / "mine" / f"mine{suffix}"
        text = path.read_text("utf-8")
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text, "utf-8")
        return path

    return change


# Kernels that explain compiles


def test_a_kernel_of_another_name_is_named_with_those_that_the_file_has(mine):
    path = mine(".cu", ("    mine(const Body", "    mein(const Body"))
    accepted = 'accepted: extern "C" __global__ void mine(...)'
    assert refused("explain", "mine") == [f"{path}: no kernel mine; it has mein; {accepted}"]


def test_what_does_not_compile_is_said_with_the_file_and_the_line_of_each_error(mine):
    path = mine(".cu", ("thread = threadIdx.x;", "thread = threadIdx.x"), ("const Body self", "const Bodi self"))
    lines = path.read_text("utf-8").splitlines()
    after, wrong = (next(i for i, line in enumerate(lines, 1) if word in line) for word in ("blockIdx.x", "Bodi"))
    said = [
        f'{path}, line {after}: expected a ";"',
        f'{path}, line {wrong}: identifier "Bodi" is undefined',
        f'{path}, line {wrong}: identifier "i" is undefined',
    ]
    assert refused("explain", "mine") == said
    assert refused("explain", "tiled", "--against", "mine") == said
    assert refused("source", "mine", "--machine-code") == said


def test_what_the_assembler_refuses_is_said_with_the_file_and_without_its_remarks(mine):
    path = mine(".cu", ("tile[P]", "tile[1000 * P]"))
    assert refused("explain", "mine") == [
        f"{path}: it does not compile for sm_90: ptxas error   : Entry function 'mine' uses too much shared data "
        "(0x3e8000 bytes, 0xc000 max)"
    ]


def test_errors_of_a_compiler_are_read_from_its_lines_and_from_the_reason_of_a_record():
    stem = discover()["tiled"].path
    lines = [
        'tiled.cu(3): error: expected a ";"',
        "  int a",
        "body.cuh(4): warning #1: odd",
        "body.cuh(5): error: no T",
    ]
    said = [f'{stem.with_suffix(".cu")}, line 3: expected a ";"', f"{SHARED / 'body.cuh'}, line 5: no T"]
    assert sentences("\n".join(lines), stem) == sentences("; ".join(lines), stem) == said
    assert sentences('gravity(7): catastrophic error: no "x"\n' * 2, stem) == ['gravity, line 7: no "x"']
    assert sentences("ptxas error   : too much", stem) == []


# Files that declare no variant


def test_a_file_whose_decorator_is_misspelt_is_named_wherever_its_variant_is_asked_for(mine):
    path = mine(".py", ("@variant(", "@varient("))
    line = path.read_text("utf-8").splitlines().index("@varient(") + 1
    said = (
        f"{path}, line {line}: no @variant(...) but @varient, so that the file declares no variant; "
        "accepted: @variant(...) above prepare"
    )
    for command in ("run", "check", "selftest"):
        assert refused(command, "mine/mine.yaml") == [f'mine/mine.yaml, line 6: no variant "mine"; {said}']
    assert refused("explain", "mine") == [f'VARIANT "mine": no such variant; {said}']
    assert refused("explain", "tiled", "--against", "mine") == [f'--against "mine": no such variant; {said}']
    assert refused("source", "mine") == [f"there is no variant mine; {said}"]
    assert refused("list", "mine") == [f"mine is neither a variant nor an interaction; {said}"]
    assert refused("movie", "mine") == [f"VARIANT mine: no such variant; {said}"]


def test_a_file_without_a_decorator_is_named_too_and_one_of_another_name_is_not(mine):
    path = mine(".py", ("@variant(", "dict("))
    assert refused("list", "mine")[0].startswith(
        f"mine is neither a variant nor an interaction; {path}: no @variant(...), so that the file declares no variant"
    )
    assert "declares no variant" not in refused("list", "mein")[0]


# What a dry run prints


def test_a_dry_run_counts_the_cases_that_it_would_skip_by_their_reasons(monkeypatch):
    reason = "no NVIDIA GPU: none in this test"
    monkeypatch.setattr(devices, "gpus", lambda: ([], reason))
    words = ("run", "quick", "-p", "n=64,128", "--variant", "naive", "--variant", "numpy_direct", "--toolkit", "numba")
    lines = invoke(*words, "--toolkit", "cpu", "--dry-run").stdout.splitlines()
    assert lines[0] == f"naive numba n=64 float32 p=256 (skipped: {reason})"
    assert all(line.startswith("numpy_direct cpu n=") for line in lines[1:-2])
    assert lines[-2:] == [
        f"2 cases skipped: {reason}",
        f"{len(lines) - 3} measurements, up to about 8 s; nothing was measured",
    ]
    lines = invoke("run", "ladder", "--dry-run").stdout.splitlines()
    assert sum("(skipped: " in line for line in lines) == 1
    assert lines[-2].endswith(f" cases skipped: {reason}")
