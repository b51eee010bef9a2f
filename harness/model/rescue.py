"""Keep in another folder what can no longer be kept in its own."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gravbench.model.regular import write_all


def keep_elsewhere(folder: Path, files: Mapping[str, bytes | bytearray]) -> Path | None:
    """Write files, by their names, to a new folder beside ``folder``, or else among temporary files.

    ``folder`` is absolute. Returns the new folder; None where nothing can be written.
    """
    for parent in (folder.parent, Path(tempfile.gettempdir())):
        try:
            place = _new(parent, f"{folder.name}-kept")
        except OSError:
            continue
        try:
            for name, content in files.items():
                with (place / name).open("xb", buffering=0) as file:
                    write_all(file.fileno(), content)
        except OSError:
            shutil.rmtree(place, ignore_errors=True)
            continue
        return place
    return None


def _new(parent: Path, name: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        place = parent / (name if number == 1 else f"{name}-{number}")
        try:
            place.mkdir()
        except FileExistsError:
            continue
        break
    return place
