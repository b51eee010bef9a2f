"""Which devices are seen, chosen and read, told by a made-up NVML."""

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pynvml as installed
import pytest

from gravbench.errors import InputError
from gravbench.measuring import plan
from gravbench.model.device import HARMLESS, Device
from gravbench.model.variant import CPU
from gravbench.toolkits import devices
from gravbench.toolkits.devices import gpus, select, sensor

UUIDS = ["GPU-aaaa-1111", "GPU-bbbb-2222", "GPU-abcd-3333"]
NAMES = ["Imaginary A", "Imaginary B", "Imaginary C"]
SECOND = Device("cuda:1", NAMES[1], UUIDS[1], "600.12")


class FakeError(Exception):
    """What NVML raises."""


class FakeNvml(ModuleType):
    """As much of pynvml as the harness asks for."""

    NVMLError = FakeError
    NVML_CLOCK_SM = installed.NVML_CLOCK_SM
    NVML_TEMPERATURE_GPU = installed.NVML_TEMPERATURE_GPU

    def __init__(self):
        super().__init__("pynvml")
        self.uuids = list(UUIDS)
        self.as_bytes = False
        self.open = 0
        self.mask = 0
        self.refuses = None
        self.old_refuses = False

    def text(self, value):
        return value.encode() if self.as_bytes else value

    def nvmlInit(self):  # noqa: N802
        if self.refuses == "init":
            raise FakeError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.text("600.12")

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return self.text(self.uuids[handle])

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return self.text(NAMES[handle])

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        return self.uuids.index(uuid)

    def answer(self, what, handle, value):
        assert handle == 1, "another device was asked"
        assert self.open == 1
        if self.refuses == what:
            raise FakeError("Not Supported")
        return value

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):  # noqa: N802
        return self.answer("reasons", handle, self.mask)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        assert handle == 1
        if self.old_refuses:
            raise FakeError("Not Supported")
        return self.mask

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_CLOCK_SM
        return self.answer("clock", handle, 1980)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802, ARG002
        return 12_345

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        return self.answer("power", handle, 698_750)

    def nvmlDeviceGetTemperature(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_TEMPERATURE_GPU
        return self.answer("temperature", handle, 61)


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield fake
    assert fake.open == 0, "NVML was left open"


# Which there are


@pytest.mark.parametrize("as_bytes", [False, True])
def test_every_gpu_is_named_with_its_uuid_and_driver(nvml, as_bytes):
    nvml.as_bytes = as_bytes
    found, reason = gpus()
    assert reason is None
    assert found == [Device(f"cuda:{index}", NAMES[index], UUIDS[index], "600.12") for index in range(len(UUIDS))]
    assert all(device.is_gpu for device in found)


@pytest.mark.parametrize(
    ("setting", "visible"),
    [
        (None, [0, 1, 2]),
        ("0", [0]),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("2, 0", [2, 0]),
        ("GPU-bbbb-2222", [1]),
        ("GPU-b", [1]),
        ("GPU-abcd,GPU-aaaa", [2, 0]),
        ("1,GPU-aaaa", [1, 0]),
        ("", []),
        ("-1", []),
        ("7", []),
        ("GPU-none", []),
        # CUDA C++ Programming Guide: only the devices before an index that is not valid are visible.
        ("0,-1,1", [0]),
        ("2,7,0", [2]),
    ],
)
def test_cuda_visible_devices_says_which_are_seen_and_in_which_order(nvml, monkeypatch, setting, visible):
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    found, reason = gpus()
    assert [(device.uuid, device.name) for device in found] == [(UUIDS[index], NAMES[index]) for index in visible]
    assert [device.selector for device in found] == [f"cuda:{index}" for index in range(len(visible))]
    assert nvml.open == 0
    if not visible:
        assert f"CUDA_VISIBLE_DEVICES={setting!r}" in reason


def test_a_machine_whose_driver_finds_no_card_does_not_blame_a_variable_nobody_set(nvml):
    nvml.uuids = []
    found, reason = gpus()
    assert found == []
    assert reason.startswith("no NVIDIA GPU")
    assert "CUDA_VISIBLE_DEVICES" not in reason


def test_without_nvmls_library_the_reason_is_what_nvml_says(nvml):
    nvml.refuses = "init"
    assert gpus() == ([], "no NVIDIA GPU: NVML says: Driver Not Loaded")


def test_without_the_package_there_is_a_reason_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found, reason = gpus()
    assert found == []
    assert "pynvml" in reason


# Which are used


def selectors(found):
    return [device.selector for device in found]


@pytest.mark.usefixtures("nvml")
def test_unless_told_otherwise_the_gpus_of_the_first_one_s_kind_and_the_processor_are_used():
    chosen, reason = select([])
    assert selectors(chosen) == ["cuda:0", CPU]
    assert reason is None
    assert chosen[1] == Device(CPU, devices.processor_name())
    assert not chosen[1].is_gpu


def test_without_a_gpu_the_processor_is_used_and_the_reason_given(nvml):
    nvml.refuses = "init"
    chosen, reason = select([])
    assert selectors(chosen) == [CPU]
    assert "Driver Not Loaded" in reason


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (["cuda:1"], ["cuda:1"]),
        (["cuda:2", "cuda:0"], ["cuda:2", "cuda:0"]),
        (["cpu", "cuda:1"], ["cpu", "cuda:1"]),
        (["cuda:1", "cuda:1"], ["cuda:1"]),
    ],
)
@pytest.mark.usefixtures("nvml")
def test_the_devices_asked_for_are_used_once_each_in_that_order(wanted, chosen):
    found, reason = select(wanted)
    assert selectors(found) == chosen
    assert reason is None


@pytest.mark.usefixtures("nvml")
def test_asking_for_the_processor_alone_is_a_reason_for_no_gpu():
    found, reason = select(["cpu"])
    assert selectors(found) == [CPU]
    assert "--device" in reason


@pytest.mark.parametrize("word", ["cuda:3", "gpu", "cuda", "CPU", "", "0"])
@pytest.mark.usefixtures("nvml")
def test_a_device_that_does_not_exist_is_named_with_those_that_do(word):
    with pytest.raises(InputError) as caught:
        select(["cpu", word])
    message = str(caught.value)
    assert message.startswith(f"--device {word}: ")
    assert "accepted: cuda:0 (Imaginary A), cuda:1 (Imaginary B), cuda:2 (Imaginary C), cpu (" in message
    assert "\n" not in message


def test_asking_for_a_gpu_where_there_is_none_says_why(nvml):
    nvml.refuses = "init"
    with pytest.raises(InputError, match=r"cuda:0.*accepted: cpu.*Driver Not Loaded"):
        select(["cuda:0"])


def test_why_a_toolkit_has_no_device_its_own_family_says(nvml, monkeypatch):
    nvml.refuses = "init"
    assert plan._why_none("numba", "no GPU of the first family") == "no GPU of the first family"
    assert plan._why_none("numba", None) == "none of the chosen devices can run it"
    monkeypatch.setattr(plan, "families", lambda: ["another", "cuda"])
    assert plan._why_none("numba", "no GPU of the first family") == "no NVIDIA GPU: NVML says: Driver Not Loaded"
    there = SimpleNamespace(devices=lambda: ([Device("another:0", "A"), Device("another:1", "B")], None))
    monkeypatch.setattr(plan, "family", lambda _: there)
    assert plan._why_none("numba", None) == "the command names none of its devices; accepted: --device another:0"


@pytest.mark.parametrize(
    ("selector", "family", "is_gpu"),
    [("cpu", "cpu", False), ("cuda:0", "cuda", True), ("here:cpu:0", "cpu", False), ("there:wgpu:1", "wgpu", True)],
)
def test_a_selector_names_the_family_of_a_device(selector, family, is_gpu):
    device = Device(selector, "a device")
    assert (device.family, device.is_gpu) == (family, is_gpu)
    assert device.kind == ("a device", None, family)


# What they say while they work


def bit_of(name):
    """Return the bit by the name that the installed package has for it, the newer or the older."""
    return next(
        getattr(installed, prefix + name)
        for prefix in ("nvmlClocksEventReason", "nvmlClocksThrottleReason")
        if hasattr(installed, prefix + name)
    )


def words_of(nvml, mask):
    nvml.mask = mask
    with sensor(SECOND) as read:
        return read().throttle_reasons


@pytest.mark.usefixtures("nvml")
def test_a_reading_is_in_megahertz_watts_and_degrees():
    with sensor(SECOND) as read:
        reading = read()
    assert (reading.sm_clock_mhz, reading.power_watts, reading.temperature_celsius) == (1980, 698.75, 61)
    assert reading.throttle_reasons == ()
    assert reading.joules == 12.345


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("GpuIdle", "gpu idle"),
        ("SwPowerCap", "power cap"),
        ("HwSlowdown", "hardware slowdown"),
        ("SyncBoost", "sync boost"),
        ("SwThermalSlowdown", "temperature (software)"),
        ("HwThermalSlowdown", "temperature (hardware)"),
        ("HwPowerBrakeSlowdown", "power brake"),
        ("DisplayClockSetting", "display clocks"),
    ],
)
def test_each_reason_for_a_lower_clock_comes_out_in_words(nvml, name, words):
    assert words_of(nvml, bit_of(name)) == (words,)


def test_several_reasons_come_out_together(nvml):
    found = words_of(nvml, bit_of("SwPowerCap") | bit_of("GpuIdle") | bit_of("SwThermalSlowdown"))
    assert set(found) == {"gpu idle", "power cap", "temperature (software)"}
    assert len(found) == 3


@pytest.mark.parametrize(
    "name", ["GpuIdle", "ApplicationsClocksSetting", "UserDefinedClocks", "SyncBoost", "DisplayClockSetting"]
)
def test_a_clock_that_is_low_for_no_work_or_by_choice_is_harmless(nvml, name):
    found = words_of(nvml, bit_of(name))
    assert len(found) == 1
    assert set(found) <= HARMLESS


HARMLESS_BITS = 0x1 | 0x2 | 0x10 | 0x100
NAMED_BY_NVML = sorted(
    name.removeprefix(prefix)
    for prefix in ("nvmlClocksThrottleReason", "nvmlClocksEventReason")
    for name in dir(installed)
    if name.startswith(prefix) and not name.endswith(("None", "All"))
)


@pytest.mark.parametrize("name", sorted(set(NAMED_BY_NVML)))
def test_a_clock_that_is_low_for_any_other_reason_nvml_has_is_not_harmless(nvml, name):
    bit = bit_of(name)
    if not bit & HARMLESS_BITS:
        found = words_of(nvml, bit)
        assert found, f"{name} ({bit:#x}) goes unmentioned, so the device counts as not throttled"
        assert not set(found) & HARMLESS


@pytest.mark.parametrize(
    ("what", "field"),
    [
        ("reasons", "throttle_reasons"),
        ("clock", "sm_clock_mhz"),
        ("power", "power_watts"),
        ("temperature", "temperature_celsius"),
    ],
)
def test_what_nvml_refuses_is_none_and_the_rest_is_told(nvml, what, field):
    with sensor(SECOND) as read:
        whole = read()
        nvml.refuses = what
        if what == "reasons":
            nvml.old_refuses = True
        assert read() == replace(whole, **{field: None})
        nvml.refuses = None
        assert read() == whole


def test_a_driver_before_535_is_asked_by_the_older_name(nvml):
    # The package has both names; it is the driver's library that lacks the newer one.
    nvml.refuses = "reasons"
    nvml.mask = bit_of("SwPowerCap")
    with sensor(SECOND) as read:
        assert read().throttle_reasons == ("power cap",)


def test_an_adapter_of_webgpu_is_read_as_the_one_card_of_its_name(nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as in the session of an adapter
    with sensor(Device("wgpu:0", NAMES[1])) as read:
        assert read(with_energy=False).sm_clock_mhz is not None
    with sensor(Device("wgpu:0", "llvmpipe")) as read:
        assert read is None
    monkeypatch.setattr(FakeNvml, "nvmlDeviceGetName", lambda *_: NAMES[1])
    with sensor(Device("wgpu:0", NAMES[1])) as read:
        assert read is None, "it may be any of several"
    nvml.refuses = "init"
    with sensor(Device("wgpu:0", NAMES[1])) as read:
        assert read is None


def test_the_sensor_is_closed_when_what_it_watches_fails(nvml):
    with pytest.raises(RuntimeError, match="a kernel"), sensor(SECOND):
        raise RuntimeError("a kernel failed")
    assert nvml.open == 0
