"""What an option names or would replace: no file of a person's is lost, and a sentence names what has to change."""

import json

import pytest

from conftest import ROOT, command, flat

QUICK = ("run", "quick", "--variant", "numba_direct", "-p", "n=64", "--device", "cpu", "--dry-run")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-p", "eps=1e30"), "-p eps=1e30: eps is 1e+30; accepted in float32: up to"),
        (("--bodies", "README.md"), "--bodies README.md: README.md: unknown suffix '.md'"),
        (("--subset", "lee"), "--subset lee: has no effect, because all bodies are generated; accepted: without it"),
        (("-p", "dt=0.3"), "-p dt=0.3: has no effect, because no case times a step; accepted: without it"),
        (("-p", "integrator=leapfrog"), "-p integrator=leapfrog: has no effect, because no case times a step"),
        (("--bodies", "two.tab", "-p", "seed=1,2"), "-p seed=1,2: has no effect, because all bodies are read from"),
        (("--out", "README.md"), "--out README.md: cannot be written: it is no folder; accepted: a new"),
        (("--out", "other", "--resume"), "--out other: no run; accepted with --resume: the folder of a run that was"),
    ],
)  # fmt: skip
def test_a_setting_of_the_command_line_is_named(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "two.tab").write_text("1 0 0 0 0 0 0\n" * 64)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("mine")
    code, text = command(*QUICK, *words)
    assert code == 2
    assert flat(text).startswith(says)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["README.md", "a.txt", "other", "two.tab"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n: 64\neps: 1e30\nvariants: [numba_direct]\n", 2),
        ("n: 64\nvariants:\n  - variant: numba_direct\n    eps: 1e30\n", 4),
        ("bodies: two.md\nvariants: [numba_direct]\n", 1),
    ],
)
def test_a_setting_of_a_configuration_is_named_by_its_line(text, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "two.md").write_text("1 0 0 0 0 0 0\n")
    code, said = command("run", "mine.yaml", "--device", "cpu", "--dry-run")
    assert code == 2
    assert f"mine.yaml, line {line}: " in flat(said)


def test_values_without_a_case_in_common_with_the_first_name_the_option():
    code, text = command("compare", ROOT / "reports" / "h100" / "ladder", "--by", "p")
    assert code == 0
    assert "every value of p is compared with the first; to compare others: --values A,B" in flat(text)
    code, text = command("compare", ROOT / "reports" / "h100" / "ladder", "--by", "p", "--values", "256,512")
    assert code == 0
    assert "--values A,B" not in flat(text)


@pytest.mark.slow
def test_a_file_beside_what_is_written_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x.csv.tmp", "x.tmp", "x.zip.tmp"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "z").mkdir()
    run = ROOT / "reports" / "h100" / "fastest-large"
    assert command("share", run, "--out", "x.zip")[0] == 0
    code, text = command("share", run, "--out", "z")
    assert code == 2
    assert "z: cannot be written: Is a directory" in flat(text)
    assert command("export", run, "--to", "x.csv")[0] == 0
    written = ["x.csv", "x.csv.tmp", "x.tmp", "x.zip", "x.zip.tmp", "z"]
    assert sorted(path.name for path in tmp_path.iterdir()) == written
    assert {(tmp_path / name).read_text() for name in written if name.endswith(".tmp")} == {"mine"}


def test_an_edited_kernel_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("source", "tiled", "--entry", "--out", "tiled.cu")
    export = (
        "export",
        ROOT / "reports" / "h100" / "ladder",
        "--variant",
        "tiled",
        "--n",
        65536,
        "--to",
        "tiled.t1.json",
    )
    code, text = command(*asked)
    assert (code, flat(text).strip()) == (0, "wrote tiled.cu")
    assert command(*asked)[0] == 0, "it would be the same"
    kernel = tmp_path / "tiled.cu"
    kernel.write_text(kernel.read_text() + "// mine\n")
    for words in (asked, export):
        code, text = command(*words)
        assert code == 2
        assert "tiled.cu: exists already, with another content; accepted: another name, or move it away" in flat(text)
        assert kernel.read_text().endswith("// mine\n")
    kernel.unlink()
    assert command(*export)[0] == 0
    assert json.loads((tmp_path / "tiled.t1.json").read_text())["KernelSpecification"]["KernelFile"] == "tiled.cu"
