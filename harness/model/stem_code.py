"""The files of a stem below ``variants/``: its CUDA C as it is compiled, and the hash of the code that a toolkit runs.

A variant has a stem, and so have parts that variants share.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from gravbench.errors import InputError, nearest
from gravbench.model import files, identity, python_code, wgsl
from gravbench.model.interaction import Interaction
from gravbench.model.python_code import Roots
from gravbench.model.toolkits import catalogue
from gravbench.packaged import folder

BUILT_IN = folder("gravbench.variants")
SHARED = BUILT_IN / "common"
"""What families share: its ``HEADER`` and the Numba side are those of every folder without a header of its own."""
HEADER = "body.cuh"
CUDA_C = ".cu"
_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]*)"')
_CONDITION = re.compile(r"\s*#\s*(if|el|endif)")


def cuda_source(path: Path, interaction: Interaction, built_in: Path | None = None) -> str:
    """Join the headers beside a file of CUDA C, the interaction and the file into one text, each behind ``#line``.

    Joined rather than included, because a kernel cache keyed by the text of the source does not
    see an edited header. A folder without a header has ``body.cuh`` of ``variants/common``; the other headers there
    take the place of the line that includes them, such as ``#include "begin_of.cuh"``. ``built_in`` is the folder
    ``variants``: by default that of this checkout.
    """
    shared = built_in / SHARED.name if built_in else SHARED
    headers = files.listing(path.parent, "*.cuh") or [shared / HEADER]
    parts = [(header.name, _with_included(header, shared, beside=False)) for header in headers]
    parts += [(interaction.name, interaction.cuda_source()), (path.name, _with_included(path, shared))]
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in parts)


def _with_included(path: Path, shared: Path, *, beside: bool = True) -> str:
    """Put the text of each file that a stem or a header includes in the place of the line that includes it.

    That is a shared header or, from ``beside`` it, another stem, which may include headers alone.

    Raises:
        InputError: there is no such file.
    """
    original = files.text(path)
    lines = original.split("\n")
    depth, within, owed = 0, False, False  # of conditions; whether they have a header in them, and one ended
    for number, line in enumerate(identity.without_comments(original).split("\n"), start=1):
        word = match[1] if (match := _CONDITION.match(line)) else ""
        go_on = f'#line {number + 1} "{path.name}"'
        depth += (word == "if") - (word == "endif")
        if match := _INCLUDE.match(lines[number - 1]):
            name = match[1]
            headers = [header for header in files.listing(shared, "*.cuh") if header.name != HEADER]
            stems = [stem for stem in files.listing(path.parent, "*.cu") if beside and stem.name != path.name]
            accepted = {file.name: file for file in (*headers, *stems)}
            if name not in accepted:
                what = "shared" if name.endswith("h") else "other"
                raise InputError(f"{path}, line {number}: no {what} file {name}; {nearest(name, sorted(accepted))}")
            whole = accepted[name] in stems
            text = _with_included(accepted[name], shared, beside=False) if whole else files.text(accepted[name])
            lines[number - 1] = "\n".join([f'#line 1 "{name}"', text.removesuffix("\n"), go_on])
            within = depth > 0
        owed |= within and word in ("el", "endif")
        if owed and not line.endswith("\\"):
            # A compiler that leaves the header out does not read the #line behind it.
            lines[number - 1] += f"\n{go_on}"
            owed, within = False, depth > 0
    return "\n".join(lines)


JOINED = {CUDA_C: cuda_source, wgsl.SUFFIX: lambda path, interaction, _: wgsl.source(path, interaction)}
"""What joins a stem's file with the interaction, in each language that has comments and tokens as C has them."""


@files.remembered
def code_sha256(path: Path, toolkit: str, interaction: Interaction, built_in: Path | None = None) -> str:
    """Hash what ``toolkit`` runs of the stem at ``path``: a variant's, or that of a part that variants share.

    ``built_in`` is the folder ``variants``, by default that of this checkout.
    """
    return code_parts(path, toolkit, interaction, built_in).sha256


def code_parts(path: Path, toolkit: str, interaction: Interaction, built_in: Path | None = None) -> identity.CodeParts:
    """Return what ``code_sha256`` is the hash of."""
    entry = catalogue()[toolkit]
    suffix = CUDA_C if entry.cuda_c else entry.suffix
    file = path.with_suffix(suffix)
    there = bool(suffix) and file.exists()
    joined = JOINED[suffix](file, interaction, built_in) if there and suffix in JOINED else None
    native = files.text(file) if there and suffix not in JOINED else None
    generated = interaction.python_source() if entry.python else None
    python = python_code.code(path, toolkit, _roots(path, built_in or BUILT_IN))
    return identity.CodeParts(python, joined, generated, interaction.tolerance, native)


def _roots(path: Path, built_in: Path) -> Roots:
    """Return where the modules are that a stem imports and that are hashed with it: no library's."""
    packaged = ("gravbench.variants", built_in)
    if path.is_relative_to(built_in):
        return (packaged,)
    # Where Python finds what lies beside a stem of one's own; a folder that has gravbench in it has libraries.
    beside = [folder for folder in path.parents if str(folder) in sys.path and not built_in.is_relative_to(folder)]
    return (packaged, *(("", folder) for folder in beside))
