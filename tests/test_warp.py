"""The primitives of warp.cuh, on the host thread by thread, and compiled for every architecture."""

from types import SimpleNamespace

import numpy as np
import pytest

from emulator import COMPILER, Emulator
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import cuda_source
from gravbench.toolkits import nvrtc as library

KERNEL = """
#include "warp.cuh"

extern "C" __global__ void primitives(const real* numbers, real* results) {
    const int k = blockIdx.x * 64 + threadIdx.x;
    const real number = numbers[k];
    const int whole = static_cast<int>(number);
    const unsigned positive = static_cast<unsigned>(abs(whole));
    const unsigned chosen = lanes_where(whole % 3 == 0);
    real* const row = results + COUNT * k;
    row[0] = inclusive_scan(number);
    row[1] = exclusive_scan(whole);
    row[2] = warp_sum(whole);
    row[3] = warp_min(number);
    row[4] = warp_max(number);
    row[5] = warp_sum<8>(number);
    row[6] = warp_min<4>(whole);
    row[7] = warp_max<2>(whole);
    row[8] = strided_sum(number, 4);
    row[9] = broadcast(whole, 7);
    row[10] = rank_among(chosen);
    row[11] = first_of(chosen);
    row[12] = first_of(chosen & (chosen - 1));
    row[13] = warp_min(positive);
    row[14] = warp_max(positive);
    row[15] = warp_or(1u << (positive & 15));
}
"""
COUNT = 16
NUMBERS = {
    "in a row": np.arange(-32, 96),
    "random": np.random.default_rng(5).integers(-99, 99, 128),
    "no lane chosen": np.full(128, 4),
}


def expected(numbers):
    """Return what each lane of a warp gets, one row per lane: ``numbers`` are those of its 32 lanes."""
    lanes = np.arange(32)
    chosen = np.flatnonzero(numbers % 3 == 0)
    first, second = [*chosen[:2], -1, -1][:2]
    whole_groups = [numbers.reshape(-1, lanes_of_group) for lanes_of_group in (8, 4, 2)]
    columns = [
        np.cumsum(numbers), np.cumsum(numbers) - numbers, numbers.sum(), numbers.min(), numbers.max(),
        whole_groups[0].sum(1).repeat(8), whole_groups[1].min(1).repeat(4), whole_groups[2].max(1).repeat(2),
        numbers.reshape(8, 4).sum(0)[lanes % 4], numbers[7], [(chosen < lane).sum() for lane in lanes], first, second,
        abs(numbers).min(), abs(numbers).max(), np.bitwise_or.reduce(1 << (abs(numbers) & 15)),
    ]  # fmt: skip
    return np.column_stack([np.broadcast_to(column, 32) for column in columns])


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("tensor_cores", [False, True], ids=["sm_75", "sm_80"])
@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_each_lane_gets_what_the_primitive_says(tmp_path, libraries, numbers, tensor_cores):
    (tmp_path / "primitives.cu").write_text(KERNEL)
    emulator = Emulator(
        SimpleNamespace(path=tmp_path / "primitives.py"), "float32", libraries, tensor_cores=tensor_cores
    )
    results = np.zeros((128, COUNT), np.float32)
    emulator.compile("primitives", COUNT=COUNT)(2, 64, numbers.astype(np.float32), results)
    for warp in range(4):
        lanes = slice(32 * warp, 32 * warp + 32)
        assert np.array_equal(results[lanes], expected(numbers[lanes]))


@pytest.mark.skipif(not library.is_usable(), reason="no NVRTC")
def test_the_primitives_compile_for_every_architecture(tmp_path):
    from nvrtc import ARCHITECTURES, compile_cuda

    (tmp_path / "primitives.cu").write_text(KERNEL)
    text = cuda_source(tmp_path / "primitives.cu", find(GRAVITY))
    for architecture in ARCHITECTURES:
        for dtype in ((), ("-DFLOAT64",)):
            _, ptx, _ = compile_cuda(text, architecture, [f"-DCOUNT={COUNT}", *dtype])
            assert ("redux.sync" in ptx) == (architecture != "sm_75")
