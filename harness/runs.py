"""The folders that runs are kept in, and how a person names them."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

from harness.errors import InputError, nearest
from harness.record import ENVIRONMENT, RECORDS

REPORTS = Path("reports")


def new_folder(name: str) -> Path:
    """Return reports/NAME-DATE-TIME, a folder that no earlier run has."""
    return REPORTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def newest(name: str) -> Path:
    """Return the newest reports/NAME-DATE-TIME.

    Raises:
        InputError: there is none.
    """
    pattern = re.compile(re.escape(name) + r"-\d{8}-\d{6}")
    found = sorted(path.parent for path in REPORTS.glob(f"*/{RECORDS}") if pattern.fullmatch(path.parent.name))
    if not found:
        raise InputError(f"there is no run {REPORTS / name}-DATE-TIME yet; name the folder of one with --out")
    return found[-1]


def find(run: str) -> Path:
    """Return the folder of a run: a path to it or to its records, or a name below reports/.

    A bare name such as ``quick`` means reports/quick, or else the newest reports/quick-DATE-TIME.

    Raises:
        InputError: there is no such run.
    """
    path = Path(run)
    if path.name == RECORDS and path.is_file():
        return path.parent
    for folder in (path, REPORTS / run):
        if (folder / RECORDS).is_file():
            return folder
    with contextlib.suppress(InputError):
        return newest(run)
    known = sorted(str(found.parent.relative_to(REPORTS)) for found in REPORTS.glob(f"**/{RECORDS}"))
    if known:
        raise InputError(f"{run}: no such run, neither a folder with a {RECORDS} nor a name; {nearest(run, known)}")
    raise InputError(
        f"{run}: no such run; there is none below {REPORTS.resolve()} yet, `gravbench run quick` makes one"
    )


def environment(folder: Path) -> list[dict[str, Any]]:
    """Return what was noted at each start of a run, the newest last; nothing where it is not there or not readable."""
    with contextlib.suppress(OSError, ValueError):
        entries = json.loads((folder / ENVIRONMENT).read_text("utf-8"))
        if isinstance(entries, list):
            return [entry for entry in entries if isinstance(entry, dict)]
    return []


def published(folder: Path) -> str | None:
    """Return the name of the source that the newest start of a run was to be set beside, as far as it is recorded."""
    entries = environment(folder)
    name = entries[-1].get("published") if entries else None
    return name if isinstance(name, str) else None
