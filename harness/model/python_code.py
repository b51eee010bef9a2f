"""What a stem runs of its Python, written so that nothing but a change of what runs changes the text.

Beginning at the function that prepares and the one that makes the toolkit's kernel, every definition that they use is
written out, from the stem itself and from the modules that it imports of ``gravbench.variants`` or from beside it. What
no kernel of the toolkit uses is not in the text: another toolkit's twin, a sibling, a helper of others.

A definition is called by the order of its first use, a library's name by where it comes from. So the text stays as it
is when comments, docstrings, layout, import statements, file names, or the names and places of shared functions change.
Of a declaration it holds ``tolerance``, which decides what counts as right, and nothing that only describes.

All this reads text and imports nothing, so that it can be done for the sources of an old commit as well. What a stem
finds by a name that it makes up while it runs (``getattr``, ``import_module``) is not seen.
"""

from __future__ import annotations

import ast
import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gravbench.model import files

HARNESS = ("gravbench", "harness")
"""First names of what a variant imports of the harness: its name today, and in old commits."""
ALL = "*"
DECLARATION = "variant"
DECIDES = ("tolerance",)
"""What of a declaration decides a result; the rest presents the variant, or is in each case with its values."""
_LEFT_OUT = ("ctx", "kind", "type_comment")
"""Fields of Python's syntax tree that say nothing of what runs."""
_MAKER = re.compile(r"[a-z]+_kernel")
_PARSING = threading.Lock()
"""Python 3.11 counts the depth of trees that two threads make at the same time as one, and then raises SystemError."""

Roots = tuple[tuple[str, Path], ...]
"""Packages whose modules are part of the code, each with its folder; "" for modules that lie in a folder themselves."""

_Origin = tuple[str, ...]
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Module:
    """A file, taken apart: what each imported name stands for, what is defined, and what runs on import."""

    path: Path
    imports: dict[str, _Origin] = field(default_factory=dict)
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    loose: list[ast.stmt] = field(default_factory=list)


@files.remembered
def read(path: Path) -> Module:
    """Take a file apart.

    Raises:
        SyntaxError: it is not Python.
    """
    module = Module(path)
    for node in tree(files.text(path)).body:
        names = _defined(node)
        for name in names:
            module.definitions.setdefault(name, []).append(node)
        if not names:
            module.imports.update(_imports(node, path.parent))
            if not is_text(node) and not isinstance(node, ast.Import | ast.ImportFrom):
                module.loose.append(node)
    return module


@files.remembered
def code(stem: Path, toolkit: str, roots: Roots) -> str:
    """Write what a toolkit runs of a stem.

    Raises:
        OSError: a file cannot be read.
        SyntaxError: a file is not Python.
    """
    module = read(stem)
    declared = [name for name, nodes in module.definitions.items() if any(map(_declares, nodes))]
    # The harness may ask a part for any of its constants.
    public = declared or [name for name in module.definitions if not _MAKER.fullmatch(name)]
    maker = f"{toolkit}_kernel"
    writer = _Writer(roots)
    writer.enter(module)
    for name in [*public, *([maker] if maker in module.definitions else [])]:
        writer.reference(module, name)
    return "\n".join(writer.lines())


def normal(text: str) -> str:
    """Write a text of Python without what does not run: comments, docstrings, layout."""
    writer = _Writer(())
    module = Module(Path())
    return "\n".join(writer.write(node, module, {}) for node in tree(text).body)


def tree(text: str) -> ast.Module:
    """Parse a text of Python that is never run, so that what Python would warn of does not matter.

    Raises:
        SyntaxError: it is not Python.
        RecursionError, MemoryError: it is nested too deeply for Python.
    """
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


class _Writer:
    """Writes definitions in the order of their first use."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.numbers: dict[tuple[Path, str], int] = {}
        self.waiting: list[tuple[Module, str]] = []
        self.entered: set[Path] = set()

    def lines(self) -> Iterator[str]:
        """Write everything that is waiting, and what that uses in its turn."""
        for module, name in self.waiting:  # grows while it is written
            number = f"@{self.numbers[module.path, name]}"
            for node in module.definitions[name] if name else module.loose:
                yield f"{number}: {self.write(node, module, _imports(node, module.path.parent), number)}"

    def enter(self, module: Module) -> None:
        """Note that a module is imported; what it runs on import comes first."""
        if module.path not in self.entered:
            self.entered.add(module.path)
            if module.loose:
                self.reference(module, "")
            for origin in module.imports.values():
                if origin[-1] == ALL:
                    self._imported(origin[:-1], ())

    def reference(self, module: Module, name: str) -> str:
        """Return the number that stands for a definition."""
        key = (module.path, name)
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.waiting.append((module, name))
        return f"@{self.numbers[key]}"

    def write(self, node: object, module: Module, local: Mapping[str, _Origin], new_name: str | None = None) -> str:
        """Write a part of the syntax tree; ``new_name`` stands for the name of the definition that it is."""
        if isinstance(node, list):
            written = (self.write(child, module, local) for child in node)
            return "[" + " ".join(filter(None, written)) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Import | ast.ImportFrom) or is_text(node):
            return ""
        if (chain := _chain(node)) and (known := self._resolved(chain, module, local)):
            return known
        fields = dict(ast.iter_fields(node))
        called = _chain(fields.get("func"))
        if called and self._resolved(called, module, local) == DECLARATION:
            fields = {"keywords": [word for word in fields["keywords"] if word.arg in DECIDES]}
        if new_name and isinstance(node, _Definition):
            fields["name"] = new_name
        parts = (
            f"{name}={self.write(value, module, local)}"
            for name, value in fields.items()
            if name not in _LEFT_OUT and value is not None and value != []
        )
        return f"{type(node).__name__}({' '.join(parts)})"

    def _resolved(self, chain: _Origin, module: Module, local: Mapping[str, _Origin]) -> str | None:
        """Say what a dotted name stands for; None for a name of the definition's own."""
        origin = local.get(chain[0]) or module.imports.get(chain[0])
        if origin is not None:
            return self._imported(origin, chain[1:])
        if chain[0] in module.definitions:
            return ".".join([self.reference(module, chain[0]), *chain[1:]])
        return None

    def _imported(self, origin: _Origin, rest: _Origin) -> str:
        whole = (*origin, *rest)
        definition = self._find(whole)
        if definition is None:
            return ".".join([origin[-1], *rest] if origin[0] in HARNESS or os.sep in origin[0] else whole)
        module, names = definition
        self.enter(module)
        if not names:
            # The module as a value: anything of it may be used.
            return "(" + " ".join(self.reference(module, name) for name in module.definitions) + ")"
        return self._resolved(names, module, {}) or ".".join([self.reference(module, ""), *names])

    def _find(self, names: _Origin) -> tuple[Module, _Origin] | None:
        """Find the module that a dotted name begins with, and what follows it."""
        places = [(tuple(package.split(".")) if package else (), folder) for package, folder in self.roots]
        if os.sep in names[0]:
            places = [(names[:1], Path(names[0]))]
        for prefix, folder in places:
            inner = names[len(prefix) :] if names[: len(prefix)] == prefix else ()
            for length in range(len(inner), 0, -1):
                base = folder.joinpath(*inner[:length])
                for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
                    if path.is_file():
                        return read(path), inner[length:]
        return None


def _imports(statement: ast.stmt, folder: Path) -> dict[str, _Origin]:
    """Map each name that is imported anywhere in a statement to the dotted name it stands for.

    What is imported relative to the ``folder`` of the file begins with a folder. All of a module has a name of its own.
    """
    origins: dict[str, _Origin] = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = tuple(alias.name.split("."))
                origins[alias.asname or whole[0]] = whole if alias.asname else whole[:1]
        elif isinstance(node, ast.ImportFrom):
            start = (str(folder.joinpath(*[".."] * (node.level - 1)).resolve()),) if node.level else ()
            before = (*start, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                name = f"{ALL} of {before}" if alias.name == ALL else alias.asname or alias.name
                origins[name] = (*before, alias.name)
    return origins


def _defined(node: ast.stmt) -> list[str]:
    """Name what a statement defines and does nothing beside."""
    if isinstance(node, _Definition):
        return [node.name]
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [
        part for target in targets for part in ast.walk(target) if not isinstance(part, ast.Tuple | ast.expr_context)
    ]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return names if len(names) == len(parts) else []


def _declares(node: ast.stmt) -> bool:
    """Tell whether a definition is a variant's, by the name of its decorator."""
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    chains = (_chain(decorator.func) for decorator in decorators if isinstance(decorator, ast.Call))
    return any(chain and chain[-1] == DECLARATION for chain in chains)


def _chain(node: object) -> _Origin:
    """Return the names of ``a.b.c``, and nothing for what is no dotted name."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (before := _chain(node.value)):
        return (*before, node.attr)
    return ()


def is_text(node: object) -> bool:
    """Tell whether a part of the syntax tree is a text on its own, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
