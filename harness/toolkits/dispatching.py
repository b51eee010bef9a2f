"""Kernels of WGSL on a device of WebGPU: arrays, dispatches that wait to be submitted, and parts of long launches.

Nothing here imports a library: ``device`` is a ``GPUDevice`` of the package ``wgpu``. A launch waits until something
asks for its result, so that a batch reaches the device as a whole and the device never waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from time import perf_counter
from typing import Any

import numpy as np

from gravbench.toolkits.driver import Launch

LONGEST = 0.25
"""Seconds of a dispatch, about: drivers end those that take seconds, and desktops freeze for as long."""
FIRST_PART = 64
"""A kernel's first launch begins with this part of its blocks, to find out how long the others take."""
MOST_BLOCKS = 65535
"""Blocks of a dispatch that every device of WebGPU allows."""
UNIFORM, STORAGE, RESOLVED = 0x40 | 0x08, 0x80 | 0x08 | 0x04, 0x200 | 0x04
"""What buffers are used for, as WebGPU numbers it: numbers, arrays that are copied to and from the host, timestamps."""


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Numbers of float32 in a buffer of the device, in the shape of a host's array."""

    buffer: Any
    shape: tuple[int, ...]

    def __len__(self) -> int:
        """As of a NumPy array."""
        return self.shape[0]

    def __getitem__(self, _: tuple[slice, int]) -> Array:
        """Return what stands for a column of rows, as ``array[:, 0]``: a kernel gets the rows."""
        return Array(self.buffer, self.shape[:1])


@dataclass(frozen=True, slots=True)
class Dispatch:
    """So many blocks of a kernel, with the arrays and numbers that are bound to it, and about how long they take."""

    pipeline: Any
    bound: Any
    blocks: int
    seconds: float


class Queue:
    """What waits to be submitted to a device, in its order."""

    def __init__(self, device: Any, queries: Any = None) -> None:
        """Nothing waits. ``queries`` has room for two timestamps, where the device takes any."""
        self.device = device
        self.queries = queries
        # Of the ways to wait for a queue, reading something behind all else is the one that wgpu 0.32 has.
        self._last = device.create_buffer(size=4, usage=STORAGE)
        self._waiting: list[Dispatch] = []

    def add(self, dispatch: Dispatch) -> None:
        """Let it wait, behind all that waits already."""
        self._waiting.append(dispatch)

    def recorded(self, *, timed: bool = False) -> list[Any]:
        """Return all that waits as command buffers, of about ``LONGEST`` seconds at most.

        Where it is ``timed``, a timestamp is taken before the first dispatch and one after the last.
        """
        groups = _grouped(self._waiting)
        self._waiting = []
        last = len(groups) - 1
        return [
            self._commands(group, begins=timed and place == 0, ends=timed and place == last)
            for place, group in enumerate(groups)
        ]

    def _commands(self, dispatches: list[Dispatch], *, begins: bool, ends: bool) -> Any:
        marks = {"beginning_of_pass_write_index": 0} if begins else {}
        marks |= {"end_of_pass_write_index": 1} if ends else {}
        encoder = self.device.create_command_encoder()
        timestamps = {"timestamp_writes": {"query_set": self.queries, **marks}} if marks else {}
        commands = encoder.begin_compute_pass(**timestamps)
        for dispatch in dispatches:
            commands.set_pipeline(dispatch.pipeline)
            commands.set_bind_group(0, dispatch.bound)
            commands.dispatch_workgroups(dispatch.blocks)
        commands.end()
        return encoder.finish()

    def timestamps_to(self, ticks: Any) -> Any:
        """Return the command that copies the two timestamps to a buffer."""
        encoder = self.device.create_command_encoder()
        encoder.resolve_query_set(self.queries, 0, 2, ticks, 0)
        return encoder.finish()

    def submit(self) -> None:
        """Submit all that waits."""
        if self._waiting:
            self.device.queue.submit(self.recorded())

    def wait(self) -> None:
        """Submit all that waits, and wait for everything that was submitted."""
        self.submit()
        self.device.queue.read_buffer(self._last)


def _grouped(dispatches: list[Dispatch]) -> list[list[Dispatch]]:
    """Divide dispatches, in their order, into groups of about ``LONGEST`` seconds at most; there is one at least."""
    groups: list[list[Dispatch]] = [[]]
    seconds = 0.0
    for dispatch in dispatches:
        if groups[-1] and seconds + dispatch.seconds > LONGEST:
            groups.append([])
            seconds = 0.0
        groups[-1].append(dispatch)
        seconds += dispatch.seconds
    return groups


@dataclass(slots=True)
class Kernel:
    """A kernel of WGSL, compiled at its first launch, which says how many threads its blocks have.

    ``compiled`` returns the pipelines for so many, which each launch runs one behind the other. ``launch`` is the last.
    """

    queue: Queue
    compiled: Callable[[int], list[Any]]
    launch: Launch = field(default_factory=lambda: Launch(0, 0))
    _pipelines: dict[int, list[Any]] = field(default_factory=dict)
    _bound: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _block_seconds: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any) -> None:
        """Let ``grid`` blocks wait: arrays are bound in their order, then the numbers together.

        The first launch of a shape is submitted in parts that grow, each of which is waited for.
        """
        self.launch = Launch(grid, block)
        threads = prod(self.launch.extents)
        if threads not in self._pipelines:
            self._pipelines[threads] = self.compiled(threads)
        arrays = [argument for argument in arguments if isinstance(argument, Array)]
        numbers = b"".join(np.asarray(argument).tobytes() for argument in arguments if not isinstance(argument, Array))
        for pipeline in self._pipelines[threads]:
            self._run(pipeline, grid, arrays, numbers)

    def _run(self, pipeline: Any, grid: int, arrays: list[Array], numbers: bytes) -> None:
        """Let all blocks of a pipeline wait, or those that were not run to find out how long they take."""

        def part(first: int, blocks: int, seconds: float = LONGEST) -> Dispatch:
            bound = self._bind(pipeline, arrays, np.int32(first).tobytes() + numbers)
            return Dispatch(pipeline, bound, blocks, seconds)

        shape = (pipeline, grid, *(array.shape for array in arrays))
        first = 0
        if shape not in self._block_seconds:
            first, self._block_seconds[shape] = _tried(self.queue, part, grid)
        each = self._block_seconds[shape]
        at_once = min(max(1, int(LONGEST / each)), MOST_BLOCKS)
        for begin in range(first, grid, at_once):
            blocks = min(at_once, grid - begin)
            self.queue.add(part(begin, blocks, blocks * each))

    def _bind(self, pipeline: Any, arrays: list[Array], values: bytes) -> Any:
        key = (pipeline, values, *arrays)
        if key not in self._bound:
            self._bound[key] = _bound(self.queue.device, pipeline, arrays, values)
        return self._bound[key]


def _tried(queue: Queue, part: Callable[[int, int], Dispatch], grid: int) -> tuple[int, float]:
    """Launch the first of ``grid`` blocks in parts that grow, until one lasts ``LONGEST`` or none is left.

    A part that does not fill the device takes as long as one that does, so time is not taken to grow with the blocks.
    The first part is not the last, because a first launch takes time of its own. No block is run twice: an integrator
    would step twice. Returns how many blocks there were, and about how many seconds one takes where they fill the
    device best.
    """
    queue.wait()
    first, blocks, each, fresh = 0, max(1, grid // FIRST_PART), inf, True
    while True:
        blocks = min(blocks, MOST_BLOCKS, grid - first)
        began = perf_counter()
        queue.add(part(first, blocks))
        queue.wait()
        seconds = perf_counter() - began
        each = min(each, seconds / blocks)
        first += blocks
        if first == grid or (seconds > LONGEST and not fresh):
            return first, each
        blocks *= 1 if seconds > LONGEST else 2
        fresh = False


def _bound(device: Any, pipeline: Any, arrays: list[Array], values: bytes) -> Any:
    """Bind arrays in their order, and the numbers behind them.

    WebGPU binds no buffer twice that a kernel writes: where several arrays have the same, an empty one stands for all
    but the first.
    """
    buffers: list[Any] = []
    for array in arrays:
        is_bound = any(array.buffer is buffer for buffer in buffers)
        buffers.append(device.create_buffer(size=16, usage=STORAGE) if is_bound else array.buffer)
    buffers.append(device.create_buffer_with_data(data=values + bytes(-len(values) % 16), usage=UNIFORM))
    return _bind_group(device, pipeline, buffers)


def _bind_group(device: Any, pipeline: Any, buffers: Sequence[Any]) -> Any:
    """Bind buffers in their order."""
    entries = [{"binding": place, "resource": {"buffer": buffer}} for place, buffer in enumerate(buffers)]
    return device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)


EXERCISE = """
@group(0) @binding(0) var<storage, read_write> result: array<f32>;
@group(0) @binding(1) var<uniform> turns: vec4i;

@compute @workgroup_size(64)
fn exercise(@builtin(global_invocation_id) thread: vec3u) {
    var x = f32(thread.x);
    for (var turn = 0; turn < turns.x; turn++) {
        x = fma(fma(fma(fma(x, 0.5, 1.0), 0.25, 2.0), 0.5, 3.0), 0.25, 4.0);
    }
    result[thread.x % 64u] = x;
}
"""
EXERCISE_BLOCKS = 4096
"""Of 64 threads: more than any device runs at once."""
SHORT_EXERCISE, LONG_EXERCISE = 0.001, 0.02
"""Seconds of one dispatch of it, at least and at most."""
SETTLED = 1.05
"""How many times as long as at its quickest it may take on a device that works at its usual clock."""


class Exercise:
    """Work of no use that keeps a device at the clock of its work; an idle one lowers that, and raises it slowly."""

    def __init__(self, queue: Queue) -> None:
        """Compile it; it is not known yet how long it takes."""
        device = queue.device
        module = device.create_shader_module(code=EXERCISE)
        self._queue = queue
        self._pipeline = device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "exercise"}
        )
        self._turns = device.create_buffer(size=16, usage=UNIFORM)
        bound = _bind_group(device, self._pipeline, (device.create_buffer(size=256, usage=STORAGE), self._turns))
        self._dispatch = Dispatch(self._pipeline, bound, EXERCISE_BLOCKS, LONG_EXERCISE)
        self._turn_seconds = SHORT_EXERCISE
        self._quickest = inf
        self._begun = 1

    def begin(self, seconds: float) -> None:
        """Submit about so many seconds of it, ``LONG_EXERCISE`` at most, behind all that was submitted."""
        turns = max(1, round(min(max(seconds, SHORT_EXERCISE), LONG_EXERCISE) / self._turn_seconds))
        self._queue.device.queue.write_buffer(self._turns, 0, np.array([turns, 0, 0, 0], np.int32))
        self._queue.add(self._dispatch)
        self._queue.submit()
        self._begun = turns

    def go_on(self, least: float, most: float) -> None:
        """Do it for ``least`` seconds, and up to ``most`` while it is slower than it has been in this process."""
        start = perf_counter()
        while True:
            began = perf_counter()
            self.begin(LONG_EXERCISE)
            self._queue.wait()
            now = perf_counter()
            self._turn_seconds = (now - began) / self._begun
            self._quickest = min(self._quickest, self._turn_seconds)
            settled = now - start >= least and self._turn_seconds <= SETTLED * self._quickest
            if settled or now - start >= most:
                return
