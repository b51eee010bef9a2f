"""Records of the page as far as Python knows them: the page adds the device, the errors and the samples.

A kernel that was edited on the page is another variant, whose name says so, with a hash of its own. ``report`` shows
it as a variant that this checkout does not have, and ``compare`` and ``merge`` never take it for the variant that it
was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gravbench.config.settings import Measure
from gravbench.live.rungs import EPS, SEED, SIZES, Rung, gravity, sphere
from gravbench.measuring import environment
from gravbench.model.extent import Extent
from gravbench.model.generated_bodies import generated_by
from gravbench.model.method import METHOD
from gravbench.model.quantities import FORCE
from gravbench.model.record import Record
from gravbench.toolkits.wgsl_texts import TOOLKIT
from gravbench.version import VERSION

EDITED = "_edited"
"""What follows the name of a variant whose kernel was edited."""
MEASURE = Measure(budget_seconds=3.0, warm_up_seconds=0.3)
"""How the page measures: what a person waits for beside a browser is shorter than a run."""
NOT_YET = "1970-01-01T00:00:00+00:00"
"""The moment of what was not measured."""


def template(rung: Rung, n: int, *, edited: bool = False) -> dict[str, Any]:
    """Return the fields of a record of a rung, without what is found by measuring."""
    variant = rung.variant
    record = Record(
        variant=variant.name + EDITED * edited,
        toolkit=TOOLKIT,
        axes=rung.axes,
        n=n,
        dtype="float32",
        bodies="plummer",
        subset="even",
        seed=SEED,
        eps=EPS,
        timed=FORCE,
        method=METHOD,
        code_sha256=None if edited else variant.code_sha256(TOOLKIT, gravity()),
        flags=[],
        bodies_sha256=sphere(n).sha256,
        protocol=MEASURE.model_dump(exclude_none=True),
        flops_per_interaction=gravity().flops,
        threads_per_block=rung.plans[n].threads,
        grid_blocks=rung.plans[n].dispatches[0]["grid"],
        status="skipped",
        commit=environment.commit(),
        started=NOT_YET,
        harness_version=VERSION,
    )
    return record.model_dump(mode="json", exclude_unset=True)


def start(rungs: Sequence[Rung]) -> dict[str, Any]:
    """Return what ``environment.json`` holds beside the records: all that can be measured on the page is its sweep."""
    cases = [template(rung, n, edited=edited) for rung in rungs for n in SIZES for edited in (False, True)]
    keys = [Record.model_validate(fields).key for fields in cases]
    extent = Extent.of(keys, [], MEASURE.model_dump(exclude_none=True), {})
    return {
        "command": "gravbench live",
        "harness_version": VERSION,
        "commit": environment.commit(),
        "config": "live",
        "sweep_sha256": extent.sha256,
        "sweep": extent.model_dump(),
        "generated_by": generated_by(),
    }
