"""Compiled binaries are found again on the disk, whole, by any process, and never in place of something else."""

import json
import multiprocessing
import os
import string
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gravbench.toolkits import binaries
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


def test_those_that_were_used_longest_ago_go_first(binaries_folder, monkeypatch):
    binaries.store(["size"], Binary(bytes(1000), "kernel", 1.0))
    size = next(binaries_folder.iterdir()).stat().st_size
    monkeypatch.setattr(binaries, "MOST_BYTES", 3 * size)
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
    binaries.MOST_BYTES = 20_000
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
