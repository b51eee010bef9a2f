"""What Numba compiles for the host, kept on the disk under a hash of everything that it was compiled from.

Numba's own ``cache=True`` goes by the time of one file: it does not see a change in another, and never finds a function
that calls one of an enclosing function. Here the name of a file is the hash of a function's bytecode, of all constants
and functions that it refers to, of its options and argument types, of the processor and of the versions. So what is
found is what would be compiled, and nothing ever has to be marked as out of date.
"""

from __future__ import annotations

import builtins
import itertools
import os
import pickle
import platform
import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from gravbench.model.toolkits import versions
from gravbench.toolkits import binaries
from gravbench.toolkits.binaries import Binary

SETTINGS = "NUMBA_"
"""What the names of Numba's environment variables begin with."""
NOT_IN_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}
"""Those of them that say nothing about compiled code."""
SETTINGS_FILE = Path(".numba_config.yaml")
"""Where Numba reads settings too, in the working directory."""
ADDRESS = " at 0x"
"""In what is printed of something that is not known by what is printed of it."""
OURS = "gravbench"
"""What the names of our modules begin with, and those that variants of one's own get."""
LIBRARIES = ("numba", "llvmlite", "numpy", "math", "cmath", "operator", "builtins")
"""Modules whose functions are what their version says."""

PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.dtype)
"""Types of values that are what is printed of them."""
INTRINSIC = "_Intrinsic"
"""The class, of Numba and of numba.cuda, of a function that generates code of the compiler for a call of it."""


class UnknownContentError(Exception):
    """A function refers to something that has no known content."""


@cache
def keep() -> None:
    """Have Numba look for each function of ours that it compiles from now on, in this process, on the disk first."""
    from numba.core import bytecode, target_extension
    from numba.core.registry import CPUDispatcher

    class Keeping(CPUDispatcher):  # type: ignore[misc]
        """Compiles functions as its base class does."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            # What others compile in this process is theirs.
            if self.py_func.__module__.startswith(OURS):
                self.enable_caching()

        def enable_caching(self) -> None:
            self._cache = _Kept(self)

    dispatchers, cpu = target_extension.dispatcher_registry, target_extension.target_registry["cpu"]
    dispatchers.pop(cpu)  # it takes no second value
    dispatchers[cpu] = Keeping
    # Numba numbers functions, for their names in machine code: from 1, in every process. Two that were compiled in
    # different processes and are loaded into a third must not have one name.
    bytecode.FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))


class _Kept:
    """The compiled forms of one function, as its dispatcher asks for them; see ``numba.core.caching``."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        return str(binaries.folder())

    def enable(self) -> None:
        """It is always enabled."""

    def disable(self) -> None:
        """It is always enabled."""

    def flush(self) -> None:
        """What is kept never gets old."""

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled function, or None where it has to be compiled, for whichever reason."""
        from numba.core.compiler import CompileResult

        target.refresh()
        with suppress(Exception):  # something unknown, or an error of what reads it
            if stored := binaries.stored(self._key(signature, target.codegen())):
                return CompileResult._rebuild(target, *pickle.loads(stored.code))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled function, where it can be."""
        from numba.core.serialize import dumps

        if compiled.objectmode or compiled.lifted or compiled.library.has_dynamic_globals:
            return
        with suppress(UnknownContentError):
            code = dumps(compiled._reduce())
            binaries.store(self._key(signature, compiled.library.codegen), Binary(code, "", 0.0))

    def _key(self, signature: Any, codegen: Any) -> list[str]:
        described = repr(signature)
        if ADDRESS in described:  # a function that is passed to this one
            raise UnknownContentError(described)
        return [*_surroundings(), repr(codegen.magic_tuple()), described, *content(self._dispatcher)]


@cache
def _surroundings() -> tuple[str, ...]:
    return surroundings("numba", "llvmlite", "numpy")


def surroundings(*distributions: str) -> tuple[str, ...]:
    """Name what compiles: the versions of distributions that are there, and the settings of Numba."""
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(SETTINGS))
    return (
        platform.python_version(),
        *versions(distributions),
        *(setting for setting in settings if setting.partition("=")[0] not in NOT_IN_CODE),
        *([SETTINGS_FILE.read_text("utf-8")] if SETTINGS_FILE.is_file() else []),
    )


def content(function: Any) -> list[str]:
    """Describe all that decides what a function does: its code, and whatever that refers to.

    Raises:
        UnknownContentError: it refers to something else than numbers, functions, types and modules of libraries.
    """
    return list(_content(function, []))


def _content(value: Any, seen: list[Any], *, is_called: bool = False) -> Iterator[str]:
    """Describe a value; ``is_called`` says that compiled code refers to it."""
    if any(value is item for item in seen):
        yield f"number {next(place for place, item in enumerate(seen) if item is value)}"
    elif _is_dispatcher(value):
        seen.append(value)
        # With signatures of its own, it converts what it is called with to one of these.
        signatures = [] if value._can_compile else value.signatures
        for options in (value.targetoptions, getattr(value, "locals", {})):
            yield from _content(sorted(options.items()), seen)
        yield from _content(signatures, seen)
        yield from _of_function(value.py_func, seen, is_compiled=True)
    elif type(value).__name__ == INTRINSIC:
        seen.append(value)
        yield from _of_function(value._defn, seen, is_compiled=False)
    elif isinstance(value, FunctionType) and not _of_library(value):
        if is_called:  # compiled code calls what overloads it, and nothing here says what that is
            raise UnknownContentError(f"function {value.__qualname__}, which is not compiled itself")
        yield from _of_function(value, seen, is_compiled=False)
    elif isinstance(value, CodeType):
        yield f"{value.co_code!r} {value.co_names} {value.co_varnames} {value.co_freevars} {value.co_argcount}"
        yield f"{value.co_kwonlyargcount} {value.co_flags} {value.co_exceptiontable!r}"
        for constant in value.co_consts:
            yield from _content(constant, seen)
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype} {value.shape} {value.tobytes()!r}"
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} of {len(value)} {getattr(value, '_fields', '')}"
        for item in value:
            yield from _content(item, seen, is_called=is_called)
    elif isinstance(value, set | frozenset):
        yield f"set {sorted(map(repr, value))}"
    elif value is None or isinstance(value, PLAIN) or _is_type_of_numba(value):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, ModuleType | type | FunctionType | BuiltinFunctionType | np.ufunc) and _of_library(value):
        yield f"{getattr(value, '__module__', '')} {value.__name__}"
    else:
        raise UnknownContentError(type(value).__name__)


def _of_function(function: FunctionType, seen: list[Any], *, is_compiled: bool) -> Iterator[str]:
    seen.append(function)
    yield f"function {function.__qualname__}"
    defaults = function.__defaults__, tuple((function.__kwdefaults__ or {}).items())
    yield from _content([*defaults, function.__code__], seen)
    for cell in function.__closure__ or ():
        yield from _content(cell.cell_contents, seen, is_called=is_compiled)
    for name in sorted(_names(function.__code__) & function.__globals__.keys()):
        yield name
        yield from _content(function.__globals__[name], seen, is_called=is_compiled)


def _is_dispatcher(value: Any) -> bool:
    """Tell whether it is a function that Numba or numba.cuda compiles, which have no common base class."""
    return not isinstance(value, type) and hasattr(value, "py_func") and hasattr(value, "targetoptions")


def _is_type_of_numba(value: Any) -> bool:
    """Tell whether it stands for a type of values in compiled code; what is printed of one names it."""
    return any(base.__name__ == "Type" and base.__module__.startswith("numba.") for base in type(value).__mro__)


def _of_library(value: Any) -> bool:
    """Tell whether a module, function or type is one of which the versions say all."""
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    # A function made of text, as an interaction is, is of no module, and a class made of text of ``builtins``.
    if module == "builtins" and isinstance(value, type):
        return getattr(builtins, value.__name__, None) is value
    return module is not None and module.partition(".")[0] in LIBRARIES


def _names(code: CodeType) -> set[str]:
    """Return the names that code refers to, and the functions written within it."""
    within = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*within)
