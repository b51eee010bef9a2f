"""What this machine has: devices, toolkits, compilers, and how to mend what is missing.

A toolkit counts as usable when it has just compiled a kernel, run it and got the right accelerations.
"""

from __future__ import annotations

from collections.abc import Callable

from gravbench.config.settings import Measure
from gravbench.measuring import environment
from gravbench.measuring.processes import workplace
from gravbench.measuring.stages import Job
from gravbench.measuring.supervisor import Limits, Session
from gravbench.model.case import PARTS, Case
from gravbench.model.device import Device, Finding
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.toolkits.devices import families, family, gpus

MEASURE = Measure(timeout_seconds=120)


def examine(toolkit: str, device: Device | None) -> Finding:
    """Try a toolkit on a device, None if it has none, with a small verified case."""
    entry = catalogue()[toolkit]
    if missing := entry.missing:
        return Finding(toolkit, None, usable=False, reason=missing)
    if device is None:
        of_device = family(entry.family)
        # Of the usual GPUs it is said once what to do.
        mend = f"; {of_device.mend()}" if of_device.by_name else ""
        return Finding(toolkit, entry.version, usable=False, reason=f"installed; it needs {of_device.needs}{mend}")
    variant = discover()[entry.probe]
    usual = {name: PARTS[name].usual for name in ("dtype", "bodies", "subset", "seed", "eps", "timed")}
    case = Case.model_validate(
        {"variant": variant.name, "toolkit": toolkit, "axes": variant.complete({}), "n": 1000, **usual}
    )
    with workplace() as place:
        session = Session(place, device, (), place.folder / "log", Limits.of(MEASURE))
        try:
            outcome = session.ask(Job(1, case, None))
        finally:
            session.end()
    if outcome.status != "ok":
        hint = f"it is installed but does not work; {family(entry.family).check}"
        if entry.extras:
            hint += ": " + " or ".join(f"pip install --force-reinstall 'gravbench[{extra}]'" for extra in entry.extras)
        if entry.nvcc and environment.nvcc() is None:
            hint = f"{entry.title} calls nvcc, which is not on PATH; install the CUDA toolkit and put its bin on PATH"
        return Finding(toolkit, entry.version, usable=False, reason=f"{outcome.reason}; {hint}")
    reason = f"compiled, ran and verified {variant.name} with {outcome.results.preparation.compiler}"
    return Finding(toolkit, entry.version, usable=True, reason=reason)


def examine_all(begin: Callable[[str], None]) -> tuple[list[Device], str | None, list[Finding]]:
    """Find the devices and try every toolkit; ``begin`` is told which one is next.

    Returns the devices, why there is no GPU and what to do about it, and a finding per toolkit.
    """
    by_family = {name: family(name).devices()[0] for name in families()}
    _, no_gpu = gpus()
    findings = []
    for toolkit, entry in catalogue().items():
        begin(entry.title)
        findings.append(examine(toolkit, next(iter(by_family[entry.family]), None)))
    devices = [device for of_family in by_family.values() for device in of_family]
    return devices, no_gpu and f"{no_gpu}; {family(families()[0]).mend()}", findings
