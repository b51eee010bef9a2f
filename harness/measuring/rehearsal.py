"""What Numba compiles for the host, compiled or loaded before a case has the host's cores for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from gravbench.model.bodies import Bodies
from gravbench.model.variant import Variant
from gravbench.toolkits.interface import CompiledError, DeviceToolkit

FEW = 64
"""Bodies of a rehearsal: enough for a tree, and over in less than a millisecond."""


def rehearse(
    toolkit: DeviceToolkit, variant: Variant, bodies: Bodies, axes: Mapping[str, Any], compiles: Callable[[], object]
) -> None:
    """Launch what has been prepared for a few of the bodies, up to its first kernel on a GPU, and drop all of it.

    The kernels are those that were compiled for all bodies, and one that is compiled when it is launched first is
    compiled too. ``compiles`` is called before that; what has been compiled before is loaded. What goes wrong the case
    itself will say.
    """
    few = Bodies(bodies.mass[:FEW], bodies.position[:FEW], bodies.velocity[:FEW], bodies.eps)
    own = toolkit.keeps_kernels, toolkit.on_launch, toolkit.on_compiling
    told = toolkit.on_compiling

    def tell(begins: bool) -> None:
        if begins:
            compiles()
        told(begins)

    toolkit.keeps_kernels, toolkit.on_launch, toolkit.on_compiling = True, _end, tell
    try:
        with suppress(Exception, CompiledError):
            variant.prepare(toolkit, few, **axes).launch()
    finally:
        toolkit.keeps_kernels, toolkit.on_launch, toolkit.on_compiling = own


def _end() -> None:
    raise CompiledError
