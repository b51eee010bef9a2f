"""Which devices there are, which of them are used, and what they say while they work: asked of their families."""

from __future__ import annotations

import contextlib
import importlib
import math
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from gravbench.errors import InputError, guess, shortened
from gravbench.model.blocks import cores
from gravbench.model.device import Device, Reading, Target, together
from gravbench.model.toolkits import PACKAGE, catalogue
from gravbench.model.variant import CPU
from gravbench.toolkits.family import Family, Sensor

ENERGY_EVERY = 0.1
"""Seconds: a driver takes 3 to 5 ms to tell the energy, several times as long as everything else together."""

GPU_WORD = re.compile(r"([a-z]*)[:\s]?([0-9]{0,3})")
"""What people call a GPU instead of ``cuda:0``: a word, a number, or both."""


def processor_name() -> str:
    """Return the name of the host's processor and how many of its cores this process may use."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        line = re.search(r"^model name[^:]*:(.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        name = line[1].strip() if line else name
    return f"{name}, {cores()} cores"


def family(name: str) -> Family:
    """Return the family whose devices are chosen by a word, such as ``cuda``."""
    return cast("Family", importlib.import_module(f"{PACKAGE}.{name}").FAMILY)


def families() -> list[str]:
    """Name the families of all toolkits, in the order of these."""
    return list(dict.fromkeys(entry.family for entry in catalogue().values()))


def gpus() -> tuple[list[Device], str | None]:
    """List the GPUs of the first family that has any, and say why the first of all has none where none has.

    Several families may know the same card, which only one session may own. Those that have to be named are left out.
    """
    first, *others = (name for name in families() if name != CPU and not family(name).by_name)
    devices, reason = family(first).devices()
    for name in others:
        if not devices:
            devices, _ = family(name).devices()
    return devices, None if devices else reason


def processor() -> Device:
    """Return the host's processor."""
    return Device(CPU, processor_name())


def others_like(device: Device) -> list[Device]:
    """List the other usable GPUs of a device's kind on this host; none beside one of another host."""
    if not device.is_gpu or device.selector.count(":") > 1:
        return []
    return [other for other in gpus()[0] if other.kind == device.kind and other.uuid != device.uuid]


def target_of(device: Device) -> Target | None:
    """Return what kernels for a device are compiled for ahead; None where its sessions compile them."""
    return family(device.family).target(device)


def expose(devices: Sequence[Device]) -> None:
    """Let the libraries that this process has not imported yet see these devices alone, and of other families none."""
    for name in families():
        family(name).expose([device for device in devices if device.family == name])


def too_few(wanted: int, usable: int) -> str:
    """Say that a case asks for more GPUs than there are."""
    return f"gpus={wanted}: this host has {usable} usable GPU{'s' if usable > 1 else ''} of this kind"


def select(wanted: list[str], toolkits: Iterable[str] = ()) -> tuple[list[Device], str | None]:
    """Return the devices to use: when nothing is ``wanted``, the first GPU, all others of its kind and the processor.

    Where all of the ``toolkits`` that compute on GPUs are of families whose devices have to be named, the first GPU is
    that of the first such family. The second value says why there is no GPU among them, None where there is one.

    Raises:
        InputError: a wanted device does not exist.
    """
    gpus_here, reason = _usual_gpus(() if wanted else toolkits)
    available = _by_selector([*gpus_here, processor()])
    if not wanted:
        wanted = [*(device.selector for device in gpus_here if device.kind == gpus_here[0].kind), CPU]
    chosen = []
    for word in dict.fromkeys(wanted):
        if word not in available:
            available |= _by_selector(_of_other_families(gpus_here))
        if word not in available:
            raise InputError(f"--device {shortened(word)}: no such device; {_accepted(word, available, reason)}")
        chosen.append(available[word])
    if any(device.is_gpu for device in chosen):
        return chosen, None
    return chosen, reason or "no GPU among the devices chosen by --device"


def _usual_gpus(toolkits: Iterable[str]) -> tuple[list[Device], str | None]:
    """List the GPUs that are used where none is named, and say why there is none where there is none."""
    of_toolkits = [name for name in dict.fromkeys(catalogue()[toolkit].family for toolkit in toolkits) if name != CPU]
    if of_toolkits and all(family(name).by_name for name in of_toolkits):
        return family(of_toolkits[0]).devices()
    return gpus()


def _by_selector(devices: Iterable[Device]) -> dict[str, Device]:
    return {device.selector: device for device in devices}


def _of_other_families(known: Sequence[Device]) -> list[Device]:
    """List the GPUs of all families but that of those which are ``known``."""
    asked_before = {CPU, *(device.family for device in known)}
    others = [name for name in families() if name not in asked_before]
    return [device for name in others for device in family(name).devices()[0]]


def _accepted(word: str, available: Mapping[str, Device], no_gpu: str | None) -> str:
    """Say which device is meant by a wrong name, which there are, and how GPUs are named where there is none."""
    meant = _meant(word)
    question = f"did you mean {meant}? " if meant in available else "" if meant else guess(word, list(available))
    accepted = ", ".join(f"{name} ({device.name})" for name, device in available.items())
    first = next(name for name in families() if name != CPU)
    others = f"; GPUs are named {first}:0, {first}:1 and so on (here: {no_gpu})" if no_gpu else ""
    return f"{question}accepted: {accepted}{others}"


def _meant(word: str) -> str | None:
    """Return the GPU that is meant by what people call one; None where a word is none of these."""
    named = GPU_WORD.fullmatch(word.casefold()) if word else None
    for name in families():
        if named and name != CPU and named[1] in ("", "gpu", name, *family(name).words):
            return f"{name}:{named[2] or 0}"
    return None


def sensor(device: Device) -> AbstractContextManager[Sensor | None]:
    """Open a device for readings; None where it cannot be read."""
    return family(device.family).sensor(device)


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
