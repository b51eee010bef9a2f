"""Which devices there are, and what they say of themselves while they work.

Asks NVML, which needs no CUDA context: the parent process may call this. Devices are named by UUID, because
NVML's index need not be CUDA's.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import InputError, nearest

CPU = "cpu"

# Reasons for a lower clock that are no complaint: nothing to do, or a clock somebody chose.
HARMLESS = {"gpu idle", "applications clocks setting", "sync boost", "display clock setting"}


@dataclass(frozen=True, slots=True)
class Device:
    """A device that cases run on. ``selector`` is what ``--device`` takes: ``cpu``, ``cuda:0``, ``cuda:1``, ..."""

    selector: str
    name: str
    uuid: str | None = None
    driver: str | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.selector != CPU


@dataclass(frozen=True, slots=True)
class Reading:
    """What a GPU says of itself at one moment."""

    sm_clock_mhz: int
    power_watts: float
    temperature_celsius: int
    throttle_reasons: tuple[str, ...]


def processor_name() -> str:
    """Return the name of the host's processor and how many of its cores this process may use."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


@contextlib.contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _visible(uuids: list[str]) -> list[str]:
    """Keep the devices that ``CUDA_VISIBLE_DEVICES`` lets a program see, in its order."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return uuids
    chosen = []
    for word in filter(None, (part.strip() for part in setting.split(","))):
        if word.isdigit() and int(word) < len(uuids):
            chosen.append(uuids[int(word)])
        else:
            chosen += [uuid for uuid in uuids if uuid.startswith(word)]
    return chosen


def gpus() -> tuple[list[Device], str | None]:
    """List the NVIDIA GPUs, and say why there are none where there are none."""
    try:
        with _nvml() as nvml:
            driver = _text(nvml.nvmlSystemGetDriverVersion())
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            names = {_text(nvml.nvmlDeviceGetUUID(handle)): _text(nvml.nvmlDeviceGetName(handle)) for handle in handles}
    except Exception as error:  # NVML's own error classes exist only once its library is loaded
        return [], f"no NVIDIA GPU: NVML says: {error}"
    visible = _visible(list(names))
    found = [Device(f"cuda:{index}", names[uuid], uuid, driver) for index, uuid in enumerate(visible)]
    if not found:
        return [], f"no NVIDIA GPU is visible: CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')!r}"
    return found, None


def select(wanted: list[str]) -> tuple[list[Device], str | None]:
    """Return the devices to use, the first GPU and the processor when nothing is ``wanted``.

    The second value says why there is no GPU among them, None where there is one.

    Raises:
        InputError: a wanted device does not exist.
    """
    found, reason = gpus()
    available = {device.selector: device for device in [*found, Device(CPU, processor_name())]}
    if not wanted:
        wanted = [*(device.selector for device in found[:1]), CPU]
    chosen = []
    for word in dict.fromkeys(wanted):
        if word not in available:
            why = f" ({reason})" if reason else ""
            raise InputError(f"--device {word}: no such device{why}; {nearest(word, list(available))}")
        chosen.append(available[word])
    if not any(device.is_gpu for device in chosen):
        reason = reason or "no GPU among the devices chosen by --device"
    else:
        reason = None
    return chosen, reason


@contextlib.contextmanager
def sensor(uuid: str) -> Iterator[Callable[[], Reading | None]]:
    """Open the GPU with this UUID for reading; a reading it refuses is None."""
    with _nvml() as nvml:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        bits = {
            getattr(nvml, name): name.removeprefix("nvmlClocksEventReason").removeprefix("nvmlClocksThrottleReason")
            for name in dir(nvml)
            if name.startswith(("nvmlClocksEventReason", "nvmlClocksThrottleReason"))
            and not name.endswith(("None", "All"))
        }

        def read() -> Reading | None:
            try:
                mask = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
                return Reading(
                    sm_clock_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                    power_watts=nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                    temperature_celsius=nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                    throttle_reasons=tuple(sorted(_words(name) for bit, name in bits.items() if mask & bit)),
                )
            except nvml.NVMLError:
                return None

        yield read


def _words(name: str) -> str:
    """Turn ``SwPowerCap`` into ``sw power cap``."""
    return (
        "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip().replace("g p u", "gpu")
    )
