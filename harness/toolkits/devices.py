"""Which devices there are, and what they say of themselves while they work.

Asks NVML, which needs no CUDA context: the parent process may call this. Devices are named by UUID, because
NVML's index need not be CUDA's.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gravbench.errors import InputError, guess, shortened
from gravbench.model.device import Device, Reading, Target, together
from gravbench.model.variant import CPU

ENERGY_EVERY = 0.1
"""Seconds: a driver takes 3 to 5 ms to tell the energy, several times as long as everything else together."""

# The bits of nvmlClocksEventReasons. NVML never changes them, while its Python names vary between versions.
CLOCK_REASONS = {
    0x001: "gpu idle",
    0x002: "clocks chosen by a user",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "temperature (software)",
    0x040: "temperature (hardware)",
    0x080: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
LANES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
MOST_LANES = 128
"""Lanes for float32 per multiprocessor, which NVML calls cores: by compute capability, and of all others."""

# Harmless reasons for a lower clock: nothing to do, or a clock that somebody chose.
HARMLESS = {"gpu idle", "clocks chosen by a user", "sync boost", "display clocks"}


GPU_WORD = re.compile(r"(?:gpu|cuda|nvidia)?[:\s]?([0-9]{0,3})")
"""What people call a GPU instead of ``cuda:0``."""


class Sensor(Protocol):
    """What reads one GPU."""

    def __call__(self, with_energy: bool = True) -> Reading:
        """Read it; without the energy that takes a tenth of the time."""


def cores() -> int:
    """Return how many of the host's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """Return the name of the host's processor and how many of its cores this process may use."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        found = re.search(r"^model name[^:]*:(.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        name = found[1].strip() if found else name
    return f"{name}, {cores()} cores"


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
    """Keep the devices that ``CUDA_VISIBLE_DEVICES`` lets a program see, in its order.

    As in CUDA, the first word that names no device, or repeats one, ends the list.
    """
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return uuids
    chosen: list[str] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdigit():
            named = uuids[int(word) : int(word) + 1]
        else:
            named = [uuid for uuid in uuids if word and uuid.startswith(word)]
        if len(named) != 1 or named[0] in chosen:
            break
        chosen += named
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
    if not names:
        return [], f"no NVIDIA GPU: the driver {driver} is installed but finds no card"
    found = [Device(f"cuda:{index}", names[uuid], uuid, driver) for index, uuid in enumerate(_visible(list(names)))]
    if not found:
        setting = os.environ["CUDA_VISIBLE_DEVICES"]
        return [], f"no NVIDIA GPU is visible: CUDA_VISIBLE_DEVICES={setting!r} hides all {len(names)}"
    return found, None


def others_like(device: Device) -> list[Device]:
    """List the other usable GPUs of a device's kind on this host; none beside one of another host."""
    if not device.is_gpu or device.selector.count(":") > 1:
        return []
    return [one for one in gpus()[0] if one.kind == device.kind and one.uuid != device.uuid]


def target_of(device: Device) -> Target | None:
    """Return what kernels for a device are compiled for, of a GPU by what NVML says; None where it does not."""
    if not device.is_gpu:
        return Target(CPU, 0)
    if device.uuid is None:
        return None
    try:
        with _nvml() as nvml:
            handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
            major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
            lanes = nvml.nvmlDeviceGetNumGpuCores(handle)
    except Exception:  # as in ``gpus``
        return None
    return Target(f"sm_{major}{minor}", lanes // LANES.get((major, minor), MOST_LANES))


def too_few(wanted: int, found: int) -> str:
    """Say that a case asks for more GPUs than there are."""
    return f"gpus={wanted}: this host has {found} usable GPU{'s' if found > 1 else ''} of this kind"


def link(places: list[str]) -> str:
    """Name what links the first of several GPUs, by PCI addresses, with the others; empty where NVML cannot tell."""
    try:
        with _nvml() as nvml:
            first, *others = (nvml.nvmlDeviceGetHandleByPciBusId(place.encode()) for place in places)
            nvlink = nvml.NVML_P2P_CAPS_INDEX_NVLINK
            found = {nvml.nvmlDeviceGetP2PStatus(first, other, nvlink) == nvml.NVML_P2P_STATUS_OK for other in others}
    except Exception:  # as in ``gpus``; also in a virtual machine that does not show it
        return ""
    return "NVLink" if found == {True} else "PCIe" if found == {False} else ""


def select(wanted: list[str]) -> tuple[list[Device], str | None]:
    """Return the devices to use: when nothing is ``wanted``, the first GPU, all others of its kind and the processor.

    The second value says why there is no GPU among them, None where there is one.

    Raises:
        InputError: a wanted device does not exist.
    """
    found, reason = gpus()
    available = {device.selector: device for device in [*found, Device(CPU, processor_name())]}
    if not wanted:
        wanted = [*(device.selector for device in found if device.kind == found[0].kind), CPU]
    chosen = []
    for word in dict.fromkeys(wanted):
        if word not in available:
            raise InputError(f"--device {shortened(word)}: no such device; {_accepted(word, available, reason)}")
        chosen.append(available[word])
    if any(device.is_gpu for device in chosen):
        return chosen, None
    return chosen, reason or "no GPU among the devices chosen by --device"


def _accepted(word: str, available: Mapping[str, Device], no_gpu: str | None) -> str:
    """Say which device is meant by a wrong name, which there are, and how GPUs are named where there is none."""
    gpu = GPU_WORD.fullmatch(word.casefold()) if word else None
    meant = f"cuda:{gpu[1] or 0}" if gpu else word
    question = f"did you mean {meant}? " if meant in available else "" if gpu else guess(word, list(available))
    accepted = ", ".join(f"{name} ({device.name})" for name, device in available.items())
    others = f"; GPUs are named cuda:0, cuda:1 and so on (here: {no_gpu})" if no_gpu else ""
    return f"{question}accepted: {accepted}{others}"


def _reasons(mask: int) -> tuple[str, ...]:
    known = [word for bit, word in CLOCK_REASONS.items() if mask & bit]
    unknown = mask & ~sum(CLOCK_REASONS)
    return (*known, f"unknown reason {unknown:#x}") if unknown else tuple(known)


def reader(sensors: Sequence[Sensor]) -> Callable[[], Reading | None]:
    """Return what reads the GPUs that share an evaluation, as one; None where there is none.

    A reading within ``ENERGY_EVERY`` of the last one with the energy has none.
    """
    last = -math.inf

    def read() -> Reading | None:
        nonlocal last
        with_energy = time.monotonic() >= last + ENERGY_EVERY
        readings = [sensor(with_energy) for sensor in sensors]
        if with_energy:
            last = time.monotonic()
        return together(readings) if len(readings) > 1 else next(iter(readings), None)

    return read


@contextlib.contextmanager
def sensor(uuid: str) -> Iterator[Sensor]:
    """Open the GPU with this UUID for reading."""
    with _nvml() as nvml:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)

        def ask(function: Callable[..., int], *arguments: Any) -> int | None:
            try:
                return function(handle, *arguments)
            except nvml.NVMLError:
                return None

        def read(with_energy: bool = True) -> Reading:
            milliwatts = ask(nvml.nvmlDeviceGetPowerUsage)
            millijoules = ask(nvml.nvmlDeviceGetTotalEnergyConsumption) if with_energy else None
            mask = ask(nvml.nvmlDeviceGetCurrentClocksEventReasons)
            if mask is None:  # drivers before 535 know the older name only
                mask = ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
            return Reading(
                sm_clock_mhz=ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
                power_watts=None if milliwatts is None else milliwatts / 1000,
                temperature_celsius=ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
                throttle_reasons=None if mask is None else _reasons(mask),
                joules=None if millijoules is None else millijoules / 1000,
            )

        yield read
