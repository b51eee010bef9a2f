"""What adds up on a device the sums that kernels are judged by, of functions written in Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from gravbench.model.interaction import MATH
from gravbench.model.variant import Dtype


class Texts(NamedTuple):
    """The functions that a kernel calls: sums of one row, in float64 and plainly, and the terms of one body."""

    exact: str
    plain: str
    terms: str


class DeviceSums(Protocol):
    """Adds rows up on the device that is current in this process; ``sums`` is how many an interaction has."""

    def __hash__(self) -> int:
        """What has been added up is kept by what added it up."""

    def is_usable(self, texts: Texts, sums: int, dtype: Dtype) -> bool:
        """Tell whether what adds them up has been compiled before, or can be."""

    def sum_rows(self, texts: Texts, sums: int, dtype: Dtype) -> Callable[..., None]:
        """Return what adds up rows, called as the ``sum_rows`` of ``gravbench.verifying.direct_sums.ON_CPU``."""


def made(text: str, **known: Any) -> Callable[..., None]:
    """Make the one function that a text defines; it sees what is ``known``."""
    namespace: dict[str, Any] = {"__name__": __name__, **MATH, **known}
    exec(compile(text, "<made>", "exec"), namespace)
    function: Callable[..., None] = namespace[re.findall(r"def (\w+)", text)[0]]
    return function
