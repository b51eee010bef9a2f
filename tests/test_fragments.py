"""The drawing of the fragments in tensor.cu is how the matrix product of the emulator reads them."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import ROOT
from emulator import COMPILER, Emulator

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")

# Each launch sets one of the 256 numbers of A, or of the 128 of B, to 1; the other factor tells the places apart.
KERNEL = """
extern "C" __global__ void fragments(float* result, int lane, int word, int half) {
    const int own = threadIdx.x, g = own / 4, t = own % 4;
    const unsigned one = own == lane ? 0x3c00u << 16 * half : 0;
    unsigned a[4] = {}, b[2] = {};
    if (OF_A) {
        a[word] = one;
        for (int k = 0; k < 2; ++k) b[k] = g == 0 ? pack(8 * k + 2 * t + 1, 8 * k + 2 * t + 2) : 0;
    } else {
        b[word] = one;
        for (int k = 0; k < 4; ++k) a[k] = g == 0 && k % 2 == 0 ? pack(4 * k + 2 * t + 1, 4 * k + 2 * t + 2) : 0;
    }
    float d[4] = {};
    multiply_f16(d, a[0], a[1], a[2], a[3], uint2{b[0], b[1]});
    for (int k = 0; k < 4; ++k) result[4 * own + k] = d[k];
}
"""


def drawn():
    """Return what the comment says: for A, B and d, what is in each row or column, from left to right."""
    text = (ROOT / "variants/blocked/tensor.cu").read_text("utf-8")
    lines = re.findall(r"^//     (A|B|d) (?:row|column) +(\d+) +((?:\d+\.\w *)+)$", text, re.MULTILINE)
    return [(matrix, int(number), cells.split()) for matrix, number, cells in lines]


def place_of(cell, words):
    lane, word = cell.split(".")
    return int(lane), words.index(word)


def test_the_drawing_has_all_three_matrices():
    assert [(matrix, number) for matrix, number, _ in drawn()] == [
        *(("A", row) for row in (0, 1, 7, 8, 15)),
        *(("B", column) for column in (0, 1, 7)),
        *(("d", row) for row in (0, 1, 7, 8, 15)),
    ]
    assert {len(cells) for _, _, cells in drawn()} == {8}


@pytest.mark.parametrize("matrix", ["A", "B"])
def test_each_number_is_where_the_drawing_says(tmp_path, libraries, matrix):
    (tmp_path / "fragments.cu").write_text(KERNEL)
    emulator = Emulator(SimpleNamespace(path=tmp_path / "fragments.py"), "float32", libraries, tensor_cores=True)
    kernel = emulator.compile("fragments", OF_A=int(matrix == "A"))
    # Where the drawing says that an element of d is: its place in what the lanes have.
    of_d = {
        (row, column): place_of(cell, "0123")
        for kind, row, cells in drawn()
        if kind == "d"
        for column, cell in enumerate(cells)
    }
    for kind, number, cells in drawn():
        if kind != matrix:
            continue
        for pair, cell in enumerate(cells):
            for half in (0, 1):
                lane, word = place_of(cell, "xyzw")
                result = np.zeros((32, 4), np.float32)
                kernel(1, 32, result, np.int32(lane), np.int32(word), np.int32(half))
                expected = np.zeros((32, 4), np.float32)
                expected[of_d[number, 0] if kind == "A" else of_d[0, number]] = 2 * pair + half + 1
                assert np.array_equal(result, expected)
