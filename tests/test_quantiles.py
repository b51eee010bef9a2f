"""Choosing by a quantile of the bodies' errors: what is best for it, records that lack it, the command, force."""

import io
import json
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from conftest import flat
from gravbench import accelerations as module
from gravbench.accelerations import force
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.record import LARGEST, QUANTILES
from gravbench.model.runs import RecordFile
from gravbench.report.terminal.choices import choices_json, render_choices
from gravbench.verdicts import fastest
from gravbench.verdicts.best import best
from gravbench.verdicts.compare import Run
from gravbench.verdicts.fastest import Choice
from gravbench.verdicts.question import Question, error_of
from test_fastest import DEFAULTS, VARIANTS, measured, noting

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
        (found,) = best([records], DEFAULTS, Question(**options))
    except InputError:
        return {}
    return {one.n: one for one in found.choices}


def printed(selections, error, quantile, width=80):
    file = io.StringIO()
    render_choices(selections, Console(width=width, file=file), 0.02, Question(error, quantile))
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
    assert choices([tree, sum_]) == choices([tree, sum_], error=1e-3, quantile=0.99)


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
        best([[measured()]], DEFAULTS, Question(quantile=quantile))


def test_a_record_without_the_quantile_counts_with_the_next_larger_one():
    old = [measured(0.5, variant="split", error_p99=1e-5), measured(0.1, variant="naive", n=64, error_p99=1e-5)]
    known = tailed(1.0, 1e-8, 1e-7, 1e-6, 1e-5)
    (found,) = best([[*old, known]], DEFAULTS, Question(quantile=0.9))
    assert [(one.n, one.chosen.variant, one.compared) for one in found.choices] == [
        (64, "naive", 1),
        (1024, "split", 2),
    ]
    for width in (80, 200):
        text = printed([found], 1e-3, 0.9, width)
        assert "2 records without the error of 90 % of bodies: a larger quantile counts" in text
        assert "with 90 % of bodies within 1e-3 (relative errors of one evaluation)" in text
    assert choices_json([found], 0.02, question=Question(quantile=0.9))["quantile"] == 0.9
    (found,) = best([[*old, known]], DEFAULTS, Question(error=5e-6, quantile=0.9))
    assert [(one.n, one.chosen.variant) for one in found.choices] == [(1024, "tiled")]
    assert found.missed == {64: 1e-5}
    (found,) = best([[*old, known]], DEFAULTS)
    assert [one.chosen.variant for one in found.choices] == ["naive", "split"]
    assert "without the error" not in printed([found], 1e-3, 0.99)
    sampled = measured(1.0, n=64_000, error_rows=1000, error_max=1e-4)
    assert (error_of(sampled, 0.99), error_of(sampled, LARGEST)) == (1e-4, pytest.approx(4e-4))


def test_what_is_not_accurate_enough_is_said_by_its_quantile():
    records = [tailed(1.0, 1e-6, 1e-5, 1e-4, 1e-3), tailed(1.0, 1e-9, 1e-8, 1e-7, 1e-3, n=64)]
    (found,) = best([records], DEFAULTS, Question(error=1e-6, quantile=0.99))
    assert found.missed == {1024: 1e-4}
    with pytest.raises(InputError, match=r"the smallest error of 90 % of the bodies is 1\.0e-08"):
        best([records], DEFAULTS, Question(error=1e-9, quantile=0.9))


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
    assert used == {"0.5": "split", "0.99": "split", "1": "tiled", None: "split"}
    assert "50 % of bodies within 1e-3" in flat(CliRunner().invoke(app, ["best", name, "--quantile", "0.5"]).output)


def test_nothing_is_saved_for_a_quantile_that_there_is_not(tmp_path):
    name = run_of(tmp_path / "run", measured())
    done = CliRunner().invoke(app, ["best", name, "--quantile", "0.95", "--save", str(tmp_path / "table.yaml")])
    assert isinstance(done.exception, InputError)
    assert "--quantile 0.95" in str(done.exception)
    assert not (tmp_path / "table.yaml").exists()


# The table, and the force that chooses from it


def made(*records):
    return fastest.make([Run("made-up", list(records))], VARIANTS)


def used(table, n, error, quantile, dtypes=("float32", "float64"), equal=True):
    """Return the quickest choice that is right enough, and its seconds; None where nothing is."""
    fitting = table.of("cupy").fitting(n, dtypes, equal_masses=equal, quantile=quantile)
    right = [(seconds, one) for one, own, seconds in fitting if own <= error]
    return min(right, key=lambda found: found[0]) if right else None


def without_smaller(records):
    """Take away what records from before quantiles were chosen by do not have."""
    lacking = dict.fromkeys(name for name in QUANTILES.values() if name != QUANTILES[LARGEST])
    return [one.model_copy(update=lacking) for one in records]


ANY_N = (500, 1024, 1500, 2048, 5000)


@pytest.mark.parametrize("seed", range(5))
def test_a_table_for_a_smaller_quantile_has_all_that_a_larger_one_accepts(seed):
    records = list(drawn(np.random.default_rng(seed), 24))
    table = made(*records)
    for n, error, equal in product(ANY_N, ERRORS, (True, False)):
        found = [used(table, n, error, quantile, equal=equal) for quantile in QUANTILES]
        for smaller, larger in pairwise(found):
            if larger:
                assert smaller
                assert smaller[0] <= larger[0]


@pytest.mark.parametrize("seed", range(5))
def test_what_a_table_has_for_the_largest_error_depends_on_no_other_quantile(seed):
    records = list(drawn(np.random.default_rng(seed), 24))
    table, old = made(*records), made(*without_smaller(records))

    def of_largest(table):
        none = dict.fromkeys(name for name in QUANTILES.values() if name != QUANTILES[LARGEST])
        return [one.model_copy(update=none) for one in table.of("cupy").choices if one.error_max]

    assert of_largest(table) == old.of("cupy").choices


@pytest.mark.parametrize("seed", range(5))
def test_at_every_n_that_was_measured_a_table_has_a_choice_as_good_as_the_best(seed):
    # The error of a table has two digits, rounded up.
    records = [
        one.model_copy(update={name: float(f"{getattr(one, name):.1e}") for name in QUANTILES.values()})
        for one in drawn(np.random.default_rng(seed), 24)
    ]
    table = made(*records)
    for quantile, error in product(QUANTILES, ERRORS[:-1]):
        found = choices(records, error=error, quantile=quantile)
        for n, best_one in found.items():
            assert used(table, n, error, quantile)[0] <= best_one.fastest.median_seconds * 1.0201


def test_a_quantile_of_a_sample_is_that_of_all_bodies():
    (choice,) = made(tailed(1.0, 1e-7, 1e-6, 1e-5, 1e-4, n=64_000, error_rows=1000)).of("cupy").choices
    assert [choice.errors(quantile) for quantile in QUANTILES] == [[1e-7], [1e-6], [1e-5], [pytest.approx(4e-4)]]


def test_a_table_has_the_quantiles_that_its_records_have():
    old, new = measured(1.0, error_p99=1e-7), tailed(4.0, 1e-9, 1e-8, 1e-7, 1e-6, n=2048)
    (choice,) = made(old, new).of("cupy").choices
    assert (choice.error_p90, choice.error_p99, choice.error_max) == ([None, 1e-8], [1e-7, 1e-7], [1e-6, 1e-6])
    (choice,) = made(old).of("cupy").choices
    assert (choice.error_median, choice.error_p90, choice.error_p99) == (None, None, [1e-7])


def test_a_table_from_before_is_read_and_has_the_largest_errors(tmp_path):
    table = made(*without_smaller([tailed(1.0, 1e-9, 1e-8, 1e-7, 1e-6)]))
    fastest.write(table, tmp_path / "table.yaml")
    text = (tmp_path / "table.yaml").read_text()
    assert "error_max: [1.0e-06]" in text
    assert "error_p" not in text
    assert fastest.read(tmp_path / "table.yaml") == table
    (tmp_path / "table.yaml").write_text(text.replace("    error_max: [1.0e-06]\n", ""))
    with pytest.raises(InputError, match="a choice with one of error_median, error_p90, error_p99, error_max"):
        fastest.read(tmp_path / "table.yaml")
    (tmp_path / "table.yaml").write_text(
        text.replace("error_max: [1.0e-06]", "error_max: [1.0e-06]\n    error_p99: []")
    )
    with pytest.raises(InputError, match="error_p99, error_max and seconds with 1 values each"):
        fastest.read(tmp_path / "table.yaml")


def test_a_table_of_all_quantiles_is_read_as_it_was_written(tmp_path):
    table = made(*drawn(np.random.default_rng(1), 24))
    assert any(one.error_max is None for one in table.of("cupy").choices)
    fastest.write(table, tmp_path / "table.yaml")
    assert fastest.read(tmp_path / "table.yaml") == table


BODIES = np.ones((5, 3)), np.arange(5.0)


@pytest.fixture
def chosen_of(monkeypatch):
    """Return the variant that force uses of a made-up table."""

    def choose(table, **options):
        found = []
        monkeypatch.setattr(fastest, "packaged", lambda: [table])
        monkeypatch.setattr(module, "_among", noting(found, 2))
        monkeypatch.setattr(module, "_between", noting(found, 3))
        force(*BODIES, eps2=1, **({"toolkit": "cupy", "checked": False} | options))
        return found[0].variant if isinstance(found[0], Choice) else f"two sets in {found[0]}"

    return choose


def test_force_chooses_by_the_quantile(chosen_of):
    table = made(tailed(1.0, 1e-4, 3e-4, 8e-4, 5e-2, variant="split"), tailed(2.0, 1e-8, 2e-8, 5e-8, 1e-6))
    given = {0.5: "split", 0.9: "split", np.float64(0.99): "split", 1: "tiled"}
    assert {quantile: chosen_of(table, quantile=quantile) for quantile in given} == given
    assert chosen_of(table) == "tiled"
    assert chosen_of(table, error=5e-4, quantile=0.99) == "tiled"
    with pytest.raises(InputError, match=r"error is 1e-12 at quantile 0\.99: .* the smallest known error is 1\.0e-09"):
        chosen_of(table, error=1e-12, quantile=0.99)


def test_force_says_that_a_table_does_not_have_the_quantile(chosen_of):
    table = made(measured(1.0, error_p99=1e-7), measured(2.0, dtype="float64", error_max=1e-14))
    said = (
        r"quantile is 0\.9: the table does not have it for cupy in float32 or float64; accepted: 0\.99, 1, or a table"
    )
    with pytest.raises(InputError, match=said):
        chosen_of(table, quantile=0.9)
    with pytest.raises(InputError, match=r"does not have it for cupy in float64; accepted: 1, or"):
        chosen_of(table, quantile=0.99, dtype="float64")
    assert chosen_of(table, quantile=0.99) == "tiled"
    # What the table does not have at all is summed by the kernel for two sets, which every quantile is right of.
    assert chosen_of(table, quantile=0.9, toolkit="cpu") == "two sets in float32"


@pytest.mark.parametrize("quantile", [0.95, 0, -1, 2, "0.99", None, True, np.ones(2), float("nan")], ids=str)
def test_force_refuses_a_quantile_that_there_is_not(quantile):
    with pytest.raises(InputError, match=r"quantile is .*; accepted: 0\.5, 0\.9, 0\.99, 1$") as raised:
        force(*BODIES, eps2=1, quantile=quantile, toolkit="cpu")
    assert "\n" not in str(raised.value)
