"""The kind of work of a case: of the GPU alone, of the host alone, or of both.

Times of the three kinds scatter differently between processes, so each kind has anchors of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from gravbench.model.quantities import QUANTITIES
from gravbench.model.variant import CPU

if TYPE_CHECKING:
    from gravbench.model.case import Case


class Work(StrEnum):
    """What is busy while a case is timed."""

    GPU = "the GPU"
    HOST = "the host"
    BOTH = "the host and the GPU"


def work_of(case: Case, *, on_host: bool) -> Work:
    """Return the kind of work of a case.

    ``on_host`` says that its variant keeps bodies and accelerations on the host although a GPU computes, as a tree that
    is built on the host does. A call includes the transfers, so the host works too.
    """
    if case.toolkit == CPU:
        return Work.HOST
    return Work.BOTH if on_host or QUANTITIES[case.timed].on_host_too else Work.GPU
