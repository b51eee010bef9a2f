"""README and docs/ say what is true: the ladder comes from the records, the commands and files named exist."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from conftest import GPUS, NO_GPU, ROOT
from gravbench.cli.main import app
from gravbench.report import story, story_path

README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTED = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)


LADDERS = re.findall(r"<!-- ladder: (.*?) -->\n(.*?)<!-- end of ladder -->", DOCUMENTED, re.DOTALL)
STORY = "python -m gravbench.report.story"


def test_there_are_ladders():
    assert len(LADDERS) == 2
    assert len(re.findall("<!-- ladder: ", README)) == 1


def test_readme_is_short():
    assert len(README.splitlines()) <= 150
    table = re.search(r"<!-- ladder: (.*?)<!-- end of ladder -->", README, re.DOTALL).group(1)
    assert len(re.findall(r"^\|", table, re.MULTILINE)) - 2 <= story_path.MOST_ROWS == 10


def test_the_picture_is_drawn_from_the_records_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (command,) = (command for command, _ in LADDERS if command.startswith(STORY))
    assert story.main([*shlex.split(command.removeprefix(STORY)), "--figures", str(tmp_path)]) == 0
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == [
        f"story-{layout}{theme}.svg"
        for layout, theme in (("", "dark"), ("", "light"), ("narrow-", "dark"), ("narrow-", "light"))
    ]
    for path in drawn:
        assert (ROOT / "docs" / "figures" / path.name).read_text("utf-8") == path.read_text("utf-8"), (
            f"{command} --figures docs/figures draws it again"
        )
        assert f"docs/figures/{path.name}" in README


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
        assert "nothing was measured" in done.output
    asked_for = words[-1:] if words[0] == "source" and "--out" in words else []
    assert [path.name for path in (tmp_path / "here").iterdir()] == asked_for


def test_the_marked_commands_are_one_line_each():
    for name in ("main", "tests"):
        block = re.search(rf"<!-- command: {name} -->\n```sh\n(.*?)\n```", README, re.DOTALL).group(1)
        assert "\n" not in block
        assert block.startswith("python3 -m venv .venv && ")


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_headings_that_are_linked_exist(path):
    for target, heading in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", path.read_text("utf-8")):
        found = path.parent / target if target else path
        assert found.exists(), target
        if heading and not heading.startswith("only-"):
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in headings], heading
