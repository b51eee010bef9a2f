"""README says what is true: its ladder comes from the records, its commands exist."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from conftest import GPUS, NO_GPU, ROOT
from gravbench.cli.main import app
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover

README = (ROOT / "README.md").read_text("utf-8")


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
    set(re.findall(r"^gravbench (?:run|check|list|report|source).*?(?=\s*(?:#|$))", README, re.MULTILINE))
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shown_is_accepted(command, monkeypatch, tmp_path):
    words = shlex.split(command)[1:]
    if words[0] in ("report", "check") or "--resume" in words:
        pytest.skip("needs a run; tests of the command line make one")
    if "cuda:0" in words and not GPUS:
        pytest.skip(NO_GPU)
    if "dubinski.tab.gz" in words:
        data = ROOT.parent / "shared" / "data" / "dubinski.tab.gz"
        if not data.exists():
            pytest.skip(f"{data} is not here")
        words[words.index("dubinski.tab.gz")] = str(data)
    own = re.search(r"```python\n(\"\"\"A spring.*?)```", README, re.DOTALL).group(1)
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


NAMED = {"triton_tiles": "Triton", "torch_compile": "`torch.compile`", "warp_tiles": "Warp", "jax_jit": "JAX"}
SPEEDS = [
    *(("ladder", "symmetric", n, {}) for n in (4096, 16384, 65536)),
    *(("ladder", "symmetric", n, {"equal_mass": 1}) for n in (4096, 16384, 65536)),
    *(("ladder", "tiled", n, {}) for n in (4096, 16384, 65536)),
    *(("ladder", "tensor", n, {}) for n in (131072, 262144)),
    ("ladder", "tensor", 262144, {"terms": 1}),
    *(("ladder", name, 65536, {}) for name in ("chamomile", "kahan", "float64_sums")),
    *(("fastest-large", name, 1048576, {}) for name in ("symmetric", "tiled", "tensor")),
    ("fastest-large", "symmetric", 1048576, {"equal_mass": 1}),
    ("fastest-large", "tensor", 1048576, {"terms": 1}),
    ("beyond", "symmetric", 65536, {}),
    ("beyond", "symmetric", 65536, {"travel": "shuffle"}),
    *(("beyond", "symmetric", 65536, {"r": r}) for r in (2, 4, 16)),
    *(("beyond", "symmetric", n, {"deterministic": 1}) for n in (16384, 65536)),
    *(("beyond", "tensor", 65536, {"r": 2, "unroll": 4, "terms": terms}) for terms in (1, 2)),
    *(("fastest-dubinski", name, 81920, {}) for name in ("symmetric", "tensor")),
    ("fastest-float64", "symmetric", 65536, {}),
    *(("peers", name, 65536, {}) for name in ("triton_tiles", "torch_compile", "warp_tiles", "jax_jit", "naive")),
]


@pytest.mark.parametrize(("run", "variant", "n", "axes"), SPEEDS)
def test_the_speeds_past_the_last_step_are_those_of_the_records(run, variant, n, axes):
    section = README.partition("## Past the last step")[2].partition("\n## ")[0]
    named = NAMED.get(variant, f"`{variant}`")
    said = [" ".join(bullet.split()) for bullet in section.split("\n- ") if named in bullet]
    axes = discover()[variant].complete(axes)
    (record,) = (
        record
        for record in latest(RecordFile(ROOT / "reports" / "h200" / run).read())
        if (record.variant, record.n, record.axes) == (variant, n, axes) and record.toolkit not in ("pycuda", "numba")
    )
    speed = f"{record.interactions_per_second / 1e9:,.0f}e9"
    assert any(speed in bullet for bullet in said), speed
    if run == "fastest-large":  # whose errors are said too
        assert any(f"{record.error_max:.1e}".replace("e-0", "e-") in bullet for bullet in said) or axes.get(
            "equal_mass"
        )


def test_the_marked_commands_are_one_line_each():
    for name in ("main", "tests"):
        block = re.search(rf"<!-- command: {name} -->\n```sh\n(.*?)\n```", README, re.DOTALL).group(1)
        assert "\n" not in block
        assert block.startswith("python3 -m venv .venv && ")


def test_files_that_are_linked_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
