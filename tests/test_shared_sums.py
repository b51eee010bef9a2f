"""What kernels are judged by is summed once per run: by the first process that needs it, for those beside it."""

import numpy as np
import pytest

from gravbench.model import interaction_files
from gravbench.model.generators import plummer
from gravbench.model.interaction import GRAVITY
from gravbench.model.variant import discover
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import shared_sums
from gravbench.verifying.shared_sums import SHARED, sums_over_all
from gravbench.verifying.verify import Judge, _all_sums, _limits_of_all, _reference_of_all

N = 50


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """Share a folder; return the list of what has been computed so far."""
    calls, compute = [], shared_sums.direct_sums

    def counted(interaction, bodies, rows, dtype, *, device_sums):
        calls.append((bodies.n, dtype, device_sums))
        return compute(interaction, bodies, rows, dtype)

    monkeypatch.setattr(shared_sums, "direct_sums", counted)
    monkeypatch.setattr(SHARED, "folder", tmp_path)
    return calls


def of_all(bodies, dtype="float32", *, device_sums=None, interaction=GRAVITY):
    return sums_over_all(interaction_files.find(interaction), bodies, dtype, device_sums=device_sums)


def test_what_one_process_has_summed_another_reads_to_the_last_bit(computed):
    first, second = of_all(plummer(N, 1, 0.025)), of_all(plummer(N, 1, 0.025))
    assert len(computed) == 1
    for name in ("exact", "magnitudes", "plain"):
        one, other = getattr(first, name), getattr(second, name)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


def test_sums_of_anything_else_are_computed(computed):
    for seed, eps in ((1, 0.025), (2, 0.025), (1, 0.05)):
        of_all(plummer(N, seed, eps))
    of_all(plummer(N, 1, 0.025), "float64")
    of_all(plummer(N, 1, 0.025), device_sums=object())
    of_all(plummer(N, 1, 0.025), interaction="lennard_jones")
    assert len(computed) == 6


@pytest.mark.parametrize("spoil", ["cut", "emptied", "gone"])
def test_a_file_that_is_not_whole_is_no_answer(computed, tmp_path, spoil):
    expected = of_all(plummer(N, 1, 0.025)).exact
    (path,) = tmp_path.iterdir()
    if spoil == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: 700 if spoil == "cut" else 0])
    assert np.array_equal(of_all(plummer(N, 1, 0.025)).exact, expected)
    assert len(computed) == 2


def test_without_a_folder_nothing_is_kept(computed, tmp_path, monkeypatch):
    monkeypatch.setattr(SHARED, "folder", None)
    of_all(plummer(N, 1, 0.025))
    of_all(plummer(N, 1, 0.025))
    assert len(computed) == 2
    assert not [*tmp_path.iterdir()]


def test_a_judge_takes_what_another_process_has_left_and_computes_nothing_before_a_launch(computed):
    bodies = plummer(N, 1, 0.025).frozen()
    variant = discover(())["numpy_direct"]

    def judge():
        toolkit = open_toolkit("cpu", variant, "float32")
        prepared = variant.prepare(toolkit, bodies)
        _all_sums.cache_clear()
        _reference_of_all.cache_clear()
        _limits_of_all.cache_clear()
        return Judge(toolkit, prepared, bodies, variant.accepted("float32", {}), "float32")

    first = judge()
    assert not computed
    assert _all_sums.cache_info().misses == 0
    errors, objection = first.launched()
    assert (objection, len(computed)) == (None, 1)
    second = judge()
    assert second.launched() == (errors, None)
    assert _limits_of_all.cache_info().misses == 1
    assert len(computed) == 1


def test_a_folder_that_cannot_be_written_costs_only_the_time(computed, tmp_path, monkeypatch):
    monkeypatch.setattr(SHARED, "folder", tmp_path / "gone")
    assert of_all(plummer(N, 1, 0.025)).exact.shape == (N, 3)
    assert len(computed) == 1
