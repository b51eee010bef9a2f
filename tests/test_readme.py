"""README and docs/ say what is true: the ladder comes from the records, the commands and files named exist."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from conftest import GPUS, NO_GPU, ROOT
from gravbench.cli.main import app

README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTED = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)


LADDERS = re.findall(r"<!-- ladder: (.*?) -->\n(.*?)<!-- end of ladder -->", README, re.DOTALL)


def test_there_are_ladders():
    assert len(LADDERS) == 1


@pytest.mark.parametrize(("command", "written"), LADDERS)
def test_a_ladder_is_what_its_command_prints(command, written, monkeypatch):
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(app, shlex.split(command)[1:])
    assert printed.exit_code == 0
    assert written.strip() == printed.stdout.strip()


COMMANDS = sorted(
    set(re.findall(r"^gravbench (?:run|check|list|report|source).*?(?=\s*(?:#|$))", DOCUMENTED, re.MULTILINE))
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shown_is_accepted(command, monkeypatch, tmp_path):
    words = shlex.split(command)[1:]
    if words[0] in ("report", "check") or "--resume" in words:
        pytest.skip("needs a run; tests of the command line make one")
    if "--dask" in words:
        pytest.skip("needs a scheduler; tests/test_dask.py has one")
    if "cuda:0" in words and not GPUS:
        pytest.skip(NO_GPU)
    if "dubinski.tab.gz" in words:
        data = ROOT.parent / "shared" / "data" / "dubinski.tab.gz"
        if not data.exists():
            pytest.skip(f"{data} is not here")
        words[words.index("dubinski.tab.gz")] = str(data)
    own = re.search(r"```python\n(\"\"\"A spring.*?)```", DOCUMENTED, re.DOTALL).group(1)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "spring.py").write_text(own)
    words = [word.replace("spring.py", str(tmp_path / "own" / "spring.py")) for word in words]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = CliRunner().invoke(app, words + ["--dry-run"] * (words[0] == "run" and "--dry-run" not in words))
    assert done.exit_code == 0, done.output
    if words[0] == "run":
        assert "nothing was run" in done.output
    assert not list((tmp_path / "here").iterdir())


def test_the_marked_commands_are_one_line_each():
    for name in ("main", "tests"):
        block = re.search(rf"<!-- command: {name} -->\n```sh\n(.*?)\n```", README, re.DOTALL).group(1)
        assert "\n" not in block
        assert block.startswith("python3 -m venv .venv && ")


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_files_and_headings_that_are_linked_exist(path):
    for target, heading in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", path.read_text("utf-8")):
        found = path.parent / target if target else path
        assert found.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in headings], heading
