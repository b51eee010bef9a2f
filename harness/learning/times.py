"""What the kernels of the course took on a GPU beside their rungs, and how much longer than a rung is as fast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gravbench.config.document import read
from gravbench.report.numbers import number

FILE = Path(__file__).with_name("times.yaml")
AS_FAST = 1.1
"""How many times as long as the rung a submission may take that is as fast."""
Milliseconds = Annotated[float, Field(gt=0)]


class Times(BaseModel):
    """Milliseconds of one evaluation of the kernels of an exercise in CUDA C.

    ``solution`` is None where our solution stands for the rung, and ``skeleton`` where that is wrong. ``right`` are
    submissions of ``tests/learn`` that are right and not counted as good as the rung, ``unnoticed`` wrong ones whose
    results are right for so many bodies, both by the names of their files.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    rung: Milliseconds
    solution: Milliseconds | None = None
    skeleton: Milliseconds | None = None
    right: dict[str, Milliseconds] = {}
    unnoticed: dict[str, Milliseconds] = {}

    @property
    def ratios(self) -> Mapping[str, float]:
        """How many times as long as the rung each takes that has a time: solution, skeleton, submissions by name."""
        known = {"solution": self.solution, "skeleton": self.skeleton, **self.right, **self.unnoticed}
        return {name: milliseconds / self.rung for name, milliseconds in known.items() if milliseconds}


class Measured(BaseModel):
    """What ``times.yaml`` says: the device and its driver, the number of bodies, and the times by exercise."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    device: str
    driver: str
    n: int
    exercises: dict[str, Times]

    def sentences(self, name: str, rung: str) -> str:
        """Say what the rung, our solution and the skeleton of an exercise took, in Markdown."""
        times = self.exercises[name]
        begin = f"the rung `{rung}`" if times.solution else "our solution, which stands for the rung,"
        kernels = [f"{begin} takes {number(times.rung)} ms"]
        for what, milliseconds in (("our solution", times.solution), ("the skeleton", times.skeleton)):
            if milliseconds:
                kernels.append(f"{what} {number(milliseconds)} ms ({number(milliseconds / times.rung)} times as long)")
        without = "" if times.skeleton else " The skeleton is wrong, and has no time."
        return (
            f"With {self.n:,} bodies, timed as by `learn check` on an {self.device} with driver {self.driver}, "
            f"{', '.join(kernels)}.{without} "
            f"Up to {number(AS_FAST, 2)} times as long as the rung counts as equally fast."
        )


@cache
def measured() -> Measured:
    """Return the times that stand on the pages of the exercises."""
    return Measured.model_validate(read(FILE, keys="device and exercises").data)
