"""Mistakes in a person's own variants that showed when they ran: one sentence each, with the file and the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.errors import shortened

if TYPE_CHECKING:
    from gravbench.model.record import Record
    from gravbench.model.variant import Variant

MOST_LOG = 4_000_000
"""Bytes of its end that are read."""
MOST = 5
"""Mistakes that are told."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_NAME = re.compile(r"name '(\w+)' is not defined")


def mistakes(records: Iterable[Record], variants: Mapping[str, Variant], folder: Path) -> list[str]:
    """Say of each variant of one's own that failed where and why, once for each reason.

    ``folder`` has the log of the run. What has no line in the variant's files is told with that of its ``prepare``.
    """
    from gravbench.model.stem_code import BUILT_IN

    failed = {
        (record.variant, record.reason or "failed")
        for record in records
        if record.status == "failed"
        and record.variant in variants
        and not variants[record.variant].path.is_relative_to(BUILT_IN)
    }
    if not failed:
        return []
    from gravbench.measuring.runner import WORKER_LOG

    log = _end_of(folder / WORKER_LOG)
    sentences = [_sentence(variants[name], reason, log) for name, reason in sorted(failed)]
    return list(dict.fromkeys(sentences))[:MOST]


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MOST_LOG))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _sentence(variant: Variant, reason: str, log: str) -> str:
    from gravbench.model.compiler_log import sentences

    if refused := sentences(reason, variant.path):
        return refused[0]
    return f"{variant.path}, line {_line(variant.path, reason, log)}: {shortened(reason, 300)}"


def _line(path: Path, reason: str, log: str) -> int:
    """Find the line of a variant's Python file that a failure is about."""
    # The traceback of this failure ends with its text; of Numba's the first line is enough.
    end = log.rfind(reason.partition(";")[0])
    begin = log.rfind("Traceback (most recent call last)", 0, end) if end >= 0 else -1
    frames = [int(line) for file, line in _FRAME.findall(log[begin:end]) if Path(file) == path] if begin >= 0 else []
    if frames:
        return frames[-1]
    text = path.read_text("utf-8", errors="replace").splitlines()
    # Numba's messages may have a place of their own, or name what is not defined.
    if inside := [int(line) for file, line in _FRAME.findall(reason) if Path(file).name == path.name]:
        return inside[-1]
    if named := _NAME.search(reason):
        word = re.compile(rf"\b{named[1]}\b")
        if uses := [number for number, line in enumerate(text, 1) if word.search(line)]:
            return uses[0]
    return next((number for number, line in enumerate(text, 1) if line.startswith("def prepare")), 1)
