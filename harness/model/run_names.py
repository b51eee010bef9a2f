"""How a person names a run: by a path, by a name below reports/, or as one that the clone of gravbench brings."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from gravbench.errors import FIRST_NAMES, InputError, guess, listed, shortened
from gravbench.model.runs import CEILINGS, RECORDS, REPORTS, newest
from gravbench.packaged import runs_of_the_clone

NOT_INSTALLED = "published runs such as h100/ladder are in a clone of gravbench, not in this installation"


def find(run: str) -> Path:
    """Return the folder of a run: a path to it or to its records, or a name below reports/.

    A bare name such as ``quick`` means reports/quick, or else the newest reports/quick-DATE-TIME that measured
    anything, or the newest where none did. What is not below the working directory's reports/ is looked for below
    that of the clone.

    Raises:
        InputError: there is no such run.
    """
    path, in_clone = Path(run), _in_clone(run)
    if path.name == RECORDS and os.path.lexists(path):
        return path.parent
    for folder in (path, REPORTS / run):
        if os.path.lexists(folder / RECORDS):
            return folder
    with contextlib.suppress(InputError):
        return newest(run, measured=True)
    if in_clone and os.path.lexists(in_clone / RECORDS):
        return in_clone
    for folder in filter(None, (path.parent if path.name == CEILINGS else path, REPORTS / run, in_clone)):
        if os.path.lexists(folder / CEILINGS):
            raise InputError(
                f"{shortened(run)}: not a run, but the measured peak rates of a device; "
                f"`{shlex.join(['gravbench', 'ceilings', '--from', str(folder)])}` prints them"
            )
    raise InputError(f"{shortened(run)}: {_unknown(run)}")


def located(folder: Path) -> Path:
    """Return a folder that is read: by its path, or as the name of a run; the path where there is neither."""
    places = (folder, REPORTS / folder, _in_clone(str(folder)))
    return next((place for place in places if place and os.path.lexists(place)), folder)


def present(option: str, folder: Path) -> Path:
    """Return a folder that an option names to be read, as ``located`` does.

    Raises:
        InputError: there is none.
    """
    place = located(folder)
    if not os.path.lexists(place):
        more = "" if runs_of_the_clone() else f"; {NOT_INSTALLED}"
        raise InputError(
            f"{option} {shortened(str(folder))}: no such folder, neither as a path nor below reports/{more}"
        )
    return place


def is_of_the_clone(folder: Path) -> bool:
    """Tell whether a folder is below the reports/ of the clone, and that is not the working directory's."""
    clone = _clone()
    return clone is not None and folder.resolve().is_relative_to(clone)


def names(*, newest_first: bool = False) -> tuple[list[str], list[str]]:
    """Return the names of the runs below reports/, and of those that only the clone has; sorted unless newest first."""

    def below(reports: Path) -> list[str]:
        folders = [path.parent for path in reports.glob(f"**/{RECORDS}")]
        if newest_first:
            folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
            return [str(folder.relative_to(reports)) for folder in folders]
        return sorted(str(folder.relative_to(reports)) for folder in folders)

    runs_here, clone = below(REPORTS), _clone()
    return runs_here, [name for name in below(clone) if name not in runs_here] if clone else []


def _clone() -> Path | None:
    """Return the reports/ of the clone, None where that is the working directory's or there is none."""
    clone = runs_of_the_clone()
    return None if clone is None or clone == REPORTS.resolve() else clone


def _in_clone(run: str) -> Path | None:
    """Return where the clone would have a run of this name; None for what is a path rather than a name."""
    clone, path = _clone(), Path(run)
    return None if clone is None or path.is_absolute() or ".." in path.parts else clone / path


def _unknown(run: str) -> str:
    """Say that there is no run of this name, and which there are."""
    runs_here, of_clone = names()
    known = [*runs_here, *of_clone]
    if inside := [name for name in known if name.startswith(f"{run.rstrip('/')}/")]:
        return f"a folder of {len(inside):,} runs; accepted: one of {listed(inside)}"
    if runs_here:
        accepted = f"{guess(run, known)}accepted: {_some(runs_here)}"
        problem = f"no such run, neither a folder with a {RECORDS} nor a name; {accepted}"
    else:
        none = f"there is none below {REPORTS.resolve()} yet; `gravbench run quick` makes one"
        problem = f"no such run; {guess(run, known)}{none}"
    if of_clone:
        return f"{problem}; the clone of gravbench has {_some(of_clone)}"
    return problem if runs_of_the_clone() else f"{problem}; {NOT_INSTALLED}"


def _some(names: Sequence[str]) -> str:
    """Name the first, and count the others."""
    more = len(names) - FIRST_NAMES
    return f"{listed(names[:FIRST_NAMES])} and {more:,} more" if more > 0 else listed(names)
