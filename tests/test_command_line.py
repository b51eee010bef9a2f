"""The command line as a person meets it: in a folder of one's own, without a GPU; as a process where that matters."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.text import Text

from conftest import flat
from gravbench import api
from gravbench.cli.main import main
from gravbench.cli.options import app
from gravbench.errors import MOST_CHARACTERS, InputError
from gravbench.model import interaction_files
from gravbench.model.runs import RECORDS, RecordFile, newest
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.toolkits.devices import family
from test_record import record

LONG = "a" * 300
"""More characters than the name of a file may have."""

FAULTY = Path(__file__).parent / "faulty" / "cpu"
PROTOCOL = "measure: {processes: 1, budget_seconds: 0.05, warm_up_seconds: 0, min_samples: 6, timeout_seconds: 600}\n"
TINY = f"n: [16, 20]\n{PROTOCOL}variants: numpy_direct\n"

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
# No GPU on any machine, and a terminal of the usual width.
ENVIRONMENT |= {"COLUMNS": "80", "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""}


def gravbench(folder, *words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "gravbench", *words],
        cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that does in this process what ``gravbench`` does in one of its own.

    It takes the words of the command, the folder to be in, by default the test's own, and variables of the environment.
    """
    for name in os.environ.keys() - ENVIRONMENT.keys():
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def command(*words, folder=tmp_path, **environment):
        monkeypatch.chdir(folder)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["gravbench", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=printed.out, stderr=printed.err)

    return command


def content(folder):
    """Everything in the folder but bytecode: the bytes of each file, None for each folder."""
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }


def assert_narrow(text):
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY, "utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder in which ``run`` was called once; returns it and what was printed."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "tiny.yaml").write_text(TINY, "utf-8")
    done = gravbench(folder, "run", "tiny.yaml", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def run_of(folder):
    (run,) = (folder / "reports").iterdir()
    return run


# Help


def every_help():
    """Return the texts of help, by the words of their command."""
    group = typer.main.get_command(app)
    found = {"": group}
    for name, command in group.commands.items():
        found |= {name: command, **{f"{name} {sub}": one for sub, one in getattr(command, "commands", {}).items()}}
    for words, command in found.items():
        yield words, command.help or ""
        yield from ((f"{words} {one.name}", getattr(one, "help", None) or "") for one in command.params)


def test_nothing_of_a_help_text_is_taken_for_markup():
    texts = list(every_help())
    assert len(texts) > 100
    assert [(words, text) for words, text in texts if Text.from_markup(text).plain != text] == []


def test_help_names_every_command_imports_nothing_heavy_and_answers_at_once(tmp_path):
    script = """
import sys, time
from gravbench.cli.main import app
for words in (["--help"], ["run", "--help"], ["report", "-h"], ["doctor", "-h"], ["list", "-h"]):
    app(words, standalone_mode=False)
heavy = {"numpy", "numba", "scipy", "cupy", "pycuda", "pynvml"} & set(sys.modules)
print(sorted(heavy), time.process_time(), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage") == 5
    for command in ("list", "run", "check", "report", "doctor"):
        assert f" {command} " in done.stdout
    # A bracket in a sentence would be taken for markup.
    assert "(default: reports/CONFIG-DATE-TIME)" in " ".join(done.stdout.replace("│", " ").split())
    heavy, seconds = done.stderr.rsplit(" ", 1)
    assert heavy == "[]"
    # Five answers, a fifth of a second of computing for each where this was written.
    assert float(seconds) < 5


# What a person does wrong

WRONG = {
    "no such configuration": (["run", "nosuch"], "nosuch"),
    "a misspelt packaged configuration": (["run", "quik"], "did you mean quick?"),
    "no such configuration to check": (["check", "nosuch.yaml"], "nosuch.yaml"),
    "a misspelt axis": (["run", "quick", "-p", "unrol=4"], 'unrol"; did you mean unroll?'),
    "a misspelt axis in the file": (["run", "axis.yaml"], 'unrol"; did you mean unroll?'),
    "a value the axis has not": (["run", "quick", "-p", "p=257"], "257"),
    "a misspelt variant": (["run", "quick", "--variant", "tild"], "tild"),
    "a misspelt toolkit": (["run", "quick", "--toolkit", "cuppy"], "cuppy"),
    "no file of bodies": (["run", "tiny.yaml", "--bodies", "missing.txt"], "missing.txt"),
    "no file of bodies in the file": (["run", "bodies.yaml"], "missing.txt"),
    "no bodies": (["run", "tiny.yaml", "-p", "n=0"], "n is 0"),
    "no bodies in the file": (["run", "none.yaml"], "n is 0"),
    "no such device": (["run", "tiny.yaml", "--device", "cuda:7"], "--device cuda:7"),
    "no such device to check on": (["check", "tiny.yaml", "--device", "tpu"], "--device tpu"),
    "no such device in a dry run": (["run", "tiny.yaml", "--dry-run", "--device", "cuda:7"], "--device cuda:7"),
    "no case of the variant on the toolkit": (["run", "quick", "--variant", "naive", "--toolkit", "cpu"], "no case of"),
    "no case that the file's when leaves": (["run", "when.yaml"], "no case is left"),
    "no case that when leaves of what is chosen": (["run", "when.yaml", "-p", "n=8"], "when: n > 16"),
    "no case for the device": (["run", "gpu.yaml", "--device", "cpu"], "--device cpu: no case of gpu.yaml runs on it"),
    "no case for the device in a dry run": (["run", "gpu.yaml", "--device", "cpu", "--dry-run"], "cupy, numba"),
    "no case for the device to check on": (["check", "gpu.yaml", "--device", "cpu"], "no case of gpu.yaml"),
    "no case for the device and a folder": (
        ["run", "gpu.yaml", "--device", "cpu", "--out", "o"],
        "no case of gpu.yaml",
    ),
    "no such run": (["report", "nosuch"], "nosuch"),
    "a folder without records": (["report", "empty"], "empty"),
    "a run with a spoilt record": (["report", "spoilt"], f"spoilt/{RECORDS}, line 1"),
    "a folder that has records": (["run", "tiny.yaml", "--device", "cpu", "--out", "spoilt"], "--resume"),
    "a file as the folder": (["run", "tiny.yaml", "--device", "cpu", "--out", "tiny.yaml"], "tiny.yaml"),
    "a folder below a file": (["run", "tiny.yaml", "--device", "cpu", "--out", "tiny.yaml/below"], "tiny.yaml"),
    "resuming where nothing was run": (["run", "tiny.yaml", "--resume"], "tiny"),
    "no such command": (["rum"], "No such command 'rum'"),
    "no such option": (["run", "quick", "--nosuch"], "No such option: --nosuch"),
    "an option without its value": (["run", "quick", "--device"], "'--device' requires an argument"),
    "a text in the place of a number": (["selftest", "--pairs", "x"], "Invalid value for '--pairs'"),
    "no configuration": (["run"], "Missing argument 'CONFIG'; see gravbench run --help"),
    "no search": (
        ["run", "quick", "--search", "rase"],
        "'--search': 'rase' is not one of 'all', 'race', 'random', 'tpe'; s",
    ),
    "a configuration of a name too long": (["run", LONG], "cannot be read: File name too long"),
    "a folder of a name too long": (["run", "tiny.yaml", "--out", LONG], "File name too long"),
    "bodies of a name too long": (["run", "tiny.yaml", "--bodies", LONG], "neither a file nor a generator"),
    "an interaction of a name too long": (
        ["run", "tiny.yaml", "-p", f"interaction={LONG}"],
        "neither a file nor a packaged",
    ),
    "a source for an interaction of a name too long": (
        ["source", "tiled", "--interaction", LONG],
        "File name too long",
    ),
    "a run of a name too long": (["report", LONG], "no such run"),
    "folders of a name too long": (["run", "folders.yaml"], "is not a folder"),
    "control characters": (["run", "\x1b[31m\n"], r"\x1b[31m\n: no such file"),
    "an option with control characters": (["run", "--\x1b[31m"], r"--\x1b[31m"),
    "a very long value": (["run", "tiny.yaml", "-p", "n=" + "x" * 100_000], "-p n=xxx"),
    "a pipe as the bodies": (["run", "tiny.yaml", "--bodies", "pipe.tab"], "neither a file nor a generator"),
    "a variant that ends the program": (["run", "ends.yaml"], "wrong/ends.py, line 2: exits when it is imported"),
}


@pytest.mark.parametrize(("words", "named"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_one_sentence_and_code_2_and_leaves_nothing_behind(folder, command, words, named):
    (folder / "axis.yaml").write_text("n: 16\nvariants: [{variant: tiled, unrol: 4}]\n")
    (folder / "bodies.yaml").write_text("n: 16\nbodies: missing.txt\nvariants: numpy_direct\n")
    (folder / "none.yaml").write_text("n: 0\nvariants: numpy_direct\n")
    (folder / "when.yaml").write_text("n: 16\nvariants: [{variant: numpy_direct, when: n > 16}]\n")
    (folder / "gpu.yaml").write_text("n: 16\nvariants: [{variant: tiled, toolkit: [numba, cupy]}]\n")
    (folder / "folders.yaml").write_text(f"n: 16\nvariant_folders: [{LONG}]\nvariants: numpy_direct\n")
    (folder / "ends.yaml").write_text("n: 16\nvariant_folders: [wrong]\nvariants: numpy_direct\n")
    (folder / "wrong").mkdir()
    (folder / "wrong" / "ends.py").write_text("import sys\nsys.exit(0)  # @variant(\n")
    os.mkfifo(folder / "pipe.tab")
    (folder / "empty").mkdir()
    (folder / "spoilt").mkdir()
    (folder / "spoilt" / RECORDS).write_text("nonsense\n")
    before = content(folder)
    done = command(*words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("gravbench: ")
    assert named in line
    assert line.isprintable()
    assert len(line) <= len("gravbench: ") + MOST_CHARACTERS
    assert content(folder) == before


@pytest.mark.parametrize(
    "words", [["export", "--to=file/a.csv"], ["export", "--to=file/a.parquet"], ["report", "--html=file/a.html"],
              ["report", "--figures=file"], ["report", "--html=a.html", "--markdown"]]
)  # fmt: skip
def test_what_cannot_be_written_is_said_in_one_sentence(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    RecordFile(Path("run")).append(record(median_seconds=1.0))
    with pytest.raises(InputError, match=r"^file.*: cannot be written: |--markdown alone$") as said:
        app([*words, "run"], standalone_mode=False)
    assert "\n" not in str(said.value)
    assert not Path("a.html").exists()


def test_resuming_without_an_earlier_run_says_that_there_is_none(folder, command):  # noqa: ARG001
    done = command("run", "tiny.yaml", "--resume")
    assert "there is no run" in done.stderr
    assert "reports/tiny" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_run_is_named_with_the_runs_there_are(measured, command):
    folder, _ = measured
    done = command("report", "tidy", folder=folder)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "tidy" in line
    assert run_of(folder).name in line


# Running and reporting


def test_a_run_says_where_its_records_are_and_how_to_show_them(measured):
    folder, printed = measured
    run = run_of(folder)
    assert run.name.startswith("tiny-2")
    assert "3 ok, 0 invalid, 0 failed, 0 skipped" in printed
    assert f"gravbench report {run.relative_to(folder)}" in printed
    records = RecordFile(run).read()
    assert [(record.status, record.anchor) for record in records] == [("ok", 1), ("ok", 0), ("ok", 2)]
    assert {record.n for record in records} == {16, 20}
    (entry,) = json.loads((run / "environment.json").read_text("utf-8"))
    assert entry["command"] == "gravbench run tiny.yaml --device cpu"


@pytest.mark.parametrize("by", ["name", "name and time", "path", "absolute path", "records"])
def test_a_report_is_found_by_path_and_by_name_and_fits_80_columns(measured, command, by):
    folder, _ = measured
    run = run_of(folder)
    named = {
        "name": "tiny",
        "name and time": run.name,
        "path": str(run.relative_to(folder)),
        "absolute path": str(run),
        "records": str(run / RECORDS),
    }
    before = content(folder)
    done = command("report", named[by], "--full", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert_narrow(done.stdout)
    assert "n = 16" in done.stdout
    assert "n = 20" in done.stdout
    assert "numpy_direct" in done.stdout
    assert "The anchor" in done.stdout
    assert (f"{run.relative_to(folder)}, the newest with measurements" in done.stdout) == (by == "name")
    assert content(folder) == before


def test_from_a_program_too_a_run_without_a_case_leaves_no_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "gpu.yaml").write_text("n: 16\nvariants: {variant: tiled, toolkit: numba}\n")
    with pytest.raises(InputError, match=r"--device cpu: no case of gpu\.yaml runs on it"):
        api.run("gpu.yaml", "out", devices=["cpu"])
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_a_run_of_which_every_case_is_skipped_is_code_1_with_the_reason(folder, command):
    (folder / "gpu.yaml").write_text(f"n: 16\n{PROTOCOL}variants: {{variant: tiled, toolkit: numba}}\n")
    done = command("run", "gpu.yaml", "--out", "out")
    assert (done.returncode, done.stderr) == (1, "")
    (skipped,) = RecordFile(folder / "out").read()
    said = flat(done.stdout)
    assert "0 ok, 0 invalid, 0 failed, 1 skipped" in said
    assert f"nothing was measured, because every case was skipped: {flat(skipped.reason)}" in said
    # What is kept was measured, though all that is new is skipped.
    (folder / "both.yaml").write_text(
        f"n: [16, 20]\n{PROTOCOL}variants: [numpy_direct, {{variant: tiled, toolkit: numba}}]\n"
    )
    done = command("run", "both.yaml", "--out", "both", "--device", "cpu")
    assert done.returncode == 0
    done = command("run", "both.yaml", "--out", "both", "--resume")
    assert (done.returncode, "2 cases are already in both" in done.stdout) == (0, True), done.stdout


def test_the_newest_run_that_measured_anything_is_reported_and_named(folder, command):
    first, second, third, fourth = (folder / "reports" / f"quick-20270101-00000{i}" for i in range(1, 5))
    RecordFile(first).append(record(n=16))
    RecordFile(second).append(record(n=32))
    RecordFile(third).append(record(n=64, status="skipped", reason="made up"))
    RecordFile(fourth).append(record(n=64, status="failed", reason="made up"))
    said = f"quick: {second.relative_to(folder)}, the newest with measurements"
    done = command("report", "quick", "--full")
    assert said in done.stdout
    assert "n = 32" in done.stdout
    assert "made up" not in done.stdout
    for words in (["report", "quick", "--markdown"], ["best", "quick", "--json", "--error", "1"]):
        done = command(*words)
        assert (said in done.stderr, said in done.stdout) == (True, False), done.stderr
    # A sweep goes on with its newest run, whatever that has.
    assert newest("quick").name == fourth.name
    for run in (first, second):
        (run / RECORDS).unlink()
    done = command("report", "quick")
    assert f"{fourth.relative_to(folder)}, the newest; none has measurements" in done.stdout
    done = command("report", str(third))
    assert "the newest" not in done.stdout


def test_a_report_can_be_piped_where_there_is_no_utf8(measured):
    folder, _ = measured
    done = subprocess.run(
        [sys.executable, "-m", "gravbench", "report", "tiny"],
        cwd=folder, env=ENVIRONMENT | {"PYTHONIOENCODING": "latin-1"}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert b"numpy_direct" in done.stdout


def test_a_run_that_is_whole_is_kept_when_it_is_resumed(measured, command, tmp_path):
    folder, _ = measured
    (tmp_path / "tiny.yaml").write_text(TINY, "utf-8")
    out = tmp_path / "out"
    out.mkdir()
    (out / RECORDS).write_bytes((run_of(folder) / RECORDS).read_bytes())
    done = command("run", "tiny.yaml", "--device", "cpu", "--out", "out", "--resume")
    assert done.returncode == 0, done.stderr
    assert "2 cases are already in out" in done.stdout
    assert (out / RECORDS).read_bytes() == (run_of(folder) / RECORDS).read_bytes()


@pytest.mark.parametrize("options", [[], ["--out", "chosen"], ["-p", "n=100000"]])
def test_a_dry_run_prints_the_cases_and_an_estimate_and_writes_nothing(folder, command, options):
    before = content(folder)
    done = command("run", "tiny.yaml", "--dry-run", "--device", "cpu", *options)
    assert done.returncode == 0, done.stderr
    *cases, last = done.stdout.splitlines()
    assert all(line.startswith("numpy_direct cpu n=") and "up to about" in line for line in cases)
    plural = "s" * (len(cases) != 1)
    assert last.startswith(f"{len(cases)} measurement{plural}, up to about ")
    assert last.endswith("nothing was measured")
    assert content(folder) == before


def test_a_dry_run_says_why_cases_would_be_skipped(command):
    done = command("run", "quick", "--dry-run", "-p", "n=64")
    assert "naive cupy n=64 float32 p=256 (skipped: no NVIDIA GPU" in done.stdout


# Checking


def test_checking_a_wrong_variant_and_one_that_fails_is_code_1_and_says_what_is_wrong(tmp_path, command):
    config = f"variant_folders: [{FAULTY}]\nn: 16\nvariants: [wrong, raises, numpy_direct]\n"
    (tmp_path / "wrong.yaml").write_text(config)
    before = content(tmp_path)
    done = command("check", "wrong.yaml", "--device", "cpu")
    assert done.returncode == 1, done.stderr
    assert "(0.1 of the acceleration) exceeds the tolerance of" in flat(done.stdout)
    assert "the planted error" in done.stdout
    assert "1 passed, 2 failed, 0 skipped" in done.stdout
    assert content(tmp_path) == before


def test_checking_a_right_variant_is_code_0_and_measures_nothing(folder, command):
    before = content(folder)
    done = command("check", "tiny.yaml", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "2 passed, 0 failed, 0 skipped" in done.stdout
    assert "interactions/s" not in done.stdout
    assert content(folder) == before


# Looking around


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_the_list_has_one_line_for_each_variant_and_interaction(command, columns):
    done = command("list", COLUMNS=columns)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    named = [
        line.split()[0]
        for line in lines
        if line and not line[0].isupper() and not line.startswith(("gravbench", "prints"))
    ]
    assert named == [*discover(), *interaction_files.packaged()]
    tiled = next(line for line in lines if line.split()[:1] == ["tiled"])
    assert tiled.startswith("    tiled  ")
    assert ("cupy pycuda numba" in tiled) == (columns != "80")
    assert "Stage a tile of p bodies in shared memory" in tiled


@pytest.mark.parametrize("columns", ["80", "200"])
@pytest.mark.parametrize("name", ["tiled", "symmetric", "numba_parallel", "barnes_hut_cpu", "gluon_tiles"])
def test_the_list_of_one_variant_has_all_that_it_declares_on_a_cpu_too(command, columns, name):
    done = command("list", name, COLUMNS=columns)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= int(columns) or line.startswith("/") for line in done.stdout.splitlines())
    variant, said = discover()[name], flat(done.stdout)
    assert flat(variant.explanation.replace("``", "")) in said
    assert f"derived from {variant.parent}" in said
    assert f"source {flat(variant.source)}" in said
    for toolkit in variant.toolkits:
        assert toolkit in said
    for axis, values in variant.axes.items():
        words = " ".join(f"[{value}]" if value == variant.defaults[axis] else str(value) for value in values)
        other = f"; also {variant.other_values(axis)}" if axis in variant.ranges else ""
        assert f"{axis} {words}{other}" in said
    assert str(variant.path) in done.stdout


@pytest.mark.slow
def test_the_doctor_works_without_a_gpu_and_says_how_to_mend_each_toolkit(tmp_path):
    done = gravbench(tmp_path, "doctor", COLUMNS="1000")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("  cpu: ") for line in lines)
    (no_gpu,) = [line for line in lines if "no NVIDIA GPU" in line]
    assert "unset CUDA_VISIBLE_DEVICES" in no_gpu
    (cpu,) = [line for line in lines if line.startswith("  + usable: cpu ")]
    assert "verified numba_direct" in cpu
    for toolkit, entry in catalogue().items():
        if toolkit == "cpu":
            continue
        if toolkit == "wgpu" and family("wgpu").devices()[0]:
            assert any(
                one.startswith("  + usable: wgpu ") and "verified naive with wgpu-native" in one for one in lines
            )
            continue
        (line,) = [one for one in lines if one.startswith(f"  - not usable: {toolkit}")]
        assert "it needs an NVIDIA GPU" in line if entry.missing is None else "pip install 'gravbench[" in line
    assert content(tmp_path) == {}


def test_the_doctor_fits_80_columns(command):
    done = command("doctor")
    assert done.returncode == 0, done.stderr
    assert_narrow(done.stdout)
