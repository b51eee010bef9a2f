"""What is read off the CUDA driver, told by a made-up driver."""

import ctypes

import pytest

from gravbench.toolkits import driver
from gravbench.toolkits.driver import DriverError, Launch, resources

H200 = {
    driver.WARP_SIZE: 32,
    driver.MULTIPROCESSORS: 132,
    driver.MAX_THREADS_PER_MULTIPROCESSOR: 2048,
    driver.MAX_BLOCKS_PER_MULTIPROCESSOR: 32,
    driver.MAX_SHARED_PER_MULTIPROCESSOR: 233_472,
    driver.RESERVED_SHARED_PER_BLOCK: 1024,
    driver.CAPABILITY_MAJOR: 9,
    driver.CAPABILITY_MINOR: 0,
}
FUNCTION = 0x1234_5678_9ABC
MANY = 1_000_000


class FakeDriver:
    """libcuda for one kernel: writes through the pointers that it is handed, as the real one does."""

    def __init__(self, resident, registers=32, shared=0, local=0, device=H200):
        self.resident = resident
        self.function = {driver.REGISTERS: registers, driver.SHARED_BYTES: shared, driver.LOCAL_BYTES: local}
        self.device = device
        self.codes = {}
        self.threads = None

    def cuCtxGetDevice(self, device):  # noqa: N802
        device._obj.value = 3
        return self.codes.get("cuCtxGetDevice", 0)

    def cuDeviceGetAttribute(self, value, attribute, device):  # noqa: N802
        assert device.value == 3, "another device than the current context's was asked"
        value._obj.value = self.device[attribute]
        return 0

    def cuFuncGetAttribute(self, value, attribute, function):  # noqa: N802
        assert function.value == FUNCTION
        value._obj.value = self.function[attribute]
        return self.codes.get("cuFuncGetAttribute", 0)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks, function, threads, dynamic):  # noqa: N802
        assert function.value == FUNCTION
        assert dynamic.value == 0
        self.threads = threads
        blocks._obj.value = self.resident
        return self.codes.get("cuOccupancyMaxActiveBlocksPerMultiprocessor", 0)

    def cuGetErrorString(self, code, text):  # noqa: N802
        if code == 999_999:
            return 1
        text._obj.value = b"invalid argument"
        return 0


@pytest.fixture
def install(monkeypatch):
    def installing(**properties):
        fake = FakeDriver(**properties)
        monkeypatch.setattr(driver, "_library", lambda: fake)
        return fake

    return installing


def test_the_numbers_are_those_of_the_driver(install):
    fake = install(resident=4, registers=40, shared=4096, local=16)
    found = resources(FUNCTION, Launch(1056, 256))
    assert fake.threads == 256
    assert (found.registers, found.shared_bytes, found.local_bytes) == (40, 4096, 16)
    assert (found.threads_per_block, found.grid_blocks, found.blocks_per_multiprocessor) == (256, 1056, 4)
    assert found.occupancy == 0.5
    assert found.waves == 2.0


@pytest.mark.parametrize(
    ("threads", "resident", "shared", "limiter"),
    [
        (256, 8, 0, "threads"),
        (1024, 2, 0, "threads"),
        (32, 32, 0, "blocks"),
        (64, 32, 0, "threads, blocks"),
        (256, 4, 48 * 1024, "shared memory"),
        (1024, 1, 128 * 1024, "shared memory"),
        # 8 blocks of 1 KiB reserved and 27.5 KiB: full by threads and by shared memory at once.
        (256, 8, 27 * 1024 + 512, "threads, shared memory"),
        (256, 5, 0, "registers"),
        (1024, 1, 0, "registers"),
        (256, 3, 48 * 1024, "registers"),
        # 100 threads are 4 warps and take the place of 128.
        (100, 16, 0, "threads"),
        (1000, 2, 0, "threads"),
    ],
)
def test_the_limiter_is_what_would_let_no_further_block_in(install, threads, resident, shared, limiter):
    install(resident=resident, shared=shared)
    assert resources(FUNCTION, Launch(MANY, threads)).occupancy_limiter == limiter


@pytest.mark.parametrize(
    ("blocks", "limiter"), [(1, "threads, grid"), (8 * 132 - 1, "threads, grid"), (8 * 132, "threads")]
)
def test_a_grid_too_small_to_fill_the_device_once_is_named_as_well(install, blocks, limiter):
    install(resident=8)
    found = resources(FUNCTION, Launch(blocks, 256))
    assert found.occupancy_limiter == limiter
    assert found.waves == pytest.approx(blocks / (8 * 132))


@pytest.mark.parametrize(
    ("threads", "resident", "occupancy"),
    [
        # A block of 16 threads takes a whole warp: 32 of the 64 warps, though a quarter of the 2,048 threads.
        (16, 32, 0.5),
        (100, 16, 1.0),
        (1000, 2, 1.0),
        (33, 10, 20 / 64),
    ],
)
def test_occupancy_counts_warps(install, threads, resident, occupancy):
    install(resident=resident)
    assert resources(FUNCTION, Launch(MANY, threads)).occupancy == occupancy


def test_a_kernel_of_which_no_block_fits_divides_by_nothing(install):
    install(resident=0, registers=255)
    found = resources(FUNCTION, Launch(10, 1024))
    assert found.occupancy == 0.0
    assert found.occupancy_limiter == "registers"


@pytest.mark.parametrize(
    "call", ["cuCtxGetDevice", "cuFuncGetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor"]
)
def test_a_refused_call_is_an_error_with_its_name_and_the_drivers_words(install, call):
    install(resident=8).codes[call] = 1
    with pytest.raises(DriverError) as caught:
        resources(FUNCTION, Launch(MANY, 256))
    assert str(caught.value) == f"{call}: invalid argument"


def test_a_code_the_driver_has_no_words_for_is_shown_itself(install):
    install(resident=8).codes["cuFuncGetAttribute"] = 999_999
    with pytest.raises(DriverError, match=r"^cuFuncGetAttribute: 999999$"):
        resources(FUNCTION, Launch(MANY, 256))


@pytest.mark.parametrize(("major", "minor", "words"), [(9, 0, "9.0"), (12, 1, "12.1")])
def test_the_compute_capability_is_written_with_a_point(install, major, minor, words):
    own = H200 | {driver.CAPABILITY_MAJOR: major, driver.CAPABILITY_MINOR: minor}
    install(resident=8, device=own)
    assert driver.compute_capability() == words


def test_the_attribute_numbers_are_those_of_cuda_h():
    """Against NVIDIA's own bindings, where they are installed."""
    cuda = pytest.importorskip("cuda.bindings.driver", exc_type=ImportError)
    functions, of_device = cuda.CUfunction_attribute, cuda.CUdevice_attribute
    assert functions.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES == driver.SHARED_BYTES
    assert functions.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES == driver.LOCAL_BYTES
    assert functions.CU_FUNC_ATTRIBUTE_NUM_REGS == driver.REGISTERS
    assert of_device.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == driver.MULTIPROCESSORS
    most = "CU_DEVICE_ATTRIBUTE_MAX_{}_PER_MULTIPROCESSOR"
    assert getattr(of_device, most.format("THREADS")) == driver.MAX_THREADS_PER_MULTIPROCESSOR
    assert getattr(of_device, most.format("SHARED_MEMORY")) == driver.MAX_SHARED_PER_MULTIPROCESSOR
    assert of_device.CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR == driver.MAX_BLOCKS_PER_MULTIPROCESSOR
    assert of_device.CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK == driver.RESERVED_SHARED_PER_BLOCK
    assert of_device.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == driver.CAPABILITY_MAJOR
    assert of_device.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == driver.CAPABILITY_MINOR


def test_handles_are_passed_as_pointers_and_not_cut_to_32_bits(install):
    fake = install(resident=8)
    seen = []

    def get_function(function, kernel):
        seen.append(kernel)
        function._obj.value = FUNCTION
        return 0

    fake.cuKernelGetFunction = get_function
    assert driver.function_of_kernel(0x7FFF_0000_0010) == FUNCTION
    assert isinstance(seen[0], ctypes.c_void_p)
    assert seen[0].value == 0x7FFF_0000_0010
