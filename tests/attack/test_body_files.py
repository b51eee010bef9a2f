"""Five hundred wrong files of bodies: each gives bodies or one sentence, in bounded time and memory."""

import gzip
import io
import os
import random
import resource
import struct
import zipfile

import numpy as np
import pytest
from sentence import NASTY_WORDS, answered

from gravbench.model.bodies import Bodies
from gravbench.model.bodies_readers import MOST_BODIES, SUFFIXES, read
from gravbench.model.initial_conditions import available, file_sha256, load

FILES = 500
MEMORY = 400e6
"""Bytes by which the process may grow for a file that is refused."""


def table(choose, rows):
    return "".join(" ".join(repr(choose.uniform(0.1, 9)) for _ in range(7)) + "\n" for _ in range(rows)).encode()


def tipsy(choose, rows):
    counts = [choose.randrange(rows + 1) for _ in range(3)]
    counts[1] += not any(counts)
    header = struct.pack("<d6i", 0.0, sum(counts), 3, *counts, 0)
    numbers = sum(count * size for count, size in zip(counts, (12, 9, 11), strict=True))
    return header + struct.pack(f"<{numbers}f", *(choose.uniform(0.1, 9) for _ in range(numbers)))


def archive(choose, rows):
    file = io.BytesIO()
    types = ["f8", "f4", "i8", "u1", "f8", "f2", "c16", "U3", "?", "M8[s]", "V8"]
    arrays = {"mass": np.ones(rows), "position": np.ones((rows, 3)), "velocity": np.ones((rows, 3))}
    if choose.random() < 0.5:
        name = choose.choice([*arrays])
        arrays[name] = np.zeros(choose.choice([(0,), (rows,), (rows, 3), (rows, 3, 1), (), (1,)]), choose.choice(types))
    if choose.random() < 0.1:
        del arrays[choose.choice([*arrays])]
    choose.choice([np.savez, np.savez_compressed])(file, **arrays)
    return file.getvalue()


def damaged(choose, content):
    content = bytearray(content)
    for _ in range(choose.randrange(4)):
        place = choose.randrange(len(content) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            del content[place : place + choose.choice([1, 5, 1000])]
        elif kind == 1:
            content[place : place + 1] = bytes([choose.randrange(256)])
        elif kind == 2:
            content[place:place] = choose.choice(NASTY_WORDS).encode(errors="replace")
        else:
            content[place : place + 4] = struct.pack("<i", choose.choice([-1, 0, 1, 2**31 - 1, -(2**31)]))
    return bytes(content)


def ask(path):
    """Read a file in each way that the program does."""
    with answered(path):
        mass, position, velocity = read(path)
        assert 0 < mass.size <= MOST_BODIES
        Bodies(mass, position, velocity, 0.1)
    with answered(path):
        assert load(str(path), available(str(path)), 0, 0.1).mass.size > 0
    with answered(path):
        file_sha256(str(path))


def test_any_damaged_file_gives_bodies_or_one_sentence(attacks, tmp_path):
    for number in range(FILES * attacks):
        choose = random.Random(f"bodies {number}")
        make, suffixes = choose.choice(
            [(table, (".tab", ".tab.gz")), (tipsy, (".bin",)), (archive, (".npz",)), (table, SUFFIXES)]
        )
        suffix = choose.choice(suffixes)
        content = damaged(choose, make(choose, choose.choice([0, 1, 5, 40])))
        if suffix.endswith(".gz"):
            content = gzip.compress(content, 1)
            content = damaged(choose, content) if choose.random() < 0.5 else content
        path = tmp_path / f"bodies{suffix}"
        path.write_bytes(content)
        ask(path)


def packed(piece, times):
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as unpacked:
        for _ in range(times):
            unpacked.write(piece)
    return file.getvalue()


def zipped(shape, megabytes):
    """Pack an archive whose arrays say that they have a shape, and unpack to so much."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as members:
        for name in ("mass", "position", "velocity"):
            with members.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(header.getvalue())
                for _ in range(megabytes if name == "position" else 1):
                    member.write(bytes(2**20))
    return file.getvalue()


BOMBS = {
    "blanks.tab.gz": lambda: packed(b" " * 2**20, 100),
    "lines.tab.gz": lambda: packed(b"\n" * 2**20, 100),
    "returns.tab.gz": lambda: packed(b"\r" * 2**20, 100),
    "comments.tab.gz": lambda: packed(b"#" * 5000 + b"\n", 10_000),
    "columns.tab.gz": lambda: packed(b"1 " * 10**6 + b"\n", 50),
    "wide.tab.gz": lambda: packed(b"1 " * 30_000 + b"\n", 500),
    "columns.tab": lambda: b"1 " * 10**6 + b"\n",
    "word.tab": lambda: b"9" * 10**7,
    "large.npz": lambda: zipped((2**27,), 300),
    "false.npz": lambda: zipped((2**40,), 1),
    "huge.npz": lambda: zipped((2**62, 2**62), 1),
    "counts.bin": lambda: struct.pack("<d6i", 0.0, 2**31 - 1, 3, 0, 2**31 - 1, 0, 0),
    "array.npz": lambda: (
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }"
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_unpacks_to_a_large_one_is_refused_in_bounded_memory(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ask(path)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_regular_file_is_answered_and_never_waited_for(suffix, tmp_path):
    pipe, folder, lost, endless = (tmp_path / f"{name}{suffix}" for name in ("pipe", "folder", "lost", "endless"))
    os.mkfifo(pipe)
    folder.mkdir()
    lost.symlink_to("nowhere")
    endless.symlink_to("/dev/zero")
    for path in (pipe, folder, lost, endless, tmp_path / f"{'a' * 300}{suffix}", tmp_path / f"a\0{suffix}"):
        ask(path)


@pytest.mark.parametrize("word", NASTY_WORDS, ids=range(len(NASTY_WORDS)))
def test_any_name_of_bodies_is_answered(word):
    with answered(word):
        load(word, 8, 1, 0.1)
    with answered(word):
        file_sha256(word)
