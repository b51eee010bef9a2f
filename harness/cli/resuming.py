"""The command that continues a run, as a person can paste it into any shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

FILES = ("--bodies", "--dask")
"""Options whose value may be a file."""
SETTINGS_OF_FILES = ("bodies", "interaction")
"""Settings whose values may be files."""


def command(config: str, given: Mapping[str, str | list[str] | None], out: Path, *, counters: bool) -> str:
    """Return the command that continues a run in ``out``, with all that was ``given`` to it, quoted for a shell.

    Files have their whole paths, so that it means the same in every folder.
    """
    from gravbench.config.load import packaged

    words = [config if config in packaged() else str(Path(config).absolute())]
    words += ["--resume", "--out", str(out.absolute()), *["--counters"] * counters]
    for option, values in given.items():
        for value in [values] if isinstance(values, str) else values or []:
            words += [option, _from_anywhere(option, value)]
    return shlex.join(["gravbench", "run", *words])


def _from_anywhere(option: str, value: str) -> str:
    """Return the value of an option that means the same in every folder."""
    if option in FILES:
        return _whole(value)
    name, equals, words = value.partition("=")
    if option == "-p" and name.strip() in SETTINGS_OF_FILES:
        return name + equals + ",".join(_whole(word.strip()) for word in words.split(","))
    return value


def _whole(word: str) -> str:
    """Return the whole path of a file; what is none, or is taken for the name of something else, as it is."""
    from gravbench.measuring.runner import LOCAL
    from gravbench.model import interaction_files
    from gravbench.model.generated_bodies import is_generated

    is_name = word == LOCAL or is_generated(word) or word in interaction_files.packaged()
    return word if is_name or not Path(word).is_file() else str(Path(word).absolute())
