"""What a process does first on a GPU, in turns of its own: it opens the device, and launches what judges kernels once.

To do so slows down whatever is measured there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from gravbench.measuring.direct_sums import direct_sums, gpu_is_usable
from gravbench.measuring.tally import LOADING
from gravbench.measuring.turns import Turn
from gravbench.model import interaction_files
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.statistics import median_interval
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, Dtype, Variant
from gravbench.toolkits import driver
from gravbench.toolkits.interface import DeviceToolkit
from gravbench.toolkits.opening import open_toolkit
from gravbench.toolkits.several import SeveralToolkit

Take = Callable[[Turn], bool]

OPENED: set[tuple[str, int]] = set()
"""The toolkits for which this process has opened GPUs, and how many."""
READY: set[tuple[Interaction, Dtype, bool]] = set()
"""What this process has summed directly, of one body at least, and whether on a GPU."""


@dataclass(slots=True)
class Start:
    """How long this process took from being asked for to its first usable device."""

    asked: float = field(default_factory=time.monotonic)
    found: float | None = None

    def seconds(self) -> float:
        """Return it; the first call sets it."""
        if self.found is None:
            self.found = time.monotonic() - self.asked
        return self.found


START = Start()


def initialize() -> None:
    """Initialize the driver, which opens no device."""
    with suppress(OSError, driver.DriverError):  # the case says so
        driver.initialize()


def begin(*, on_gpu: bool) -> None:
    """Do all this before the first case, as nothing is measured yet."""
    gravity = interaction_files.find(GRAVITY)
    make_ready(gravity, "float32", on_gpu=on_gpu and _open() and gpu_is_usable(gravity, "float32"))
    START.seconds()


def _open() -> bool:
    """Open the device, for whichever library comes first; tell whether it could be."""
    try:
        driver.use_device()
    except (OSError, driver.DriverError):  # the case says so
        return False
    return True


def toolkit(case: Case, variant: Variant, turn: Take, begins: Callable[[str], None]) -> DeviceToolkit:
    """Open the toolkit of a case; for a process that has not opened the GPUs for it, in a turn.

    Where it opens no more than a context that is open already, it waits for none.

    Raises:
        ToolkitMissingError: it cannot be used here, with the reason.
    """
    needs = case.toolkit, case.gpus
    if case.toolkit == CPU or needs in OPENED:
        return _opened(case, variant)
    # What is imported does not have to wait, and would hold the device.
    median_interval((1.0,))
    entries = catalogue()
    own = entries[case.toolkit]
    with suppress(Exception):  # the toolkit says so
        own.load()
    context_is_open = any(entries[name].only_context for name, _ in OPENED)
    waits = case.gpus > 1 or not (own.only_context and context_is_open)
    if waits:
        initialize()  # or the thread that does so would go on beside a case that is alone
        asked = time.monotonic()
        turn(Turn.ALONE if case.gpus > 1 else Turn.OPEN)
        START.asked += time.monotonic() - asked
        begins(LOADING)
    found = _opened(case, variant)
    if case.gpus > 1 and isinstance(found, SeveralToolkit):
        found.devices(case.gpus)
    if found.compute_capability is not None and gpu_is_usable(found.interaction, case.dtype):
        make_ready(found.interaction, case.dtype, on_gpu=True, turn=None if waits else turn)
    OPENED.add(needs)
    if waits:
        turn(Turn.NOTHING)
    return found


def _opened(case: Case, variant: Variant) -> DeviceToolkit:
    return open_toolkit(case.toolkit, variant, case.dtype, interaction_files.find(case.interaction))


def make_ready(interaction: Interaction, dtype: Dtype, *, on_gpu: bool, turn: Take | None = None) -> None:
    """Import and compile, once per process, what verifies and measures, so that no case's turn is spent on it.

    On a GPU that launches a kernel, for which it takes a turn of its own where there is a ``turn`` to take.
    """
    key = interaction, dtype, on_gpu
    if key in READY:
        return
    median_interval((1.0,))
    if on_gpu and turn:
        turn(Turn.OPEN)
    # One body is enough to compile the sums.
    one = Bodies(np.ones(1), np.zeros((1, 3)), np.zeros((1, 3)), 1.0)
    direct_sums(interaction, one, np.arange(1), dtype, on_gpu=on_gpu)
    READY.add(key)
    if on_gpu and turn:
        turn(Turn.NOTHING)
