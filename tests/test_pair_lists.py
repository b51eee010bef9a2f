"""The pool of pair_lists.cuh: what a warp takes of it and knows of it, on the host thread by thread."""

from types import SimpleNamespace

import numpy as np
import pytest

from emulator import COMPILER, Emulator

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")

KERNEL = """
#include "warp.cuh"
#include "pair_lists.cuh"

extern "C" __global__ void takes(Used* used, int* results, int capacity, int words) {
    const Pool pool = {nullptr, used, capacity};
    int* const row = results + 4 * threadIdx.x;
    row[0] = pool.has_room(pool.read());
    __syncwarp();
    row[1] = pool.take(words);
    row[2] = pool.take(words);
    row[3] = pool.has_room(pool.before(row[2]));
}
"""
MOST = 2**31 - 1
HALF = 2**30


@pytest.mark.parametrize(
    ("used", "capacity", "words", "expected"),
    [
        (4, 100, 30, (True, 4, 34, True)),
        (40, 100, 30, (True, 40, 70, False)),
        (49, 100, 1, (True, 49, 50, False)),
        (50, 100, 30, (False, 50, -1, False)),
        (4, 100, 97, (True, -1, -1, False)),
        (HALF - 1, MOST, HALF // 2, (True, HALF - 1, HALF - 1 + HALF // 2, False)),
        (HALF, MOST, HALF - 1, (False, HALF, -1, False)),
        (2**40, MOST, MOST, (False, -1, -1, False)),
    ],
)
def test_a_warp_takes_what_fits_and_knows_whether_half_of_the_room_is_left(
    tmp_path, libraries, used, capacity, words, expected
):
    (tmp_path / "takes.cu").write_text(KERNEL)
    emulator = Emulator(SimpleNamespace(path=tmp_path / "takes.py"), "float32", libraries)
    counted, results = np.array([used], np.uint64), np.zeros((32, 4), np.int32)
    emulator.compile("takes")(1, 32, counted, results, np.int32(capacity), np.int32(words))
    assert (results == expected).all()
    # Also what did not fit is counted.
    assert counted[0] == used + 2 * words
