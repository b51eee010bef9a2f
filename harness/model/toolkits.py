"""What is known of each toolkit before its library is imported; the files of ``gravbench.toolkits`` say it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gravbench.errors import InputError, nearest, shortened

PACKAGE = "gravbench.toolkits"
DECLARES = "\nENTRY = "


@dataclass(frozen=True, slots=True)
class Entry:
    """What a toolkit's file says of it.

    ``place`` is its place among the toolkits, wherever they are listed. ``family`` is the word that chooses the devices
    it runs on, see ``gravbench.toolkits.family``. ``module`` is the library it needs, ``distributions`` the packages on
    PyPI that bring it, any one of which is enough, ``extras`` the extras of gravbench that install it, ``companions``
    the packages beside it that decide what it compiles to. ``flags`` are what its compiler is always given. ``probe``
    is the variant with which the doctor tries it. With ``cuda_c`` it compiles the CUDA C of a stem; with a ``suffix``,
    the file ``STEM`` with that suffix; others have a function ``TOOLKIT_kernel`` there, and with ``python``, that
    kernel calls the interaction as generated Python. With ``in_force``, ``gravbench.force`` uses it. With ``by_name``,
    a sweep takes it only where its entry or the command line names it, or a variant has no other. With ``nvcc`` it
    calls the compiler that is on PATH. ``environment`` are variables that its library finds when it is imported, and
    ``variables`` how the names begin of those that decide what it does. With ``only_context``, it opens no more of a
    device than its primary context, which all of these share. ``needs`` are toolkits whose libraries it uses too.
    ``parts`` are modules of its library that cases use and ``module`` does not import. ``dtypes`` are the number types
    of its kernels.
    """

    place: int
    family: str
    title: str
    module: str
    distributions: tuple[str, ...]
    extras: tuple[str, ...]
    probe: str
    flags: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    cuda_c: bool = False
    suffix: str = ""
    python: bool = False
    by_name: bool = False
    in_force: bool = False
    nvcc: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    only_context: bool = False
    needs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "float64")

    def load(self) -> None:
        """Import the library, and before it those of the toolkits that it needs.

        Raises:
            Exception: whatever that raises; ``ImportError`` where it is not there.
        """
        for name in self.needs:
            catalogue()[name].load()
        os.environ.update(self.environment)
        importlib.import_module(self.module)

    def preload(self) -> None:
        """Import everything that cases use, which opens no device; ``load`` says what it raises."""
        self.load()
        for part in self.parts:
            importlib.import_module(part)

    @property
    def version(self) -> str | None:
        """The installed version and those of its companions, None where it is not installed."""
        installed = versions(self.distributions)
        return ", ".join([*installed[:1], *versions(self.companions)]) if installed else None

    @property
    def missing(self) -> str | None:
        """Say why it is not usable and how to mend that; None when its library is installed."""
        if _found(self.module):
            return None
        commands = " or ".join(f"pip install 'gravbench[{extra}]'" for extra in self.extras)
        return f"{self.title} is not installed; install it with: {commands}"


@lru_cache
def _found(module: str) -> bool:
    """Tell whether a module is there, without importing more than the packages around it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@lru_cache(maxsize=1)
def catalogue() -> Mapping[str, Entry]:
    """Return every toolkit by its name, which is the stem of its file, in the order of their places.

    A program may add a folder of its own toolkits to the ``__path__`` of ``gravbench.toolkits`` before.
    """
    entries = {
        path.stem: importlib.import_module(f"{PACKAGE}.{path.stem}").ENTRY
        for folder in importlib.import_module(PACKAGE).__path__
        for path in Path(folder).glob("*.py")
        if DECLARES in path.read_text("utf-8")
    }
    return dict(sorted(entries.items(), key=lambda item: item[1].place))


def unnamed(toolkits: Sequence[str]) -> Sequence[str]:
    """Return those of a variant's toolkits that do not have to be named, or all where it has no other."""
    return [name for name in toolkits if not catalogue()[name].by_name] or toolkits


def check_offered(toolkit: str, variant: str, offered: Sequence[str]) -> None:
    """Check that a variant has the toolkit that ``--toolkit`` names.

    Raises:
        InputError: it has not.
    """
    if toolkit not in offered:
        raise InputError(
            f"--toolkit {shortened(toolkit)}: {variant} has no kernel for it; {nearest(toolkit, [*offered])}"
        )


# Once per process: a plan asks for every case, and each answer is read from a file.
@lru_cache
def versions(distributions: tuple[str, ...]) -> list[str]:
    """Name the installed ones of these packages with their versions."""
    named = []
    for distribution in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            named.append(f"{distribution} {importlib.metadata.version(distribution)}")
    return named


def place_of(toolkit: str) -> tuple[int, str]:
    """Sort key: the toolkits in the order of their places, then unknown ones by name."""
    names = list(catalogue())
    return (names.index(toolkit) if toolkit in names else len(names), toolkit)
