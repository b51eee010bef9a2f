"""Explore how fast gravity between N bodies can be computed, and what each known optimization is worth.

The public names, imported when they are first used:

- ``force``: accelerations by the fastest variant known.
- ``last_force``: what the last call of it used, in words.
- ``load``: a configuration and overrides -> the cases of a sweep.
- ``run``: verify, measure and record every case of a sweep.
- ``compare``: two runs -> FASTER, SLOWER, SAME or UNCLEAR for every case.

Variants of one's own import ``gravbench.model.variant``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gravbench.accelerations import force, last_force
    from gravbench.api import compare, load, run

__all__ = ["compare", "force", "last_force", "load", "run"]

OF_FORCE = ("force", "last_force")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'accelerations' if name in OF_FORCE else 'api'}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
