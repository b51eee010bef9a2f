"""The note on upgrading says what command lines and calls of 1.0 do now."""

import re
import shlex

import numpy as np
import pytest

import gravbench
from conftest import ROOT, command
from gravbench.cli.renamed import renamed
from gravbench.errors import InputError
from gravbench.model.variant import discover

NOTE = (ROOT / "docs" / "how-to" / "upgrade.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (.+) \|$", NOTE, re.MULTILINE)
LINES = [(old.split()[1:], new.split()[1:], now) for old, new, now in ROWS if old.startswith("gravbench ")]
CALLS = [row for row in ROWS if row[0].startswith("force(")]
KEPT = "works until 1.2; a sentence names the new line"
RENAMED = [(old, new) for old, new, now in LINES if now == KEPT]
REFUSED = [(old, re.findall("`(.+?)`", now)[-1]) for old, _, now in LINES if now.startswith("exit code 2")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_row_of_the_note_is_tested():
    assert len(RENAMED) + len(REFUSED) + len(CALLS) + 1 == len(re.findall(r"^\| `", NOTE, re.MULTILINE))


@pytest.mark.parametrize(("old", "new"), RENAMED, ids=lambda words: shlex.join(words))
def test_a_renamed_line_goes_on_working_and_names_the_new_one(old, new):
    assert renamed(old) == new
    code, printed = command(*old, "--help")
    assert code == 0, printed
    assert f"this is now gravbench {shlex.join(renamed([*old, '--help']))};" in printed.splitlines()[0]


@pytest.mark.parametrize(("old", "successor"), REFUSED, ids=str)
def test_a_line_that_lost_its_meaning_ends_with_a_sentence_that_names_what_to_write(old, successor):
    code, printed = command(*old)
    assert code == 2
    assert successor in printed
    assert len(printed.splitlines()) == 1, printed


@pytest.mark.parametrize("new", [new for _, new, _ in LINES], ids=lambda words: shlex.join(words))
def test_a_new_line_is_accepted(new):
    code, printed = command(*new, "--dry-run" if new[0] == "run" else "--help")
    assert code == 0, printed
    assert "this is now" not in printed


@pytest.mark.parametrize("variant", discover().values(), ids=lambda variant: variant.name)
def test_each_former_axis_has_a_successor(variant):
    assert variant.moved.keys() == variant.former.keys()
    assert set(variant.moved.values()) <= discover().keys()


def test_best_says_which_bodies_are_within_the_error():
    ((old, new),) = [(old, new) for old, new, _ in LINES if old[0] == "best"]
    for line, bodies in ((old, "99 % of bodies"), (new, "all bodies")):
        code, printed = command(*line)
        assert code == 0
        assert f"Among configurations with {bodies} within 1e-6" in " ".join(printed.split())


@pytest.mark.parametrize(("old", "new", "now"), CALLS, ids=str)
def test_a_call_of_force_is_refused_as_it_was_and_accepted_as_it_is(old, new, now):
    names = {"force": gravbench.force, "np": np, "x": np.eye(3), "m": np.ones(3)}
    kind, words = {"`TypeError`": (TypeError, "positional arguments"), "`InputError`": (InputError, "a masked array")}[
        re.match("`.+?`", now)[0]
    ]
    with pytest.raises(kind, match=words):
        eval(old, names)
    assert eval(new, names).shape == (3, 3)
