"""What the files of a person import from beside them, and whether Python finds that module and no other.

Python keeps one module for each name, and looks for it in the folders of variants last. So a second folder's ``helper``
would be the first one's, and a record would name code that never ran.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import files, importing, python_code
from gravbench.model.declaring import declares

PACKAGE = __name__.partition(".")[0]
INIT = "__init__.py"


def check(root: Path) -> None:
    """Check that whatever files below ``root`` import from beside them is what Python imports under that name.

    Raises:
        InputError: another module has the name of one that lies in ``root``, or a file cannot be read.
    """
    for path in importing.sources(root):
        for name, line in _imported(path):
            if name != PACKAGE and (beside := _beside(root, name)) and (found := _found(name, beside)):
                raise InputError(
                    f"{path}, line {line}: Python imports {name} from {found}, not from {beside}; "
                    "accepted: a name that no other module has"
                )


def _imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the first part of each name that a file imports, and its line; nothing where it is not Python."""
    try:
        tree = python_code.tree(files.text(path))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return  # Whoever imports it says what is wrong.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], node.lineno


def _beside(root: Path, name: str) -> Path | None:
    """Return the module or package of this name in a folder; None where there is none, or it declares a variant."""
    file, package = root / f"{name}.py", root / name
    if file.is_file():
        return None if declares(file) else file
    return package if package.is_dir() else None


def _found(name: str, beside: Path) -> Path | None:
    """Return where else Python has a module of this name, or would find it: a file, or the folder of a package."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # A module that was put there by hand says nothing of its place.
        return None
    if spec is None or (spec.origin and beside.is_dir() and not (beside / INIT).exists()):
        return None  # A folder that is no package may be called as a library is.
    places = list(spec.submodule_search_locations or [])
    found = Path(places[0] if places else spec.origin or sys.executable).resolve()
    return None if found == beside.resolve() else found
