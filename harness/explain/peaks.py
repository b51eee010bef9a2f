"""What a device does at most of one kind of work: measured by ``gravbench peaks``, or published where it was not.

A peak rate is of one kind of instruction, in a loop of nothing else, or of one kind of traffic. A run folder's file,
``ceilings.json``, has all that were measured on one device, with the environment as records have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, computed_field

from gravbench.model import json_models
from gravbench.model.limits import Count, Moment, Name, Number, Prose, Text
from gravbench.model.runs import CEILINGS
from gravbench.model.statistics import median_interval

LANES = "lane operations per clock and multiprocessor"
PRODUCTS = "products per clock and multiprocessor"
CLOCKS = "clocks"
BYTES = "bytes per second"
OPERATIONS = "operations per second"
SECONDS = "seconds"

PUBLISHED: Mapping[str, tuple[float, str]] = {
    "fma_1": (128, LANES),
    "fma_2": (128, LANES),
    "fma_3": (64, LANES),
    "alu": (64, LANES),
    "alu_fma": (128, LANES),
    "mufu": (16, LANES),
    "mufu_fma": (128, LANES),
    "fp64": (64, LANES),
    "shuffle": (32, LANES),
    "transpose": (32, LANES),
    "convert": (64, LANES),
    "widen": (64, LANES),
    "lds_32": (32, LANES),
    "lds_128": (8, LANES),
    "ldg_32": (32, LANES),
    "ldg_128": (8, LANES),
    "mma_8": (2, PRODUCTS),
    "mma_16": (1, PRODUCTS),
    "latency_fma": (4, CLOCKS),
    "latency_mufu": (18, CLOCKS),
    "latency_lds": (29, CLOCKS),
    "latency_l1": (41, CLOCKS),
    "latency_l2": (262, CLOCKS),
    "l2_read": (5120 * 1980e6, BYTES),
    "memory_read": (4.8e12, BYTES),
    "launch_stream": (2.2e-6, SECONDS),
}
"""Of sm_90, for what was not measured.

NVIDIA, CUDA C++ Programming Guide, table of arithmetic throughput: 128 FMA, 64 integer, 16 special, 64 FP64, 32 shuffle
lanes and 64 conversions. NVIDIA, H100 whitepaper: four schedulers, 2,048 half-precision multiplications and additions
of the tensor cores, 128 bytes per clock from shared memory and from the first cache; 4.8 TB/s of an H200. NVIDIA, A100
whitepaper: 5,120 bytes per clock from the L2 cache. Two banks of registers that deliver one operand each per clock
halve the rate where three operands vary. Latencies are about those that Luo et al. 2024 (Benchmarking and dissecting
the Nvidia Hopper GPU architecture) and, of arithmetic, Jia et al. 2018 (Dissecting the Volta GPU architecture) found;
that of a launch is about what kernels of ten bodies take there.
"""
PUBLISHED_CLOCK = 1980.0
"""MHz: the highest of an H100 or an H200."""
PUBLISHED_FOR = "the published figure for sm_90, not measured on this device"


class Peak(BaseModel, frozen=True):
    """One of them: ``samples`` in ``unit``, and the clock meanwhile in MHz.

    ``clock_mhz`` is by the counters of the kernel itself, clocks over nanoseconds; ``nvml_clock_mhz`` what the driver
    said. Both are None where there is no GPU.
    """

    model_config = ConfigDict(extra="ignore")

    name: Name
    what: Text
    unit: Text
    samples: Annotated[list[Number], Field(min_length=1, max_length=100_000)]
    clock_mhz: Annotated[float, Field(gt=0, le=1e6)] | None = None
    nvml_clock_mhz: Count | None = None

    @cached_property
    def _interval(self) -> tuple[float, float, float]:
        interval = median_interval(self.samples)
        return interval.median, max(interval.low, min(self.samples)), min(interval.high, max(self.samples))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def median(self) -> float:
        """The median of the samples."""
        return self._interval[0]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def low(self) -> float:
        """The lower end of the interval that holds the median with 95 %; the least sample where there are too few."""
        return self._interval[1]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def high(self) -> float:
        """The upper end likewise."""
        return self._interval[2]


class Peaks(BaseModel, frozen=True):
    """Those of one device. ``failed`` has the reason for each that could not be measured.

    ``highest_clock_mhz`` is the highest that the driver names, None where there is no GPU.
    """

    model_config = ConfigDict(extra="ignore")

    device: Text | None = None
    device_uuid: Text | None = None
    compute_capability: Text | None = None
    multiprocessors: Count | None = None
    highest_clock_mhz: Annotated[float, Field(gt=0, le=1e6)] | None = None
    started: Moment | None = None
    ceilings: list[Peak] = Field(default_factory=list)
    failed: dict[Name, Prose] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[str, Peak]:
        """The measured ones by their names."""
        return {peak.name: peak for peak in self.ceilings}

    def value(self, name: str) -> float:
        """Return the measured median, or the published figure where it was not measured.

        Raises:
            KeyError: it is neither.
        """
        peak = self.by_name.get(name)
        return PUBLISHED[name][0] if peak is None else peak.median

    def measured(self, *names: str) -> bool:
        """Tell whether all of these were measured."""
        return all(name in self.by_name for name in names)

    def source(self, *names: str) -> str:
        """Say in a few words where these figures are from."""
        return f"measured on {self.device}" if self.measured(*names) else PUBLISHED_FOR

    @property
    def clock(self) -> float:
        """The highest clock of the multiprocessors in MHz."""
        return self.highest_clock_mhz or PUBLISHED_CLOCK

    def share_of_clock(self, name: str) -> float:
        """Return what a multiprocessor counted while this was measured, as a fraction of the clock reported meanwhile.

        It is one where either is not known.
        """
        peak = self.by_name.get(name)
        if peak is None or not peak.clock_mhz or not peak.nvml_clock_mhz:
            return 1.0
        return peak.clock_mhz / peak.nvml_clock_mhz

    def joined(self, before: Peaks) -> Peaks:
        """Add those that were measured before and are not among these."""
        names = self.by_name.keys() | self.failed.keys()
        others = [peak for peak in before.ceilings if peak.name not in names]
        failed = {name: why for name, why in before.failed.items() if name not in names} | self.failed
        # Not a copy, which would keep what is cached of these alone.
        return type(self)(**(dict(self) | {"ceilings": [*others, *self.ceilings], "failed": failed}))

    def write(self, folder: Path) -> Path:
        """Write the file of a run folder at once, so that it is the old one or the new one.

        Raises:
            InputError: it cannot be written.
        """
        return json_models.write(self, folder / CEILINGS)


def read(folder: Path) -> Peaks:
    """Read the peak rates of a run folder; without its file, none is measured.

    Raises:
        InputError: the file is not what ``gravbench peaks`` writes.
    """
    return json_models.read(Peaks, folder / CEILINGS, "gravbench peaks")
