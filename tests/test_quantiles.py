"""Choosing by a quantile of the bodies' errors: what is best for it, records that lack it, the command."""

import io
import json
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.record import LARGEST, QUANTILES
from gravbench.model.runs import RecordFile
from gravbench.report.terminal.choices import choices_json, render_choices
from gravbench.verdicts.best import best
from test_fastest import DEFAULTS, measured

ERRORS = (1e-7, 1e-5, 1e-4, 1e-3, 1e-2, inf)


def tailed(seconds, median, p90, p99, largest, **changes):
    """Make up a record whose errors have these quantiles."""
    own = dict(zip(QUANTILES.values(), (median, p90, p99, largest), strict=True))
    return measured(seconds, **own, **changes)


def drawn(generator, many=12):
    """Make up records of several variants at two n, with errors of any tail and in any order of their times."""
    for i in range(many):
        errors = np.sort(10 ** generator.uniform(-8, -1, 4))
        variant = ("naive", "tiled", "split", "kahan", "chamomile", "symmetric")[i % 6]
        n, dtype = ((1024, "float32"), (2048, "float64"))[i // 6 % 2]
        yield tailed(
            float(generator.uniform(1, 3)), *map(float, errors), variant=variant, n=n, dtype=dtype,
            axes={"equal_mass": int(generator.integers(2))} if variant == "symmetric" else {},
        )  # fmt: skip


def choices(records, **options):
    """Return what is chosen at each n; nothing where nothing is right enough."""
    try:
        (found,) = best(records, DEFAULTS, **options)
    except InputError:
        return {}
    return {one.n: one for one in found.choices}


def flat(text):
    return " ".join(text.split())


def printed(selections, error, quantile, width=80):
    file = io.StringIO()
    render_choices(selections, Console(width=width, file=file), error, 0.02, quantile=quantile)
    assert max(map(len, file.getvalue().splitlines())) <= width
    return flat(file.getvalue())


def run_of(folder, *records):
    store = RecordFile(folder)
    for one in records:
        store.append(one)
    return str(folder)


# The best


def test_a_tree_is_best_where_its_tail_does_not_count():
    tree, sum_ = tailed(1.0, 1e-4, 3e-4, 8e-4, 5e-2, variant="split"), tailed(2.0, 1e-8, 2e-8, 5e-8, 1e-6)
    for quantile, wanted in ((0.5, "split"), (0.9, "split"), (0.99, "split"), (1, "tiled")):
        assert choices([tree, sum_], error=1e-3, quantile=quantile)[1024].chosen.variant == wanted
    assert choices([tree, sum_], error=5e-4, quantile=0.99)[1024].chosen.variant == "tiled"
    assert choices([tree, sum_], error=1e-3) == choices([tree, sum_], error=1e-3, quantile=LARGEST)


@pytest.mark.parametrize("seed", range(5))
def test_a_smaller_quantile_never_excludes_what_a_larger_one_accepts(seed):
    records = list(drawn(np.random.default_rng(seed)))
    for error in ERRORS:
        found = [choices(records, error=error, quantile=quantile) for quantile in QUANTILES]
        for smaller, larger in pairwise(found):
            assert smaller.keys() >= larger.keys()
            for n, choice in larger.items():
                assert smaller[n].compared >= choice.compared
                assert smaller[n].fastest.median_seconds <= choice.fastest.median_seconds


@pytest.mark.parametrize("quantile", [0.95, 0, 2, -0.5, 99, inf, float("nan")])
def test_a_quantile_that_records_do_not_have_is_answered(quantile):
    with pytest.raises(InputError, match=r"--quantile \S+: records do not have it; accepted: 0\.5, 0\.9, 0\.99, 1$"):
        best([measured()], DEFAULTS, quantile=quantile)


def test_a_record_without_the_quantile_counts_as_not_known():
    old = [measured(0.5, variant="split", error_p99=1e-5), measured(0.1, variant="naive", n=64, error_p99=1e-5)]
    known = tailed(1.0, 1e-8, 1e-7, 1e-6, 1e-5)
    (found,) = best([*old, known], DEFAULTS, quantile=0.9)
    assert [(one.n, one.chosen.variant, one.compared) for one in found.choices] == [(1024, "tiled", 1)]
    assert found.unknown == {64: 1, 1024: 1}
    said = "left out, as their records lack the 90 % error: 1 at n = 64, 1 at n = 1,024."
    for width in (80, 200):
        text = printed([found], 1e-3, 0.9, width)
        assert said in text
        assert "right within a relative error of 0.001 for 90 % of the bodies of one evaluation" in text
    told = choices_json([found], 1e-3, 0.02, quantile=0.9)
    assert told["quantile"] == 0.9
    assert told["selections"][0]["unknown"] == [{"n": 64, "records": 1}, {"n": 1024, "records": 1}]
    assert told["selections"][0]["choices"][0]["use"]["error_p90"] == 1e-7
    (found,) = best([*old, known], DEFAULTS, quantile=0.99)
    assert found.unknown == {}
    assert [one.chosen.variant for one in found.choices] == ["naive", "split"]
    assert "lack the" not in printed([found], 1e-3, 0.99)
    with pytest.raises(InputError, match=r"--quantile 0\.9: no record has it; accepted: 0\.99, 1, or a new run"):
        best(old, DEFAULTS, quantile=0.9)


def test_what_is_not_accurate_enough_is_said_by_its_quantile():
    records = [tailed(1.0, 1e-6, 1e-5, 1e-4, 1e-3), tailed(1.0, 1e-9, 1e-8, 1e-7, 1e-3, n=64)]
    (found,) = best(records, DEFAULTS, error=1e-6, quantile=0.99)
    assert found.missed == {1024: 1e-4}
    with pytest.raises(InputError, match=r"the least 0\.9 quantile of the errors of a record is 1\.0e-08"):
        best(records, DEFAULTS, error=1e-9, quantile=0.9)


# The command


def test_the_command_holds_a_quantile_to_the_error(tmp_path):
    name = run_of(
        tmp_path / "run", tailed(1.0, 1e-4, 3e-4, 8e-4, 5e-2, variant="split"), tailed(2.0, 1e-8, 1e-8, 1e-8, 1e-6)
    )
    used = {}
    for quantile in ("0.5", "0.99", "1", None):
        words = ["best", name, "--json", *(["--quantile", quantile] if quantile else [])]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        used[quantile] = json.loads(done.stdout)["selections"][0]["choices"][0]["use"]["variant"]
    assert used == {"0.5": "split", "0.99": "split", "1": "tiled", None: "tiled"}
    assert "for 50 % of the bodies" in flat(CliRunner().invoke(app, ["best", name, "--quantile", "0.5"]).output)


def test_nothing_is_saved_for_a_quantile_that_there_is_not(tmp_path):
    name = run_of(tmp_path / "run", measured())
    done = CliRunner().invoke(app, ["best", name, "--quantile", "0.95", "--save", str(tmp_path / "table.yaml")])
    assert isinstance(done.exception, InputError)
    assert "--quantile 0.95" in str(done.exception)
    assert not (tmp_path / "table.yaml").exists()
