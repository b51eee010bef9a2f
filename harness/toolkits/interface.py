"""What the harness needs from a toolkit beyond what variants use, and what all GPU toolkits share.

Nothing here imports a toolkit's library.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.model.interaction import Interaction
from gravbench.model.record import Resources
from gravbench.model.variant import Dtype, Kernel, Source
from gravbench.toolkits import cuda_sums, driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.cuda_results import results_there
from gravbench.toolkits.device_sums import DeviceSums

FLAGS = ("-std=c++17", "-ftz=true", "-fmad=true")
"""Compiler flags of every CUDA C kernel on every toolkit.

``-ftz=true`` is explicit because CuPy adds it by itself and nvcc does not; without it one interaction costs three more
instructions on sm_90.
"""

LONGEST_HOLD = 100_000

A_CLOCK = 64.0
"""More interactions per clock cycle than any multiprocessor of a GPU can compute.

An interaction takes some 12 instructions and an inverse square root. A multiprocessor starts 128 of the former per
cycle and 16 of the latter, tensor cores and pairs that are computed once included.
"""


def cuda_options(constants: Mapping[str, int], dtype: Dtype) -> list[str]:
    """List the compiler's options for a kernel of CUDA C with these constants."""
    defined = {"FLOAT64": 1, **constants} if dtype == "float64" else constants
    return [*FLAGS, *(f"-D{name}={value}" for name, value in defined.items())]


class ToolkitMissingError(RuntimeError):
    """A toolkit cannot be used here; the message says why."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of a batch: seconds per evaluation on the device's clock.

    ``launch_seconds`` is what the host needed per launch; None where the host is the device.
    ``launch_bound`` says that the device had to wait for the host, so that ``seconds`` is not its own, and ``blocked``
    that the host could not even queue the batch during the longest hold, as it would a shorter one. For
    ``waking_seconds`` the device worked before the batch, because it had been idle; no budget counts them.
    """

    seconds: float
    launch_seconds: float | None
    launch_bound: bool = False
    blocked: bool = False
    waking_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """What the host saw of a result while the queue that computes it was held.

    ``looked`` while it was, ``early`` when something was there by then, ``late`` when something was missing once the
    queue had ended.
    """

    looked: bool
    early: bool
    late: bool


@dataclass(frozen=True, slots=True)
class Ceiling:
    """More interactions per second than ``what`` of a device can compute."""

    interactions_per_second: float
    what: str


class DeviceResults(Protocol):
    """Results of launches in a row, each kept on the device as its launch left it.

    ``most`` is the number of places at which results are kept.
    """

    most: int

    def fill(self, number: int) -> None:
        """Queue that the arrays of results are filled with the filling of this number."""

    def keep(self, place: int) -> None:
        """Queue that what is in these arrays is kept at a place."""

    def put_back(self, place: int) -> None:
        """Fill these arrays with what is kept at a place, and wait for that."""

    def differing(self, count: int) -> list[int]:
        """Wait for all launches; return which of the first ``count`` places have, in any bit, other than right."""


def time_on_host(launch: Callable[[], None], count: int, while_busy: Callable[[], None]) -> Timing:
    """Time by ``perf_counter`` what has ended when ``launch`` returns."""
    began = perf_counter()
    for _ in range(count):
        launch()
    seconds = (perf_counter() - began) / count
    while_busy()
    return Timing(seconds, None)


class DeviceToolkit(ABC):
    """A toolkit on one device, for one variant, number type and interaction.

    ``gravbench.model.variant.Toolkit`` is what variants see of it.
    """

    name: ClassVar[str]
    refusal: ClassVar[str] = ""
    """What is said when ``start`` fails, before its reason."""
    gpus = 1
    """GPUs that work for what was prepared last."""
    linked_by: str | None = None
    """How these are linked; None for a single one."""
    launches_blocks: ClassVar[bool] = False
    """Whether a kernel written for single threads is launched as blocks of them."""
    has_own_clock: bool = False
    """Whether ``time`` reads a clock of the device, so that ``time_by_both`` can compare it with the host's."""
    resolution: float | None = None
    """Seconds that the clock of ``time`` tells apart; None where it is finer than any sample has to be."""

    def __init__(self, variant: Source, dtype: Dtype, interaction: Interaction) -> None:
        """Open the toolkit.

        Raises:
            ToolkitMissingError: its library, or what the library needs, is not there.
        """
        self.variant = variant
        self.dtype = dtype
        self.interaction = interaction
        self.compile_seconds = 0.0
        """What compiling took: here, or when a binary that was loaded was made."""
        self.compiled_here_seconds = 0.0
        """The part of ``compile_seconds`` that was spent here."""
        self.built_ahead: bool | None = None
        """Whether all kernels were compiled before they were asked for; None where there were none to compile."""
        self.is_compiling = False
        self._counted: set[Binary] = set()
        try:
            self.start()
        except Exception as error:
            raise ToolkitMissingError(f"{self.refusal}: {' '.join(str(error).split())}") from error

    @abstractmethod
    def start(self) -> None:
        """Import the library and make it ready to compile."""

    @property
    def multiprocessors(self) -> int:
        """Multiprocessors of the device; 1 where there is no GPU."""
        return 1

    @property
    def float32_to_float64(self) -> int:
        """How many times as fast the device computes in float32 as in float64."""
        return 2

    @property
    def generation(self) -> str | None:
        """What the maker numbers its devices by, for example the compute capability ``9.0``; None where it does not."""
        return None

    @property
    def adapter(self) -> dict[str, str]:
        """What a device without a maker's own interface says of itself, by name; empty where the maker's says it."""
        return {}

    @property
    def ceiling(self) -> Ceiling | None:
        """More interactions per second than the device can compute; None where that is not known."""
        return None

    @property
    def device_sums(self) -> DeviceSums | None:
        """What adds up on the device the sums that kernels are judged by; None where the host has to."""
        return None

    @property
    def looks_beside_queue(self) -> bool:
        """Whether ``launch_held`` can hold the queue, and look at a result meanwhile."""
        return False

    def launch_held(self, launch: Callable[[], None], result: Any, microseconds: int) -> Held:
        """Launch behind a held queue, and look at the ``result``, a device array that was filled with NaN.

        Raises:
            NotImplementedError: the toolkit does not look beside its queue.
        """
        raise NotImplementedError(f"{self.name} does not look beside its queue")

    def results_there(
        self,
        arrays: Sequence[Any],  # noqa: ARG002
        right: NDArray[Any],  # noqa: ARG002
        fillings: Sequence[Sequence[NDArray[Any]]],  # noqa: ARG002
    ) -> AbstractContextManager[DeviceResults | None]:
        """Compare what launches leave on the device; see ``cuda_results.results_there``. None where the host has to."""
        return nullcontext()

    @property
    def queue(self) -> Hashable:
        """Identify the queue, and its device, that launches go into; work in different queues may overlap."""
        return None

    @property
    def real(self) -> type[np.floating[Any]]:
        """The type of every real number in the kernels."""
        return np.float32 if self.dtype == "float32" else np.float64

    def empty(self, *shape: int) -> Any:
        """Make a device array filled with NaN."""
        return self.upload(np.full(shape, np.nan))

    @abstractmethod
    def upload(self, values: NDArray[Any]) -> Any:
        """Copy to the device as contiguous ``real``."""

    @abstractmethod
    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        """Copy host values of the same shape into a contiguous device array that is there already."""

    @abstractmethod
    def download(self, array: Any) -> NDArray[Any]:
        """Copy to the host."""

    def compile(self, stem: str, /, **constants: int) -> Kernel:
        """Return a new kernel of the variant."""
        return self.build(stem, constants)

    @abstractmethod
    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        """Compile a kernel of the variant; adds to ``compile_seconds``, then or at its first launch."""

    def maker(self, stem: str) -> Callable[..., Any]:
        """Find the function of the source that makes this toolkit's kernel.

        Raises:
            InputError: it has none.
        """
        wanted = f"{self.name}_kernel"
        maker: Callable[..., Any] | None = getattr(self.variant.module, wanted, None)
        if maker is None:
            raise InputError(f"{stem} has no kernel for {self.name}: there is no {wanted} in {stem}.py")
        return maker

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything launched has run; raises what went wrong in it."""

    def count(self, seconds: float, *, compiled_now: bool) -> None:
        """Count a kernel that took so many seconds to compile, now or when its binary was made."""
        self.compile_seconds += seconds
        self.compiled_here_seconds += seconds if compiled_now else 0.0
        self.built_ahead = not compiled_now and self.built_ahead is not False

    def count_binary(self, binary: Binary, *, compiled_now: bool) -> None:
        """Count a binary; one that has several kernels counts once."""
        seconds = 0.0 if binary in self._counted else binary.seconds
        self._counted.add(binary)
        self.count(seconds, compiled_now=compiled_now)

    def release(self) -> None:  # noqa: B027 - most libraries keep none
        """Give memory back that the library keeps for later."""

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None] = lambda: None) -> Timing:
        """Time ``count`` launches in a row; call ``while_busy`` once while the device works on them.

        By ``perf_counter``, for the host, where a launch is the work itself.
        """
        return time_on_host(launch, count, while_busy)

    def time_by_both(self, launch: Callable[[], None], count: int) -> tuple[float, float]:
        """Time ``count`` launches in a row by the host's clock, until everything has ended, and by the device's.

        Returns seconds per launch by each.

        Raises:
            NotImplementedError: the device has no clock of its own.
        """
        raise NotImplementedError(f"{self.name} has the host's clock alone")

    def was_launched(self, kernel: Kernel) -> bool:
        """Tell whether a kernel has been launched, as far as it notes its launches."""
        noted = getattr(kernel, "launch", None)
        return not isinstance(noted, driver.Launch) or noted.grid_blocks > 0

    def resources(self, kernel: Kernel) -> Resources:  # noqa: ARG002
        """What the driver says of the kernel as it was launched last; nothing where there is no driver."""
        return Resources()

    @property
    @abstractmethod
    def compiler(self) -> str:
        """The compiler and its version."""


class DriverToolkit(DeviceToolkit):
    """A toolkit on a device that the CUDA driver knows."""

    @property
    def multiprocessors(self) -> int:
        return driver.device_attribute(driver.MULTIPROCESSORS)

    @property
    def float32_to_float64(self) -> int:
        return driver.device_attribute(driver.FLOAT32_TO_FLOAT64)

    @property
    def compute_capability(self) -> str | None:
        """For example ``9.0``; None where there is no GPU."""
        return driver.compute_capability()

    @property
    def generation(self) -> str | None:
        return self.compute_capability

    @property
    def device_sums(self) -> DeviceSums | None:
        return None if self.compute_capability is None else cuda_sums

    @property
    def ceiling(self) -> Ceiling:
        multiprocessors = self.gpus * driver.device_attribute(driver.MULTIPROCESSORS)
        return Ceiling(A_CLOCK * multiprocessors * driver.clock_hertz(), f"{multiprocessors} multiprocessors")

    @property
    def architecture(self) -> str:
        """What kernels are compiled for, such as ``sm_90``."""
        return f"sm_{driver.compute_capability().replace('.', '')}"


class GpuToolkit(DriverToolkit):
    """Timing on the device's own clock, by the driver's events in the stream in which the library's work waits."""

    launches_blocks = has_own_clock = True
    _hold_microseconds = 200
    _blocked = 0
    """Launches of a batch that was too long for the longest hold."""

    @property
    def current_stream(self) -> int:
        """The driver's handle of the stream that launches go into; 0 is the default one."""
        return 0

    event = driver.Event
    """Makes an event that records time."""

    def hold(self, microseconds: int) -> None:
        """Launch the holding kernel."""
        driver.hold(microseconds, self.current_stream)

    def time_by_both(self, launch: Callable[[], None], count: int) -> tuple[float, float]:
        start, stop = self.event(), self.event()
        self.synchronize()
        began = perf_counter()
        start.record(self.current_stream)
        for _ in range(count):
            launch()
        stop.record(self.current_stream)
        self.synchronize()
        took = (perf_counter() - began) / count
        return took, stop.seconds_since(start) / count

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None] = lambda: None) -> Timing:
        """Time a batch between two events.

        A short kernel ends before Python has launched the next one, so events around such a batch would measure
        Python. Therefore a holding kernel goes first; if the device had already passed the first event when the last
        launch was queued, the batch is repeated behind a longer hold.
        """
        if count < self._blocked:
            self._hold_microseconds, self._blocked = GpuToolkit._hold_microseconds, 0
        while True:
            start, stop = self.event(), self.event()
            self.hold(self._hold_microseconds)
            start.record(self.current_stream)
            began = perf_counter()
            for _ in range(count):
                launch()
            stop.record(self.current_stream)
            launch_seconds = (perf_counter() - began) / count
            held = not start.passed()
            while_busy()
            seconds = stop.seconds_since(start) / count
            # Where one evaluation outlasts a launch, the device never waits for the host after the first.
            launch_bound = not held and seconds <= 2 * launch_seconds
            if not launch_bound or self._hold_microseconds >= LONGEST_HOLD:
                blocked = launch_bound and launch_seconds * count * 1e6 >= LONGEST_HOLD
                self._blocked = count if blocked else 0
                return Timing(seconds, launch_seconds, launch_bound, blocked)
            self._hold_microseconds *= 2


class CudaToolkit(GpuToolkit):
    """A toolkit with CUDA's own primitives: memory from the driver, streams, and copies queued in them."""

    queues_copies: ClassVar[bool] = False
    """Whether ``send``, ``fetch`` and ``wait`` take None for the stream that launches go into."""

    def options(self, constants: Mapping[str, int]) -> list[str]:
        """List the compiler's options for a kernel of CUDA C with these constants."""
        return cuda_options(constants, self.dtype)

    @abstractmethod
    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:
        """Make an array on the host, not filled; where ``pinned``, in memory that the device reads by itself."""

    @abstractmethod
    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate through the driver, not from a pool: the cost of an allocation is one of the things measured.

        Raises:
            MemoryError: CuPy finds too little memory left on the device.
        """

    @abstractmethod
    def stream(self) -> Any:
        """Make a queue of work that does not wait for the default one."""

    @abstractmethod
    def send(self, array: Any, values: NDArray[Any], stream: Any) -> None:
        """Queue a copy of contiguous host values to the front of a device array of the same type."""

    @abstractmethod
    def fetch(self, values: NDArray[Any], array: Any, stream: Any) -> None:
        """Queue a copy of a device array's front to contiguous host values."""

    @property
    def looks_beside_queue(self) -> bool:
        return self.compute_capability is not None

    def launch_held(self, launch: Callable[[], None], result: Any, microseconds: int) -> Held:
        seen = self.host_array(result.shape, self.real, pinned=True)
        first = seen.reshape(len(seen), -1)[:, 0]  # along z there may be nothing to compute
        beside = self.stream()
        held, end = self.event(), self.event()
        self.hold(microseconds)
        held.record(self.current_stream)
        launch()
        end.record(self.current_stream)
        looked = early = False
        # Again and again: what runs elsewhere may take some of the time.
        while not early:
            self.fetch(seen, result, beside)
            self.wait(beside)
            if held.passed():
                break
            looked, early = True, not np.isnan(first).all()
        end.seconds_since(held)
        self.fetch(seen, result, beside)
        self.wait(beside)
        late = bool(np.isnan(first).any())
        self.synchronize()
        return Held(looked, early, late)

    def results_there(
        self, arrays: Sequence[Any], right: NDArray[Any], fillings: Sequence[Sequence[NDArray[Any]]]
    ) -> AbstractContextManager[DeviceResults | None]:
        if self.compute_capability is None or self.gpus > 1:
            return nullcontext()
        return results_there(arrays, right, fillings, self.current_stream)

    def devices(self, count: int) -> Sequence[CudaToolkit]:
        """Open the toolkit on so many GPUs of this kind: the first is itself; see ``gravbench.toolkits.several``.

        Raises:
            ToolkitMissingError: there are fewer, or the toolkit works on one alone.
        """
        if count > 1:
            raise ToolkitMissingError(f"gpus={count}: {self.name} works on one GPU; accepted: cupy")
        return [self]

    def current(self) -> AbstractContextManager[None]:
        """Work on this GPU within the block: in its own stream, and on the first in whichever is current there."""
        return nullcontext()

    def wait(self, stream: Any) -> None:
        """Wait until everything in a stream is done; None is the one that launches go into (``queues_copies``)."""
        stream.synchronize()

    def follow(self, stream: Any) -> None:
        """Have a stream wait for what has been queued in the one that launches go into, where it ``queues_copies``."""
        raise NotImplementedError(f"{self.name} has no streams that wait for its own")

    def argsort(self, keys: Any) -> Any:  # noqa: ARG002
        """Queue a stable sort of a device array of unsigned integers, shape (n,).

        Returns the device array of their places in order, int64; the keys stay as they are.

        Raises:
            ToolkitMissingError: the library has no sort on the device.
        """
        raise ToolkitMissingError(f"{self.name} has no sort on the device; accepted: cupy")

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Launch once, and return what queues the same again as one CUDA graph, into whichever stream is current.

        ``launch`` queues work in the current stream and waits for nothing; what it allocates meanwhile stays its own.

        Raises:
            ToolkitMissingError: the library has no graphs.
        """
        raise ToolkitMissingError(f"{self.name} has no CUDA graphs; accepted: cupy")


@contextmanager
def compiling(toolkit: DeviceToolkit) -> Iterator[None]:
    """Count what is done meanwhile as compile time; what is compiled within it is counted once."""
    if toolkit.is_compiling:
        yield
        return
    toolkit.is_compiling = True
    began = perf_counter()
    try:
        yield
    finally:
        toolkit.is_compiling = False
        toolkit.count(perf_counter() - began, compiled_now=True)


class FirstCall:
    """A function over whole arrays whose first call compiles it; that call counts as compile time."""

    def __init__(self, toolkit: DeviceToolkit, function: Callable[..., Any]) -> None:
        self.toolkit = toolkit
        self.function = function
        self.called = False

    def __call__(self, *arguments: Any) -> Any:
        """Call it; on a GPU this returns before what it launched has run."""
        if self.called:
            return self.function(*arguments)
        with compiling(self.toolkit), warnings.catch_warnings():
            # A compiler's advice on performance is part of what is measured, not a mistake to warn about.
            warnings.simplefilter("ignore")
            result = self.function(*arguments)
        self.called = True
        return result
