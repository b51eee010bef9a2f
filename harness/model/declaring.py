"""Which files declare a variant, and what is missing in one that does not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import files, importing

DECORATOR = re.compile(r"@[\w.]+")
DECLARATION = re.compile(r"@[ \t]*variant[ \t]*\(")


def declares(path: Path) -> bool:
    """Tell whether a file declares a variant, as far as its text shows.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return DECLARATION.search(files.text(path)) is not None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; accepted: Python in UTF-8") from error


def undeclared(name: str, folders: Iterable[Path]) -> str | None:
    """Say that a file ``name``.py below one of the ``folders`` declares no variant; None where there is none like it.

    Raises:
        InputError: a folder or the file cannot be read.
    """
    paths = (path for folder in folders for path in importing.sources(folder.resolve()) if path.stem == name)
    path = next((path for path in paths if not declares(path)), None)
    if path is None:
        return None
    where, has = str(path), ""
    for number, line in enumerate(files.text(path).splitlines(), 1):
        decorator = DECORATOR.match(line)
        if decorator and get_close_matches(decorator[0], ["@variant"]):
            where, has = f"{path}, line {number}", f" but {decorator[0]}"
            break
    return (
        f"{where}: no @variant(...){has}, so that the file declares no variant; accepted: @variant(...) above prepare"
    )
