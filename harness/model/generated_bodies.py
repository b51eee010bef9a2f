"""The names of generated bodies: a generator and, behind it, its parameters, such as ``clumps count=4 sigma=1e-05``.

What is usual is left out and the parameters are in the order of their declaration, so that the same bodies have one
name: the name is what tells cases apart, and what records have.
"""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from gravbench.errors import InputError, nearest, shortened
from gravbench.model import generators, hard_bodies
from gravbench.model.bodies import Bodies

GENERATORS: dict[str, Callable[..., Bodies]] = {
    make.__name__: make
    for make in (
        *(generators.plummer, generators.uniform, generators.collision, generators.cube),
        *(hard_bodies.cusp, hard_bodies.thin_disk, hard_bodies.clumps),
        *(hard_bodies.line, hard_bodies.coincident, hard_bodies.filament),
    )
}
"""By name: each takes n, seed and eps, and parameters by their names."""


def is_generated(spec: str) -> bool:
    """Tell whether a name of bodies is that of a generator, alone or with NAME=VALUE behind it, and not of a file."""
    name, *words = spec.split() or [""]
    return name in GENERATORS and all("=" in word for word in words)


@lru_cache(maxsize=1_000)
def canonical(spec: str) -> str:
    """Return the one name of generated bodies; the path of a file is returned as it is.

    Raises:
        InputError: the generator has no such parameter, or it does not accept the value.
    """
    if not is_generated(spec):
        return spec
    name = spec.split()[0]
    given = _parameters(spec)
    usual = {parameter: field.default for parameter, field in parameters_of(name).model_fields.items()}
    return " ".join([name, *(f"{word}={_text(given[word])}" for word in usual if given[word] != usual[word])])


def generate(spec: str, n: int, seed: int, eps: float) -> Bodies:
    """Make the bodies that ``spec`` names, as ``is_generated`` accepts it.

    Raises:
        InputError: as ``canonical`` and as the generator.
    """
    return GENERATORS[spec.split()[0]](n, seed, eps, **_parameters(spec))


@cache
def parameters_of(name: str) -> type[BaseModel]:
    """Return the parameters of a generator with their limits and defaults, as its function declares them."""
    make = GENERATORS[name]
    hints = get_type_hints(make, include_extras=True)
    declared = inspect.signature(make).parameters.values()
    fields: dict[str, Any] = {
        parameter.name: (hints[parameter.name], parameter.default)
        for parameter in declared
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return create_model(name, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def _parameters(spec: str) -> dict[str, Any]:
    """Read and check the parameters in a name."""
    name, *words = spec.split()
    model = parameters_of(name)
    given: dict[str, str] = {}
    for word in words:
        parameter, _, value = word.partition("=")
        if parameter in given:
            raise InputError(f"{name}: {shortened(parameter)} is given twice; accepted: once")
        given[parameter] = value
    try:
        return model.model_validate(given).model_dump()
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
    parameter = str(mistake["loc"][0])
    if mistake["type"] == "extra_forbidden":
        known = list(model.model_fields)
        accepted = nearest(parameter, known) if known else f"accepted: {name} alone"
        raise InputError(f"{name}: no parameter {shortened(parameter)}; {accepted}")
    limits = model.model_json_schema()["properties"][parameter]
    kind = "a whole number" if limits["type"] == "integer" else "a number"
    between = f"{limits['minimum']:g} to {limits['maximum']:,g}"
    raise InputError(
        f"{name}: {parameter} is {shortened(given[parameter]) or 'empty'}; accepted: {kind} from {between}"
    )


def _text(value: float) -> str:
    """Write a value briefly and exactly."""
    brief = f"{value:g}"
    return brief if float(brief) == value else repr(value)


def generated_by() -> dict[str, str]:
    """Return what the last bits of generated bodies depend on: equal where the same seed makes the same bytes.

    NumPy computes powers, logarithms and sines by the vector instructions that a processor has, or by the C library.
    """
    built: Any = np.show_config(mode="dicts")
    simd = built.get("SIMD Extensions", {})
    return {
        "numpy": np.__version__,
        "instructions": " ".join([*simd.get("baseline", []), *simd.get("found", [])]),
        "c_library": "-".join(platform.libc_ver()),
        "machine": platform.machine(),
    }
