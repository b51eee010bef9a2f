"""Open a toolkit by its name."""

from __future__ import annotations

import importlib
from functools import cache

from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import PACKAGE
from gravbench.model.variant import Dtype, Source
from gravbench.toolkits.interface import DeviceToolkit


def open_toolkit(name: str, variant: Source, dtype: Dtype, interaction: Interaction | None = None) -> DeviceToolkit:
    """Import the toolkit's library and open it on the current device for one variant; without an interaction, gravity.

    Raises:
        ToolkitMissingError: it cannot be used here, with the reason.
    """
    # The file has the toolkit's name, and so has the class in it.
    kind: type[DeviceToolkit] = getattr(importlib.import_module(f"{PACKAGE}.{name}"), f"{name.capitalize()}Toolkit")
    return kind(variant, dtype, interaction or find(GRAVITY))


def keeping_kernels(opened: DeviceToolkit) -> DeviceToolkit:
    """Have a toolkit compile each kernel once, and return it.

    For callers whose arrays always have the same layout: what Numba compiles is for one, what XLA makes for one shape.
    """
    opened.compile = cache(opened.compile)  # type: ignore[method-assign]
    return opened
