"""NVIDIA's GPUs: which there are, and what they say of themselves while they work.

Asks NVML, which needs no CUDA context: the parent process may call this. Devices are named by UUID, because
NVML's index need not be CUDA's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gravbench.model.device import CardKind, Device, Reading, Target
from gravbench.toolkits.family import Family, Sensor

VISIBLE = "CUDA_VISIBLE_DEVICES"

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


class CudaFamily(Family):
    """The GPUs that CUDA lets this process see, with their numbers there: ``cuda:0``, ``cuda:1``, ..."""

    words = ("nvidia",)
    needs = "an NVIDIA GPU"
    variables = ("CUDA_",)
    distributions = ("nvidia-ml-py", "cuda-core", "cuda-bindings")
    chooser = VISIBLE
    check = "check that its CUDA version suits the driver, and reinstall it"

    def devices(self) -> tuple[list[Device], str | None]:
        try:
            with _nvml() as nvml:
                driver = _text(nvml.nvmlSystemGetDriverVersion())
                handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
                names = {
                    _text(nvml.nvmlDeviceGetUUID(handle)): _text(nvml.nvmlDeviceGetName(handle)) for handle in handles
                }
        except Exception as error:  # NVML's own error classes exist only once its library is loaded
            return [], f"no NVIDIA GPU: NVML says: {error}"
        if not names:
            return [], f"no NVIDIA GPU: the driver {driver} is installed but finds no card"
        visible = _visible(list(names))
        if not visible:
            return [], f"no NVIDIA GPU is visible: {VISIBLE}={os.environ[VISIBLE]!r} hides all {len(names)}"
        return [Device(f"cuda:{index}", names[uuid], uuid, driver) for index, uuid in enumerate(visible)], None

    def mend(self) -> str:
        if os.environ.get(VISIBLE) is not None:
            return f"if there is a card, make it visible with: unset {VISIBLE}"
        return (
            "if there is a card, install its driver: apt install nvidia-driver (Debian), ubuntu-drivers install "
            "(Ubuntu)"
        )

    def target(self, device: Device) -> Target | None:
        """Return its architecture and its multiprocessors by what NVML says; None where it does not."""
        if device.uuid is None:
            return None
        try:
            with _nvml() as nvml:
                handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
                major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
                lanes = nvml.nvmlDeviceGetNumGpuCores(handle)
        except Exception:  # as in ``devices``
            return None
        return Target(f"sm_{major}{minor}", lanes // LANES.get((major, minor), MOST_LANES))

    def card(self) -> CardKind | None:
        """Return that of the current context, or of the first GPU, whose context becomes current; None without any."""
        from gravbench.toolkits import driver

        try:
            driver.use_device()
            return driver.card_kind(driver.current_device())
        except (OSError, driver.DriverError):
            return None

    def expose(self, devices: Sequence[Device]) -> None:
        """Name them by their UUIDs, which do not depend on who counts."""
        os.environ[VISIBLE] = ",".join(device.uuid for device in devices if device.uuid)

    def preload(self) -> None:
        """Find NVRTC, and initialize the driver, which opens no device."""
        from gravbench.toolkits import driver, nvrtc

        nvrtc.is_usable()
        driver.initialize()

    @contextlib.contextmanager
    def sensor(self, device: Device) -> Iterator[Sensor | None]:
        if device.uuid is None:
            yield None
            return
        with _nvml() as nvml:
            handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)

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


FAMILY = CudaFamily()


def uuid_of(name: str) -> str | None:
    """Return the UUID of the only card of a name, visible to CUDA or not; None where there is none, or several."""
    try:
        with _nvml() as nvml:
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            alike = [handle for handle in handles if _text(nvml.nvmlDeviceGetName(handle)) == name]
            return _text(nvml.nvmlDeviceGetUUID(alike[0])) if len(alike) == 1 else None
    except Exception:  # as in ``devices``
        return None


def link(places: list[str]) -> str:
    """Name what links the first of several GPUs, by PCI addresses, with the others; empty where NVML cannot tell."""
    try:
        with _nvml() as nvml:
            first, *others = (nvml.nvmlDeviceGetHandleByPciBusId(place.encode()) for place in places)
            nvlink = nvml.NVML_P2P_CAPS_INDEX_NVLINK
            linked = {nvml.nvmlDeviceGetP2PStatus(first, other, nvlink) == nvml.NVML_P2P_STATUS_OK for other in others}
    except Exception:  # as in ``devices``; also in a virtual machine that does not show it
        return ""
    return "NVLink" if linked == {True} else "PCIe" if linked == {False} else ""


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
    setting = os.environ.get(VISIBLE)
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


def _reasons(mask: int) -> tuple[str, ...]:
    known = [word for bit, word in CLOCK_REASONS.items() if mask & bit]
    unknown = mask & ~sum(CLOCK_REASONS)
    return (*known, f"unknown reason {unknown:#x}") if unknown else tuple(known)
