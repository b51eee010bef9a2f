"""Measure the peak rates of a GPU through CuPy, each after its kernel has computed what it should."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import shortened
from gravbench.explain import microbenchmarks
from gravbench.explain.microbenchmarks import BENCHMARKS, BLOCK, BLOCKS_EACH, Benchmark, sum_of_rows
from gravbench.explain.peaks import LANES, PRODUCTS, SECONDS, Peak
from gravbench.model import files
from gravbench.model.device import Reading
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Kernel
from gravbench.toolkits.interface import CudaToolkit

SAMPLES = 15
SAMPLE_SECONDS = 3e-3
WARM_UP_SECONDS = 0.1
FEW_TURNS = 2
"""In which a kernel shows that it computes what it should: floats are exact."""
CHAIN_TURNS = 200
MOST_TURNS = 1 << 24
LAUNCHES = 256
GRAPH_LAUNCHES = 64


class WrongError(RuntimeError):
    """A kernel did not compute what it should, so that its time says nothing."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The text of ``peaks.cu``, as a toolkit compiles it."""

    module: ModuleType = field(default=microbenchmarks)

    def cuda_source(self, interaction: Interaction) -> str:  # noqa: ARG002
        """Return the text; it has no interaction."""
        return files.text(Path(__file__).with_name("peaks.cu"))


def benchmarks(toolkit: CudaToolkit, read: Callable[[], Reading | None]) -> dict[str, Callable[[], Peak]]:
    """Return what measures each peak rate of a GPU, which ``read`` reads meanwhile."""
    kernels: dict[str, Callable[[], Peak]] = {
        bench.name: lambda bench=bench: _Bench(toolkit, bench, read).measured()  # type: ignore[misc]
        for bench in BENCHMARKS
    }
    return kernels | {
        "launch_stream": lambda: _launches(toolkit),
        "launch_small": lambda: _relays(toolkit),
        "launch_graph": lambda: _graph(toolkit),
    }


def measure_all(
    todo: Mapping[str, Callable[[], Peak]], say: Callable[[str], None], names: frozenset[str] | None
) -> tuple[list[Peak], dict[str, str]]:
    """Measure each peak rate, or those of ``names``; return them, and the reasons of those that failed.

    ``say`` is told the name of each as it begins.
    """
    peaks: list[Peak] = []
    failed: dict[str, str] = {}
    for name, measure in todo.items():
        if names is None or name in names:
            say(name)
            try:
                peaks.append(measure())
            except Exception as error:  # one that fails does not end the others
                failed[name] = shortened(f"{type(error).__name__}: {error}", 500)
    return peaks, failed


class _Bench:
    """One benchmark with its arrays on the device."""

    def __init__(self, toolkit: CudaToolkit, bench: Benchmark, read: Callable[[], Reading | None]) -> None:
        if bench.least and float(toolkit.compute_capability or 0) < float(bench.least):
            raise RuntimeError(f"it needs compute capability {bench.least} or newer, which this device does not have")
        self.toolkit, self.bench, self.read = toolkit, bench, read
        self.grid = 1 if bench.chain else BLOCKS_EACH * toolkit.multiprocessors
        self.block = 32 if bench.chain else BLOCK
        self.threads = self.grid * self.block
        self.kernel: Kernel = toolkit.compile(bench.stem)
        self.out = toolkit.device_array(self.threads, bench.type_of_result)
        self.marks = toolkit.device_array(4, np.uint64)
        self.arguments: list[Any] = [self._sent(values) for values in bench.takes]
        self.words = 0
        if bench.rows:
            self.words = bench.rows // (4 * self.threads) * (4 * self.threads)
            rows = toolkit.device_array((self.words, 4), np.uint32)
            toolkit.compile("fill_rows")(self.grid, BLOCK, rows, np.int32(self.words))
            self.arguments += [rows, np.int32(self.words)]
        elif bench.ring:
            step = microbenchmarks.STEP_NEAR if bench.ring == microbenchmarks.RING_NEAR else microbenchmarks.STEP_FAR
            ring = toolkit.device_array(bench.ring * step, np.uint64)
            toolkit.compile("link_words")(16, BLOCK, ring, np.int32(bench.ring), np.int32(step))
            self.arguments.append(ring)

    def measured(self) -> Peak:
        """Verify, warm up and sample.

        Raises:
            WrongError: the result is wrong.
        """
        self._verify()
        turns = CHAIN_TURNS if self.bench.chain else self._turns()
        began = perf_counter()
        while perf_counter() - began < WARM_UP_SECONDS:
            self._time(turns)
        samples, clocks, readings = [], [], []
        for _ in range(SAMPLES):
            seconds, reading = self._time(turns)
            marks = self.toolkit.download(self.marks).astype(object)
            passed = marks[2] - marks[0]
            clocks.append(float(passed) / float(max(1, marks[3] - marks[1])) * 1e3)
            if reading is not None and reading.sm_clock_mhz is not None:
                readings.append(reading.sm_clock_mhz)
            samples.append(self._value(turns, seconds, float(passed), clocks[-1]))
        return Peak(
            name=self.bench.name,
            what=self.bench.what,
            unit=self.bench.unit,
            samples=samples,
            clock_mhz=float(np.median(clocks)),
            nvml_clock_mhz=round(float(np.median(readings))) if readings else None,
        )

    def _value(self, turns: int, seconds: float, clocks: float, megahertz: float) -> float:
        if self.bench.chain:
            return clocks / (self.bench.each * turns)
        done = self.bench.each * turns * (self.words or self.threads)
        if self.bench.unit in (LANES, PRODUCTS):
            return done / (seconds * megahertz * 1e6 * self.toolkit.multiprocessors)
        return done / seconds

    def _verify(self) -> None:
        self._clear()
        self._launch(FEW_TURNS)
        self.toolkit.synchronize()
        values = self.toolkit.download(self.out)
        expected = self.bench.leaves(FEW_TURNS)
        if self.bench.rows:
            left = (self.bench.of_rows or sum_of_rows)(self.words, FEW_TURNS)
            right = int(values.astype(object).sum()) % 2**32 == left
        elif expected is None:  # all add to the first place
            right = values[0] == self.bench.each * FEW_TURNS * self.threads and not values[1:].any()
        else:
            wanted = np.resize(np.asarray(expected), self.threads).astype(np.float64)
            right = bool(np.all(np.abs(values.astype(np.float64) - wanted) <= self.bench.tolerance * np.abs(wanted)))
        if not right:
            raise WrongError(f"{self.bench.name} computed {values[:3]} instead of {expected}, so it is not measured")

    def _turns(self) -> int:
        """Return the turns that a sample needs to last long enough."""
        turns = 1
        while True:
            seconds, _ = self._time(turns)
            if seconds >= SAMPLE_SECONDS / 4 or turns >= MOST_TURNS:
                return min(MOST_TURNS, max(turns, round(turns * SAMPLE_SECONDS / max(seconds, 1e-9))))
            turns *= 4

    def _time(self, turns: int) -> tuple[float, Reading | None]:
        readings: list[Reading | None] = []
        timing = self.toolkit.time(lambda: self._launch(turns), 1, lambda: readings.append(self.read()))
        return timing.seconds, readings[-1]

    def _launch(self, turns: int) -> None:
        self.kernel(self.grid, self.block, self.out, self.marks, *self.arguments, np.int32(turns))

    def _clear(self) -> None:
        self._send(self.out, np.zeros(self.threads, self.bench.type_of_result))

    def _sent(self, values: NDArray[Any]) -> Any:
        array = self.toolkit.device_array(len(values), values.dtype)
        self._send(array, values)
        return array

    def _send(self, array: Any, values: NDArray[Any]) -> None:
        stream = self.toolkit.stream()
        self.toolkit.send(array, values, stream)
        self.toolkit.wait(stream)


def _launches(toolkit: CudaToolkit) -> Peak:
    empty = toolkit.compile("empty")
    return _launch_peak(
        "launch_stream", "time per empty kernel, launched back to back in one stream", lambda: toolkit.time(
            lambda: empty(1, 32), LAUNCHES
        ).seconds
    )  # fmt: skip


def _relays(toolkit: CudaToolkit) -> Peak:
    relay, words = toolkit.compile("relay"), toolkit.multiprocessors * BLOCK
    here, there = (toolkit.device_array(words, np.uint32) for _ in range(2))
    stream = toolkit.stream()
    toolkit.send(here, np.zeros(words, np.uint32), stream)
    toolkit.wait(stream)

    def there_and_back() -> None:
        relay(toolkit.multiprocessors, BLOCK, there, here)
        relay(toolkit.multiprocessors, BLOCK, here, there)

    there_and_back()
    toolkit.synchronize()
    received = toolkit.download(here)
    if not (received == 2).all():
        raise WrongError(f"launch_small computed {received[:3]} instead of 2: it is not measured")
    return _launch_peak(
        "launch_small", "a kernel of one word per thread behind another that wrote the words", lambda: toolkit.time(
            there_and_back, LAUNCHES // 2
        ).seconds / 2
    )  # fmt: skip


def _graph(toolkit: CudaToolkit) -> Peak:
    empty = toolkit.compile("empty")

    def several() -> None:
        for _ in range(GRAPH_LAUNCHES):
            empty(1, 32)

    replay = toolkit.captured(several)
    return _launch_peak(
        "launch_graph", f"time per empty kernel in a CUDA graph of {GRAPH_LAUNCHES}", lambda: toolkit.time(
            replay, LAUNCHES // GRAPH_LAUNCHES
        ).seconds / GRAPH_LAUNCHES
    )  # fmt: skip


def _launch_peak(name: str, what: str, sample: Callable[[], float]) -> Peak:
    began = perf_counter()
    while perf_counter() - began < WARM_UP_SECONDS:
        sample()
    return Peak(name=name, what=what, unit=SECONDS, samples=[sample() for _ in range(SAMPLES)])
