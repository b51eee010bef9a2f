"""The direct sums that a GPU adds up: in Numba's simulator, by a made-up driver, and compiled without a GPU."""

import ctypes
import importlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from conftest import GPUS
from gravbench.model.generators import plummer
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.toolkits import cuda_sums, driver
from gravbench.toolkits.device_sums import Texts
from gravbench.toolkits.numba import _Simulator
from gravbench.verifying import direct_sums as direct_sums_module
from gravbench.verifying.direct_sums import direct_sums
from ptx_card import HostMemoryCard

LAYOUTS = """
import json, re, sys
from types import SimpleNamespace
import numba, numpy as np
from numba import cuda
from numba.cuda import dispatcher, libdevice
from gravbench.toolkits import cuda_sums
from gravbench.verifying import direct_sums
from gravbench.model.interaction_files import find

# Asked for each function that the kernel calls.
dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
found = []
for dtype in ("float32", "float64"):
    real, own = np.dtype(dtype).type, find("gravity")
    columns, rows = np.ones((4, 9)), np.arange(5)
    results = np.empty((10, 3)), np.empty((10, 3)), np.empty((5, 3), real)
    arguments = columns, 0.5, columns.astype(real), real(0.5), rows, 2, *results
    kernel = cuda_sums.function(direct_sums._texts(own, dtype), 3, dtype, cuda, libdevice)
    ptx, _ = cuda.compile_ptx(kernel, tuple(map(numba.typeof, arguments)), cc=(9, 0))
    laid_out = cuda_sums.parameters(arguments, {id(one): 1 for one in arguments if isinstance(one, np.ndarray)})
    asked = re.findall(r"\\.param (?:\\.align \\d+ )?\\.(\\w+) \\w+_param_", ptx)
    found.append((asked, [type(one)._type_ for one in laid_out]))
print(json.dumps(found))
"""
KINDS = {"u64": "l", "f64": "d", "f32": "f"}


@pytest.fixture
def simulated(monkeypatch):
    """Have the kernel run in Numba's simulator; on a GPU, as it is."""
    direct_sums_module._on_device.cache_clear()
    if GPUS:
        driver.use_device()
    else:
        monkeypatch.setattr(cuda_sums, "launcher", _simulating(monkeypatch))
    yield
    direct_sums_module._on_device.cache_clear()


def _simulating(monkeypatch):
    module = importlib.import_module("numba.cuda")
    cuda = _Simulator(module)
    monkeypatch.setattr(numba, "cuda", cuda)

    def launcher(texts, sums, dtype):
        real = np.dtype(dtype).type
        device = SimpleNamespace(rsqrt=lambda value: 1 / np.sqrt(value), rsqrtf=lambda value: real(1) / np.sqrt(value))
        kernel = cuda.jit(cuda_sums.function(texts, sums, dtype, cuda, device))

        def launch(blocks, block, arguments, results):
            assert results == 3
            kernel[blocks, block](*arguments)

        return launch

    return launcher


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [GRAVITY, "hermite"])
def test_the_rows_of_a_sample_are_summed_in_parts_and_as_on_the_cpu(simulated, dtype, name, monkeypatch):  # noqa: ARG001
    """Each part is made so short that there are several; the number of bodies is no multiple of a warp."""
    monkeypatch.setattr(cuda_sums, "LEAST_PART", 8)
    bodies = plummer(45, 3, 0.05)
    rows = np.array([0, 3, 17, 44])
    interaction = find(name)
    expected = direct_sums(interaction, bodies, rows, dtype)
    found = []
    for few in (8192, 0):
        monkeypatch.setattr(cuda_sums, "FEW_ROWS", few)
        assert cuda_sums.parts_of(rows.size, bodies.n, len(interaction.sums)) == (5 if few else 0)
        found.append(direct_sums(interaction, bodies, rows, dtype, device_sums=cuda_sums))
    for one in found:
        np.testing.assert_allclose(one.exact, expected.exact, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(one.magnitudes, expected.magnitudes, rtol=1e-13)
        assert one.plain.dtype == np.dtype(dtype)
        if not GPUS:  # which rounds an inverse square root otherwise
            np.testing.assert_array_equal(one.plain, expected.plain)
        np.testing.assert_allclose(one.plain, expected.plain, rtol=0, atol=1000 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(found[0].plain, found[1].plain)


def test_many_rows_are_summed_by_several_launches(simulated, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(cuda_sums, "FEW_ROWS", 0)
    monkeypatch.setattr(cuda_sums, "ROWS_AT_ONCE", 3)
    bodies = plummer(7, 3, 0.05)
    expected = direct_sums(find(GRAVITY), bodies, np.arange(7), "float64")
    found = direct_sums(find(GRAVITY), bodies, np.arange(7), "float64", device_sums=cuda_sums)
    np.testing.assert_allclose(found.exact, expected.exact, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found.plain, expected.plain, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_parameters_are_those_that_numba_compiles_the_kernel_for(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(LAYOUTS)
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for asked, laid_out in json.loads(done.stdout):
        assert [KINDS[kind] for kind in asked] == laid_out
        assert len(asked) > 50


class FakeDriver(HostMemoryCard):
    """A device whose memory is the host's, and whose only kernel adds 1 to an array of float64."""

    def __init__(self):
        super().__init__()
        self.images, self.launches = [], []

    def cuModuleLoadData(self, module, image):  # noqa: N802
        if not image.startswith(b"image"):
            return 200
        self.images.append(image)
        module._obj.value = 7
        return 0

    def cuModuleGetFunction(self, function, module, name):  # noqa: ARG002, N802
        assert name == b"a_kernel"
        function._obj.value = 8
        return 0

    def cuLaunchKernel(self, function, *rest):  # noqa: N802
        *extents, shared, stream, addresses, _ = rest
        assert (function.value, shared, stream.value) == (8, 0, None)
        values = [ctypes.c_int64.from_address(one).value for one in addresses]
        assert values[:4] == [0, 0, 6, 8]
        assert values[5:9] == [2, 3, 24, 8]
        added = ctypes.c_double.from_address(addresses[9]).value
        given, taken = (np.ctypeslib.as_array((ctypes.c_double * 6).from_address(values[place])) for place in (4, 14))
        taken[:] = given + added
        self.launches.append(tuple(extents))
        return 0

    def cuGetErrorString(self, code, text):  # noqa: N802
        text._obj.value = str(code).encode()
        return 0


TEXTS = Texts("exact", "plain", "terms")


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Replace the driver, and the compiler by one that says how often it was asked."""
    device, compiled = FakeDriver(), []

    def compiling(*_):
        compiled.append(True)
        return b"image of a kernel\nof two lines", "a_kernel"

    monkeypatch.setattr(driver, "_library", lambda: device)
    monkeypatch.setattr(driver, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(cuda_sums, "_compiled", compiling)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    forget = driver.load_function.cache_clear
    forget()
    yield SimpleNamespace(device=device, compiled=compiled, forget=forget, folder=tmp_path / "gravbench")
    forget()


def launched(texts=TEXTS):
    given, taken = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    cuda_sums.launcher(texts, 3, "float64")(5, 32, (given, 0.5, taken), 1)
    return taken


def test_what_was_compiled_once_is_launched_by_every_process(fake):
    assert not cuda_sums.is_kept(TEXTS, 3, "float64")
    for times in (1, 2):
        np.testing.assert_array_equal(launched(), np.arange(6.0).reshape(2, 3) + 0.5)
        assert fake.device.launches == [(5, 1, 1, 32, 1, 1)] * times
        fake.forget()  # as another process has
        assert cuda_sums.is_kept(TEXTS, 3, "float64")
    assert fake.compiled == [True]
    assert not fake.device.memory, "all of it is given back"


def test_another_text_processor_or_compiler_is_compiled_itself(fake, monkeypatch):
    launched()
    fake.forget()
    assert not cuda_sums.is_kept(Texts("another", "plain", "terms"), 3, "float64")
    assert not cuda_sums.is_kept(TEXTS, 3, "float32")
    monkeypatch.setattr(cuda_sums, "compiler", lambda: ("another",))
    assert not cuda_sums.is_kept(TEXTS, 3, "float64")


@pytest.mark.parametrize("spoilt", [b"", b"a_kernel", b"a_kernel\nno image", b"\xff\nimage"])
def test_a_file_that_is_not_whole_is_compiled_anew_and_replaced(fake, spoilt):
    launched()
    (path,) = fake.folder.iterdir()
    path.write_bytes(spoilt)
    fake.forget()
    np.testing.assert_array_equal(launched(), np.arange(6.0).reshape(2, 3) + 0.5)
    assert fake.compiled == [True, True]
    assert path.read_bytes().endswith(b"\nimage of a kernel\nof two lines")


def test_a_folder_that_cannot_be_written_costs_the_time_to_compile(fake):
    fake.folder.parent.mkdir(exist_ok=True)
    fake.folder.write_text("no folder")
    launched()
    fake.forget()
    launched()
    assert fake.compiled == [True, True]
