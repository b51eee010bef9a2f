"""The folders that runs are kept in, and how a person names them."""

from __future__ import annotations

import time
from pathlib import Path

from harness.errors import InputError, nearest
from harness.record import RECORDS

REPORTS = Path("reports")


def new_folder(name: str) -> Path:
    """Return reports/NAME-DATE-TIME, a folder that no earlier run has."""
    return REPORTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _newest(name: str) -> Path | None:
    # Names end in date and time, so the last in order is the newest.
    found = sorted(path.parent for path in REPORTS.glob(f"{name}-*-*/{RECORDS}"))
    return found[-1] if found else None


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
    if newest := _newest(run):
        return newest
    known = sorted(str(found.parent.relative_to(REPORTS)) for found in REPORTS.glob(f"**/{RECORDS}"))
    if known:
        raise InputError(f"{run}: no such run, neither a folder with a {RECORDS} nor a name; {nearest(run, known)}")
    raise InputError(
        f"{run}: no such run; there is none below {REPORTS.resolve()} yet, `gravbench run quick` makes one"
    )
