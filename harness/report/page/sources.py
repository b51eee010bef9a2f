"""The sources of a variant as a page shows them: CUDA C, the Python beside it, and what differs from its parent's."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gravbench.model import wgsl
from gravbench.model.record import Record
from gravbench.model.stem_code import CUDA_C
from gravbench.model.variant import CPU, NUMBA, Variant
from gravbench.report.provenance import Here, Origin

MOST_OTHER, LONG = 0.8, 100
"""The part of a file's lines that may be new, or of its parent's that may be gone, where it has so many lines.

Beyond it a diff says no more than the file."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One file of a variant, and its unified diff to the same kind of file of the parent.

    It is empty without a parent, and where nearly every line of a long file is new or gone.
    """

    title: str
    name: str
    text: str
    diff: list[str]


def listings(variant: Variant, variants: Mapping[str, Variant]) -> list[Listing]:
    """Return the files of a variant's kernels, where it has any, and its Python file: twin, axes, launch geometry."""
    parent = variants.get(variant.parent) if variant.parent else None
    kinds = {CUDA_C: "CUDA C (CuPy, PyCUDA)", wgsl.SUFFIX: "WGSL (WebGPU)"}
    return [
        _listing(
            kinds.get(path.suffix, f"the kernel for {', '.join(variant.toolkits)}"),
            path,
            parent.path.with_suffix(path.suffix) if parent else None,
        )
        for path in variant.kernel_files
    ] + [_listing(_python(variant), variant.path, parent.path if parent else None)]


def changed_since(variant: Variant, records: Iterable[Record], here: Here) -> int:
    """Count the records of a variant whose source is not the one here, steps with their integrator included."""
    return sum(here.origin(record) is Origin.OTHER for record in records if record.variant == variant.name)


def _python(variant: Variant) -> str:
    if NUMBA in variant.toolkits:
        return "the numba.cuda twin, axes and launch geometry"
    if variant.kernel_files:
        return "axes and launch geometry"
    return "Python and Numba" if CPU in variant.toolkits else f"the kernel for {', '.join(variant.toolkits)}, in Python"


def _listing(title: str, path: Path, parent: Path | None) -> Listing:
    text = path.read_text("utf-8")
    diff: list[str] = []
    if parent is not None and parent.is_file():
        before, after = parent.read_text("utf-8").splitlines(), text.splitlines()
        diff = list(difflib.unified_diff(before, after, parent.name, path.name, lineterm=""))
        if any(
            len(lines) > LONG and sum(line.startswith(sign) for line in diff) > MOST_OTHER * len(lines)
            for sign, lines in (("+", after), ("-", before))
        ):
            diff = []  # another text altogether
    return Listing(title, path.name, text, diff)
