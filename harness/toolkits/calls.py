"""Kernels that a library compiles when they are first called."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from harness.toolkits.interface import DeviceToolkit


class FirstCall:
    """A function over whole arrays. Its first call compiles, and counts as that."""

    def __init__(self, toolkit: DeviceToolkit, function: Callable[..., Any]) -> None:
        self.toolkit = toolkit
        self.function = function
        self.called = False

    def __call__(self, *arguments: Any) -> Any:
        """Call it; on a GPU this returns before what it launched has run."""
        if self.called:
            return self.function(*arguments)
        began = time.perf_counter()
        with warnings.catch_warnings():
            # What a compiler finds could be done otherwise is part of what is measured, not a mistake to warn of.
            warnings.simplefilter("ignore")
            result = self.function(*arguments)
        self.toolkit.compile_seconds += time.perf_counter() - began
        self.called = True
        return result
