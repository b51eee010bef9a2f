"""What a compiler of CUDA C says is wrong with a stem, in sentences that name the file and the line."""

from __future__ import annotations

import re
from pathlib import Path

from gravbench.errors import shortened
from gravbench.model.stem_code import SHARED

ERROR = re.compile(r"([\w.]+)\((\d+)\): (?:catastrophic )?error: (.+?)(?:; |;?$)", re.MULTILINE)
"""An error of NVRTC or nvcc; a record has several lines of their output in one, joined by semicolons."""
MOST_OF_ERROR = 300
"""Characters of an error that a sentence quotes."""


def sentences(log: str, stem: Path) -> list[str]:
    """Return one sentence for each error in the output of a compiler, in its order; empty where it names no line.

    The files in it are those beside ``stem``, or the headers that families share; others keep their names.
    """
    remarks = [
        f"{_path(file, stem.parent)}, line {line}: {shortened(what.strip(), MOST_OF_ERROR)}"
        for file, line, what in ERROR.findall(log)
    ]
    return list(dict.fromkeys(remarks))


def _path(file: str, folder: Path) -> str:
    return next((str(place / file) for place in (folder, SHARED) if (place / file).is_file()), file)
