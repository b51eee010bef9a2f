"""Measure the peak rates of a device: a GPU through CuPy, a CPU through Numba."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gravbench.errors import InputError, nearest
from gravbench.explain import host_peaks, measured_peaks
from gravbench.explain.microbenchmarks import BENCHMARKS
from gravbench.explain.peaks import Peaks
from gravbench.measuring import environment
from gravbench.model.device import Device
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU
from gravbench.toolkits import driver
from gravbench.toolkits.devices import family, sensor
from gravbench.toolkits.interface import ToolkitMissingError

CUDA = catalogue()["cupy"].family
"""The word that chooses the devices of the toolkit that measures a GPU."""
OF_A_GPU = (*(bench.name for bench in BENCHMARKS), "launch_stream", "launch_small", "launch_graph")


def check(device: Device, names: Iterable[str]) -> None:
    """Check a device and names of peak rates.

    Raises:
        InputError: nothing measures such a device, or a name is no peak rate of it.
    """
    if device.is_gpu and device.family != CUDA:
        raise InputError(
            f"{device.selector} ({device.name}): the peak rates of a GPU are measured by CUDA C through CuPy; "
            f"accepted: {family(CUDA).needs}, such as --device {CUDA}:0, or --device {CPU}"
        )
    accepted = OF_A_GPU if device.is_gpu else host_peaks.NAMES
    for name in sorted(names):
        if name not in accepted:
            raise InputError(f"--only {name}: no peak rate of {device.selector}; {nearest(name, list(accepted))}")


def measure(
    device: Device, arguments: Sequence[str], say: Callable[[str], None], names: frozenset[str] | None = None
) -> Peaks:
    """Measure each peak rate of a device, or those of ``names``; ``arguments`` are those of the ``gravbench`` command.

    ``say`` is told the name of each as it begins. A GPU has to be the first that CUDA sees.

    Raises:
        InputError: CuPy cannot be used here.
    """
    noted = environment.describe([device], arguments)
    if not device.is_gpu:
        rates, failed = measured_peaks.measure_all(host_peaks.benchmarks(), say, names)
        return Peaks(device=device.name, ceilings=rates, failed=failed, environment=noted)
    from gravbench.toolkits.cupy import CupyToolkit

    try:
        toolkit = CupyToolkit(measured_peaks.Kernels(), "float32", find(GRAVITY))
    except ToolkitMissingError as error:
        raise InputError(f"peak rates of a GPU are measured through CuPy: {error}") from error
    assert device.uuid is not None
    with sensor(device) as read:
        assert read
        rates, failed = measured_peaks.measure_all(measured_peaks.benchmarks(toolkit, read), say, names)
    return Peaks(
        device=device.name,
        device_uuid=device.uuid,
        compute_capability=toolkit.compute_capability,
        multiprocessors=toolkit.multiprocessors,
        highest_clock_mhz=driver.clock_hertz() / 1e6,
        ceilings=rates,
        failed=failed,
        environment=noted,
    )
