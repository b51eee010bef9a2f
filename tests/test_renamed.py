"""Command lines of version 1.0 go on working, with a sentence that names what they are called now."""

import shlex

import pytest
from typer.testing import CliRunner

from gravbench.cli import explaining, peaks
from gravbench.cli.options import app
from gravbench.cli.renamed import renamed

NEW = {
    "ceilings --from x": "peaks --from x",
    "explain tiled": "explain ledger tiled",
    "explain tiled -p p=128 --html a.html": "explain ledger tiled -p p=128 --html a.html",
    "explain tiled --run h100/ladder --ceilings x": "explain ledger tiled --run h100/ladder --peaks x",
    "explain tiled --ceilings=x --run r": "explain ledger tiled --run r --peaks x",
    "explain tiled -p unroll=8 --against tiled": "explain compare tiled -p unroll=8 tiled",
    "explain --against=symmetric tiled": "explain compare tiled symmetric",
    "explain --limits h100/ladder --ceilings x": "explain bottleneck h100/ladder --peaks x",
    "explain --records a --records b --figures d": "explain validate a b --figures d",
    "explain naive --records a --json": "explain validate a --variant naive --json",
    "explain tiled --knock-outs --n 1024": "ablate tiled --n 1024",
    "explain --knock-outs --from x": "ablate --from x",
}


@pytest.mark.parametrize("old", NEW)
def test_an_old_command_line_is_written_as_it_is_today(old):
    assert shlex.join(renamed(shlex.split(old))) == NEW[old]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "explain",
        "explain -h",
        "explain --help",
        "run ceilings",
        "list explain",
        "report x --ceilings y",
        *NEW.values(),
    ],
)
def test_a_command_line_of_today_stays_as_it_is(line):
    assert renamed(shlex.split(line)) == shlex.split(line)


def test_the_old_name_does_what_the_new_one_does_and_says_so(monkeypatch):
    given = []
    monkeypatch.setattr(peaks, "_kept", given.append)
    monkeypatch.setattr(peaks, "_print", lambda *_, **__: None)
    monkeypatch.setattr(explaining, "_show", lambda kernels, *_, **__: given.append([k.variant.name for k in kernels]))
    old = CliRunner().invoke(app, ["ceilings", "--from", "x"], catch_exceptions=False)
    assert old.exit_code == 0
    assert old.stderr == (
        "gravbench ceilings --from x: this is now gravbench peaks --from x; the old name ends with version 1.2\n"
    )
    CliRunner().invoke(app, ["explain", "tiled", "--against", "naive"], catch_exceptions=False)
    new = CliRunner().invoke(app, ["explain", "compare", "tiled", "naive"], catch_exceptions=False)
    assert new.stderr == ""
    assert list(map(str, given)) == ["x", "['tiled', 'naive']", "['tiled', 'naive']"]
