"""What variants of one's own import from beside them, and whether Python finds that module and no other.

Python keeps one module for each name, and looks for it in the folders of variants last. So a second folder's ``helper``
would be the first one's, and a record would name code that never ran.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import files, python_code

PACKAGE = __name__.partition(".")[0]
"""No variant of one's own has the name of the package, because its folder is where Python looks for modules."""


def check(root: Path, stems: Iterable[Path]) -> None:
    """Check that what ``stems`` below ``root`` import from ``root``, directly or not, is what Python imports.

    Raises:
        InputError: another module has the name of one that lies in ``root``.
    """
    waiting = list(stems)
    for path in waiting:  # grows
        for name, line in _imported(path):
            first, *_ = parts = name.split(".")
            for beside in () if first == PACKAGE else _beside(root, parts):
                if found := _other(first, beside, root):
                    raise InputError(
                        f"{path}, line {line}: Python imports {first} from {found}, not from {beside}; "
                        "accepted: a name that no other module has"
                    )
                if beside not in waiting:
                    waiting.append(beside)


@contextmanager
def forgetting_what_is_refused() -> Iterator[None]:
    """Let Python look where it looked before, and forget the modules it found since, if a folder is refused."""
    before = set(sys.path)
    try:
        yield
    except BaseException:
        forget(set(sys.path) - before)
        raise


def forget(folders: Iterable[str]) -> None:
    """Let Python no longer look in these folders, and import anew what it has found there."""
    for folder in folders:
        sys.path.remove(folder)
        for name, module in list(sys.modules.items()):
            content = getattr(module, "__dict__", {})  # as it is: to ask some modules for more imports them
            # A package that is spread over folders has no file.
            places = [content.get("__file__"), *(content.get("__path__") or ())]
            if any(isinstance(place, str) and Path(place).is_relative_to(folder) for place in places):
                del sys.modules[name]


def _imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each dotted name that a file imports, and its line; nothing where it is not Python."""
    try:
        tree = python_code.tree(files.text(path))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return  # Whoever imports it says what is wrong.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _beside(root: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the files below a folder that Python would run for a dotted name, packages before what is in them."""
    for count in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:count])
        file = next(
            (file for file in (place / "__init__.py", place.with_name(f"{place.name}.py")) if file.is_file()), None
        )
        if file is not None:
            yield file


def _other(first: str, beside: Path, root: Path) -> Path | str | None:
    """Return where Python has, or would find, another module than this one, whose name begins with ``first``."""
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):  # A module that was put there by hand says nothing of its place.
        return None
    if spec is None:
        return None
    if spec.origin is not None:
        own = {(root / first / "__init__.py").resolve(), (root / f"{first}.py").resolve()}
        found = Path(spec.origin).resolve() if spec.has_location else "Python itself"
        return None if found in own else found
    return _in_namespace(spec, beside, root / first)


def _in_namespace(spec: ModuleSpec, beside: Path, package: Path) -> Path | None:
    """Return where a package that is spread over folders has another module than this one first."""
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not beside.is_relative_to(package):
        return places[0]
    files_there = (place / beside.relative_to(package) for place in places)
    found = next((file for file in files_there if file.is_file()), beside)
    return None if found.resolve() == beside.resolve() else found
