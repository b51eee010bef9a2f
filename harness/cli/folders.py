"""The folders of a person's own variants, remembered so that list, source and report know the variants in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.errors import LISTING, InputError, nearest

if TYPE_CHECKING:
    from gravbench.model.variant import Variant

FILE = "variant_folders.json"
MOST = 50
"""Folders that are remembered, those that were used last."""


def _file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "gravbench" / FILE


def _read() -> dict[str, str]:
    """Return each folder that was remembered and the directory that it was used from, the newest last."""
    with suppress(OSError, ValueError, RuntimeError):  # no home, no file, or another content
        content = json.loads(_file().read_text("utf-8"))
        if isinstance(content, dict):
            return {name: str(used_from) for name, used_from in content.items()}
    return {}


def remember(folders: Iterable[Path]) -> None:
    """Remember folders that a sweep names. Where nothing can be written nothing is remembered."""
    used = {str(folder.resolve()): str(Path.cwd().resolve()) for folder in folders}
    if not used:
        return
    known = {name: place for name, place in _read().items() if name not in used and Path(name).is_dir()}
    kept = dict(list((known | used).items())[-MOST:])
    with suppress(OSError, RuntimeError):
        path = _file()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
        temporary.replace(path)


def remembered() -> tuple[Path, ...]:
    """Return the folders that were used from the working directory or lie below it, the newest first."""
    here = Path.cwd().resolve()
    folders = [
        Path(name)
        for name, used_from in _read().items()
        if (used_from == str(here) or Path(name).is_relative_to(here)) and Path(name).is_dir()
    ]
    return tuple(reversed(folders))


def unknown(name: str, accepted: Sequence[str]) -> str:
    """Say what is accepted instead of a variant that nobody knows, or why a file of its name declares none."""
    from gravbench.model.declaring import undeclared

    return undeclared(name, remembered()) or nearest(name, accepted, LISTING)


def known_variants(say: Callable[[str], object]) -> Mapping[str, Variant]:
    """Find the variants that gravbench has and those of the remembered folders.

    A folder with a mistake, or with the name of another variant, is left out; ``say`` is told why.
    """
    from gravbench.model.variant import discover

    kept: tuple[Path, ...] = ()
    for folder in remembered():
        try:
            discover((*kept, folder))
        except InputError as error:
            say(f"one of your own variants was left out: {error}")
        else:
            kept = (*kept, folder)
    return discover(kept)
