"""Compiled binaries are found again on the disk, whole, by any process, and never in place of something else."""

import json
import multiprocessing
import os
import string
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gravbench.toolkits import binaries, compile_cache, cuda_sums, cupy, nvrtc, pycuda
from gravbench.toolkits.binaries import Binary

pytestmark = pytest.mark.usefixtures("binaries_folder")
KEY = ("text", "-O3", "sm_90", "NVRTC 13.0", "kernel")


def refuse():
    raise AssertionError("it is there already")


def test_what_was_compiled_once_is_found_with_the_time_that_it_took():
    made, compiled_now = binaries.binary(KEY, lambda: (b"code\nof two lines", "a_kernel"))
    assert compiled_now
    assert (made.code, made.kernel) == (b"code\nof two lines", "a_kernel")
    assert binaries.binary(KEY, refuse) == (made, False)
    assert binaries.stored(KEY) == made


@given(st.lists(st.text(string.printable, max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_keys_that_differ_anywhere_are_two(first, second):
    """As joined texts, ("a", "bc") and ("ab", "c") would be one."""
    assert (binaries._path(first) == binaries._path(second)) == (first == second)


@pytest.mark.parametrize("place", range(len(KEY)))
def test_a_change_of_any_part_compiles_anew(place):
    binaries.binary(KEY, lambda: (b"code", "kernel"))
    other = [*KEY]
    other[place] += " "
    assert binaries.stored(other) is None
    assert binaries.binary(other, lambda: (b"other", "kernel"))[1]
    assert binaries.stored(KEY).code == b"code"


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_file_that_is_cut_off_or_damaged_is_compiled_anew_and_replaced(data):
    made = Binary(b"code" * 10, "kernel", 1.0)
    binaries.store(KEY, made)
    path = binaries._path(KEY)
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(content[:place])
    else:
        path.write_bytes(
            content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :]
        )
    assert binaries.stored(KEY) is None
    assert binaries.binary(KEY, lambda: (b"code" * 10, "kernel"))[1]
    assert binaries.stored(KEY).code == made.code


def test_a_whole_file_with_other_content_is_no_binary():
    binaries.store(KEY, Binary(b"code", "kernel", 1.0))
    content = json.dumps({"kernel": "kernel"}).encode() + b"\ncode"
    binaries._path(KEY).write_bytes(binaries.hashlib.sha256(content).digest() + content)
    assert binaries.stored(KEY) is None


def test_compiling_takes_the_time_of_the_processor_that_of_a_compiler_included():
    """A builder that is suspended spends none, which sleeping stands for here."""
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    asleep, _ = binaries.binary(["asleep"], lambda: (b"code", time.sleep(0.3) or "kernel"))
    called, _ = binaries.binary(["called"], lambda: (subprocess.check_output([sys.executable, "-c", busy]), "kernel"))
    assert asleep.seconds < 0.1
    assert called.seconds >= 0.25


def test_those_that_were_used_longest_ago_go_first(binaries_folder, monkeypatch):
    binaries.store(["size"], Binary(bytes(1000), "kernel", 1.0))
    size = next(binaries_folder.iterdir()).stat().st_size
    monkeypatch.setattr(binaries, "MOST_BYTES", 3 * size)
    monkeypatch.setattr(binaries, "STORED_PER_LOOK", 1)
    for number, name in enumerate(["first", "second"]):
        binaries.store([name], Binary(bytes(1000), "kernel", 1.0))
        os.utime(binaries._path([name]), (number + 1, number + 1))
    os.utime(binaries._path(["size"]), (0, 0))
    assert binaries.stored(["size"])  # which is a use of it
    binaries.store(["third"], Binary(bytes(1000), "kernel", 1.0))
    assert [name for name in ("size", "first", "second", "third") if binaries.stored([name])] == [
        "size", "second", "third",
    ]  # fmt: skip
    assert sum(path.stat().st_size for path in binaries_folder.iterdir()) <= 3 * size


def test_the_whole_folder_is_looked_at_once_in_many_files(binaries_folder, monkeypatch):
    looks = []
    monkeypatch.setattr(binaries, "_prune", looks.append)
    stored = 2 * binaries.STORED_PER_LOOK
    for number in range(stored):
        binaries.store([str(number)], Binary(b"code", "kernel", 1.0))
    assert 1 <= len(looks) <= 10
    assert len(list(binaries_folder.iterdir())) == stored


def test_a_folder_that_cannot_be_written_costs_the_time_to_compile(tmp_path, binaries_folder):
    binaries_folder.write_text("no folder")
    for _ in range(2):
        assert binaries.binary(KEY, lambda: (b"code", "kernel"))[1]
    assert binaries_folder.read_text() == "no folder"
    assert list(tmp_path.iterdir()) == [binaries_folder]


def test_a_full_disk_leaves_nothing_behind(binaries_folder, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(binaries.Path, "replace", full)
    assert binaries.binary(KEY, lambda: (b"code", "kernel"))[1]
    assert list(binaries_folder.iterdir()) == []


def use(seed):
    """Store and read a few binaries again and again, in few bytes, so that processes delete each other's files."""
    binaries.MOST_BYTES, binaries.STORED_PER_LOOK = 20_000, 1
    wrong = Counter()
    for turn in range(60):
        name = str((seed + turn) % 7)
        expected = name.encode() * 5000
        found, _ = binaries.binary([name], lambda expected=expected: (expected, "kernel"))
        wrong[found.code != expected] += 1
    return wrong[True]


def test_processes_share_the_folder(binaries_folder):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        assert list(pool.map(use, range(3))) == [0, 0, 0]
    assert sum(path.stat().st_size for path in binaries_folder.iterdir()) <= 20_000 + 6000


def test_the_folder_is_where_users_keep_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(binaries, "user_cache_dir", lambda name, **_: str(tmp_path / "caches" / name))
    assert binaries.folder() == tmp_path / "caches" / "gravbench" / "binaries"


def test_another_release_of_nvrtc_or_of_the_headers_compiles_anew(monkeypatch):
    """NVRTC tells no more of its version than that of CUDA, and the folder of the headers stays the same."""
    monkeypatch.setattr(nvrtc, "include_options", lambda: ("-I/headers",))
    monkeypatch.setattr(nvrtc, "version", lambda: "NVRTC 13.0")
    monkeypatch.setattr(nvrtc, "program", lambda *_: nullcontext((None, "")))
    monkeypatch.setattr(nvrtc, "cubin", lambda _: b"code")
    for package in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "nvidia-cuda-cccl"):
        for expected in (True, False):
            monkeypatch.setattr(
                cupy, "versions", lambda names, package=package: [name for name in names if name == package]
            )
            assert cupy.compiled("text", [], "sm_90")[1] == expected


def test_options_that_nvcc_takes_from_the_environment_compile_anew(monkeypatch):
    compiler = SimpleNamespace(compile=lambda *_, **__: b"code", get_nvcc_version=lambda _: "13.0")
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace(compiler=compiler))
    monkeypatch.setitem(sys.modules, "pycuda.compiler", compiler)
    monkeypatch.setattr(pycuda, "_nvcc", lambda: "13.0")
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        monkeypatch.setenv(name, "-use_fast_math")
        assert [pycuda.compiled("text", [], "sm_90")[1] for _ in range(2)] == [True, False]
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    "package", ["nvidia-nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"]
)
def test_another_release_of_what_compiles_and_links_for_numba_compiles_anew(monkeypatch, package):
    known = []
    for version in ("1", "2"):
        monkeypatch.setattr(
            compile_cache, "versions", lambda names, version=version: [f"{n} {version}" for n in names if n == package]
        )
        known.append(cuda_sums.compiler())
    assert known[0] != known[1]
