"""What belongs to a CUDA context is released in the thread that opened it."""

import gc
import sys
import threading
from functools import cache
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits import pycuda
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.pycuda import Releases


class Owner:
    """Something in a cycle, which only the garbage collector frees."""

    def __init__(self):
        self.itself = self


class Resource:
    """Notes in which thread it is released."""

    def __init__(self, noted):
        self.noted = noted

    def __del__(self):
        self.noted.append(threading.get_ident())


def elsewhere(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_what_is_collected_in_another_thread_is_released_in_the_first():
    releases, noted = Releases(), []
    releases.hold(Owner(), Resource(noted))
    elsewhere(gc.collect)
    elsewhere(releases.release)
    assert noted == []
    releases.release()
    assert noted == [threading.get_ident()]


def test_what_has_an_owner_is_kept_and_what_has_none_does_not_pile_up():
    releases, noted = Releases(), []
    owner = Owner()
    releases.hold(owner, Resource(noted))
    releases.release()
    gc.collect()
    assert noted == []
    del owner
    gc.collect()
    releases.hold(Owner(), Resource(noted))
    assert noted == [threading.get_ident()]


def test_what_is_still_in_a_cycle_at_the_end_of_the_process_is_released_before_the_context_is_closed():
    releases, noted = Releases(), []
    releases.hold(Owner(), Resource(noted))
    elsewhere(releases.end)
    assert noted == []
    releases.end()
    assert noted == [threading.get_ident()]


class Module(Resource):
    """A module of CUDA, with one kernel."""

    def get_function(self, name):
        """Return the kernel, which keeps its module."""
        if name != "naive":
            raise LookupError(name)
        return SimpleNamespace(module=self)


class Pinned(np.ndarray):
    """Memory of the host that does not move; what releases it is its base."""

    @property
    def base(self):
        """Return what releases it."""
        return self.allocation


class Array:
    """An array on the device."""

    def __init__(self, noted):
        self.gpudata = Resource(noted)


@pytest.fixture
def noted(monkeypatch):
    """Stand in for PyCUDA; return the threads in which things of each kind were released."""
    noted = {kind: [] for kind in ("module", "memory", "pinned", "stream")}

    def pinned(shape, dtype):
        array = np.zeros(shape, dtype).view(Pinned)
        array.allocation = Resource(noted["pinned"])
        return array

    fake = ModuleType("pycuda")
    fake.driver = SimpleNamespace(
        module_from_buffer=lambda _: Module(noted["module"]),
        pagelocked_empty=pinned,
        Stream=lambda _: Resource(noted["stream"]),
    )
    fake.gpuarray = SimpleNamespace(empty=lambda *_: Array(noted["memory"]), to_gpu=lambda _: Array(noted["memory"]))
    for part in ("driver", "gpuarray", "compiler", "autoprimaryctx"):
        monkeypatch.setitem(sys.modules, f"pycuda.{part}", getattr(fake, part, None) or ModuleType(part))
    monkeypatch.setitem(sys.modules, "pycuda", fake)
    monkeypatch.setattr(pycuda, "_releases", cache(Releases))
    monkeypatch.setattr(pycuda, "compiled", lambda *_: (Binary(b"", "", 0.0), False))
    monkeypatch.setattr(pycuda.PycudaToolkit, "architecture", "sm_90")
    return noted


def opened():
    return pycuda.PycudaToolkit(discover()["naive"], "float32", find(GRAVITY))


def test_all_that_a_toolkit_made_is_released_in_the_thread_of_its_context(noted):
    cycle, toolkit = Owner(), opened()
    cycle.kept = [toolkit.build("naive", {}), toolkit.upload(np.zeros(3)), toolkit.empty(3), toolkit.stream(), toolkit]
    cycle.kept.append(toolkit.host_array(3, np.float32, pinned=True))
    del cycle, toolkit
    elsewhere(gc.collect)
    assert noted == {"module": [], "memory": [], "pinned": [], "stream": []}
    opened().release()
    here = threading.get_ident()
    assert noted == {"module": [here], "memory": [here] * 2, "pinned": [here], "stream": [here]}


def test_a_module_without_the_kernel_is_released_in_that_thread_too(noted):
    kept = []
    with pytest.raises(LookupError) as raised:
        opened().build("tiled", {})
    kept.append(raised)
    del raised
    elsewhere(kept.clear)
    elsewhere(gc.collect)
    assert noted["module"] == []
    opened().release()
    assert noted["module"] == [threading.get_ident()]


@pytest.mark.gpu
def test_pycuda_has_nothing_to_warn_of_when_another_thread_collects_what_it_made(need_toolkit, recwarn):
    need_toolkit("pycuda")
    cycle, toolkit = Owner(), opened()
    cycle.kept = [toolkit.compile("naive", P=256), toolkit.upload(np.zeros((4, 4))), toolkit.stream(), toolkit]
    cycle.kept.append(toolkit.host_array(4, np.float32, pinned=True))
    del cycle, toolkit
    elsewhere(gc.collect)
    opened().release()
    assert [str(warning.message) for warning in recwarn] == []
