"""Stands in for Numba where importing it takes longer than all that a test's run does: what it compiles is interpreted.

For processes that start nothing else; whatever sums directly must not have been imported with the real one.
"""

import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec


def njit(function=None, **options):
    """Return the function itself."""
    if function is None:
        return njit
    function.compile = lambda types: None  # noqa: ARG005
    return function


def stand_in():
    """Be what the name ``numba`` imports from now on."""
    numba, core, event = (
        module_from_spec(ModuleSpec(name, None)) for name in ("numba", "numba.core", "numba.core.event")
    )
    numba.njit, numba.typeof, numba.core = njit, type, core
    core.event, event.Listener, event.install_listener = event, object, lambda *_: nullcontext()
    sys.modules |= {one.__name__: one for one in (numba, core, event)}
