"""The public names of gravbench: lazy, documented, and doing what the commands do."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gravbench
from gravbench import accelerations
from gravbench.errors import InputError
from gravbench.model.runs import RecordFile
from gravbench.verdicts.compare import Verdict


def test_importing_gravbench_loads_nothing_else():
    script = "import sys, gravbench; print([name for name in sys.modules if name.partition('.')[0] in sys.argv[1:]])"
    libraries = ["numpy", "numba", "scipy", "pydantic", "rich", "typer", "cupy", "pycuda", "torch", "jax", "warp"]
    done = subprocess.run([sys.executable, "-c", script, *libraries], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", gravbench.__all__)
def test_every_public_name_is_a_function_with_a_docstring(name):
    function = getattr(gravbench, name)
    assert callable(function)
    assert "Raises:" in function.__doc__
    assert name in dir(gravbench)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'forces'"):
        gravbench.forces  # noqa: B018


def test_a_sweep_is_loaded_run_and_compared_from_a_program(tmp_path):
    asked = ["n=64", "measure.budget_seconds=0.05", "measure.warm_up_seconds=0", "measure.processes=1"]
    sweep = gravbench.load("quick", asked, variants=["numpy_direct"])
    first = gravbench.run(sweep, tmp_path / "first", devices=["cpu"])
    assert [record.status for record in first] == ["ok"]
    assert RecordFile(tmp_path / "first").read() == first
    assert gravbench.run(sweep, tmp_path / "first", devices=["cpu"], resume=True) == []
    by_folder = gravbench.compare(tmp_path / "first", tmp_path / "first", 0.5)
    by_records = gravbench.compare(first, first, 0.5)
    assert by_folder.pairs == by_records.pairs
    assert sum(by_folder.counts.values()) == 1
    assert by_folder.counts[Verdict.SLOWER] == 0


RUN = "h100/fastest-large"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        *[
            (lambda value=value: gravbench.compare(RUN, RUN, value), "threshold .*: accepted: a number above 0 and")
            for value in (-1, 0, 1, 2, np.nan, np.inf, None, "2%", True)
        ],
        (lambda: gravbench.compare(None, RUN), "base None: accepted: the folder or name of a run, or its records"),
        (lambda: gravbench.compare(RUN, [1]), r"new \[1\]: accepted: the folder"),
        (lambda: gravbench.compare(RUN, b"x"), "new b'x': accepted: the folder"),
        (lambda: gravbench.load(5), "configuration 5: accepted: its name or path"),
        (lambda: gravbench.load("quick", "n=5"), "overrides 'n=5': accepted: a list of texts"),
        (lambda: gravbench.load("quick", variants="naive"), "variants 'naive': accepted: a list of texts"),
        (lambda: gravbench.load("quick", [5]), r"overrides \[5\]: accepted: a list of texts"),
        (lambda: gravbench.run("quick", devices="cpu"), "devices 'cpu': accepted: a list of texts"),
        (lambda: gravbench.run("quick", devices=None), "devices None: accepted: a list of texts"),
        (lambda: gravbench.run("quick", ""), "out '': accepted: the path of a folder, or None"),
        (lambda: gravbench.run([1]), r"configuration \[1\]: accepted: its name or path"),
    ],
)  # fmt: skip
def test_an_argument_of_another_kind_is_a_sentence(call, says):
    with pytest.raises(InputError, match=f"^{says}"):
        call()


def test_a_configuration_may_be_given_as_a_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("n: 64\nvariants: numpy_direct\n")
    assert [case.key for case in gravbench.load(path).cases] == [case.key for case in gravbench.load(str(path)).cases]


class _OnDevice(np.ndarray):
    """An array of CuPy as far as ``force`` can tell; to look at a value would be to wait for the device."""

    def __bool__(self):
        raise AssertionError("waited for the device")

    __float__ = __int__ = __index__ = item = tolist = __bool__

    def get(self):
        return np.asarray(self)

    def __array_function__(self, *arguments):
        result = super().__array_function__(*arguments)
        return result.view(_OnDevice) if isinstance(result, np.ndarray) else result


_OnDevice.__module__ = "cupy"


@pytest.mark.parametrize(("largest", "finite"), [(1.0, True), (1e30, False), (np.inf, False), (np.nan, False)])
def test_the_force_of_arrays_on_a_device_waits_for_none_of_their_values(largest, finite, monkeypatch):
    def launched(scaled, *_, **__):
        return np.ones((scaled.n, 3), np.float32).view(_OnDevice)

    monkeypatch.setattr(accelerations, "_among", launched)
    monkeypatch.setattr(accelerations, "_between", launched)
    positions = np.full((8, 3), 0.5, np.float32)
    positions[3, 1] = largest
    masses = np.ones(8, np.float32).view(_OnDevice)
    with np.errstate(all="ignore"):
        found = gravbench.force(positions.view(_OnDevice), masses, eps2=0.01, dtype="float32", checked=False)
    assert_array_equal(np.isfinite(np.asarray(found)), finite)


def test_a_toolkit_compiles_a_kernel_once_where_it_may_keep_it():
    from gravbench.model.variant import discover
    from gravbench.toolkits.opening import keeping_kernels, open_toolkit

    opened = open_toolkit("cpu", discover()["numba_direct"], "float64")
    assert opened.compile("numba_direct") is not opened.compile("numba_direct")
    keeping_kernels(opened)
    assert opened.compile("numba_direct") is opened.compile("numba_direct")
