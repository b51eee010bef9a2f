"""The newest of all runs below reports/, for a report that names none."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gravbench.errors import InputError

TAIL = 4_000_000
"""Bytes at the end of a file of records in which its last record is looked for."""
_STARTED = re.compile(rb'"started":"([^"]{10,40})"')


def newest_of_all() -> Path:
    """Return the run whose last record is the newest of those that measured anything, or of all where none did.

    What counts is when a record was measured, not when its file was written: a checkout writes files too.

    Raises:
        InputError: there is no run below reports/.
    """
    from gravbench.model import runs

    folders = sorted(
        (path.parent for path in runs.REPORTS.glob(f"**/{runs.RECORDS}") if path.is_file()),
        key=lambda folder: (_last_started(folder / runs.RECORDS), str(folder)),
        reverse=True,
    )
    if not folders:
        raise InputError(f"there is no run below {runs.REPORTS.resolve()} yet; `gravbench run quick` makes one")
    return next((folder for folder in folders if runs.has_measurements(folder)), folders[0])


def _last_started(path: Path) -> str:
    """Return when the last record began, in UTC as records have it; empty where none can be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            times = _STARTED.findall(file.read())
    except OSError:
        return ""
    return times[-1].decode(errors="replace") if times else ""
