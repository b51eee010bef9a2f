"""The reference of configuration files: every key with what it accepts and its default, from the models."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pydantic import BaseModel

from gravbench.config.load import packaged
from gravbench.config.search import Search
from gravbench.config.settings import Config, Entry, Measure, Settings
from gravbench.model.quantities import QUANTITIES

HEAD = """# Configuration

A sweep is a YAML file. [Run a sweep](../how-to/sweep.md#write-your-own-sweep) explains how to write one; this page
lists its keys. It is generated from the code. `-p KEY=VALUES` sets a key on the command line, such as
`-p n=1024,4096` or `-p measure.budget_seconds=1`.

"""
SAID = {
    "bodies": "initial conditions: a generator with its parameters, such as `plummer` or `clumps count=4`, or a file",
    "subset": "how n bodies are selected from a file",
    "seed": "random seed of the initial conditions",
    "eps": "softening length; up to 1e12 in float32 and 1e100 in float64",
    "dtype": "number type of the computation",
    "interaction": "`gravity`, `hermite`, `lennard_jones`, or a file",
    "timed": "what one evaluation includes: see below",
    "integrator": "integrator, where `timed` is a step",
    "dt": "length of a time step, where `timed` is a step",
    "n": "numbers of bodies; without it, all bodies of a file",
    "flops_per_interaction": "convention for GFLOP/s: a number, or one number per interaction name; by default the "
    "count in the file of the interaction",
    "measure": "how each case is measured: see below",
    "search": "which cases are measured: the name of a strategy, or the keys below",
    "description": "purpose of the sweep",
    "published": "the source with which the report compares the run",
    "variant_folders": "folders with your own variants",
    "variants": "names of variants, `all`, or entries with the keys below",
    "variant": "a variant, a list of variants, or `all`",
    "toolkit": "run only on these toolkits; by default on all that the variant supports, except `mlir`",
    "when": "condition for combinations to be kept",
}
"""What a key means, where its model does not say."""


def page() -> str:
    """Return the page in Markdown.

    Raises:
        KeyError: a key is described neither in ``SAID`` nor in its model.
    """
    alone = {"description", "published", "variant_folders", "variants", "flops_per_interaction", "measure", "search"}
    own = [name for name in Entry.model_fields if name not in Settings.model_fields]
    return "\n".join(
        [
            HEAD,
            "## Keys for all cases",
            "",
            *keys(Config, [name for name in Config.model_fields if name in alone]),
            "",
            "## Swept keys",
            "",
            "Lists are swept, scalars are fixed. Use these keys at the top level of the file, or in an entry of "
            "`variants`, where they apply only to that entry.",
            "",
            *keys(Config, list(Settings.model_fields)),
            "",
            "## timed",
            "",
            "| value | one evaluation includes |",
            "| --- | --- |",
            *(f"| `{name}` | {quantity.meaning} |" for name, quantity in QUANTITIES.items()),
            "",
            "## Keys of an entry of `variants`",
            "",
            "Every other key of an entry is an axis of its variants, such as `p: [64, 128]`.",
            "",
            *keys(Entry, own),
            "",
            "## measure",
            "",
            *keys(Measure, list(Measure.model_fields)),
            "",
            "## search",
            "",
            *keys(Search, list(Search.model_fields)),
            "",
            "## Packaged sweeps",
            "",
            *sweeps(),
            "",
        ]
    )


def keys(model: type[BaseModel], names: list[str]) -> list[str]:
    """Return a table of keys."""
    properties = model.model_json_schema()["properties"]
    told = attributes(model)
    rows = ["| key | accepts | default | meaning |", "| --- | --- | --- | --- |"]
    for name in names:
        said = told.get(name) or model.model_fields[name].description or SAID[name]
        cells = [f"`{name}`", accepts(properties[name]), default(properties[name]), said]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return what the docstring of a model says of each of its fields."""
    _, _, listed = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", listed, re.MULTILINE)
    return {name: " ".join(said.split()).replace("``", "`") for name, said in found}


def accepts(schema: dict[str, Any]) -> str:
    """Say in words what a schema accepts."""
    if "anyOf" in schema:
        return ", ".join(filter(None, map(accepts, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        inside = accepts(schema["items"])
        return inside and f"{inside}, or a list"
    if "$ref" in schema:
        return {"Entry": "a name, or an entry"}.get(schema["$ref"].rpartition("/")[2], "keys and values")
    words = {"string": "text", "integer": "whole number", "number": "number", "object": "keys and values", "null": ""}
    found = words.get(schema.get("type", ""), "")
    bounds = [
        f"{sign} {schema[name]:,g}" if isinstance(schema[name], float) else f"{sign} {schema[name]:,}"
        for names, sign in (
            (("gt", "exclusiveMinimum"), ">"),
            (("ge", "minimum"), "≥"),
            (("lt", "exclusiveMaximum"), "<"),
            (("le", "maximum"), "≤"),
        )
        for name in names
        if name in schema
    ]
    return f"{found} {' and '.join(bounds)}".strip()


def default(schema: dict[str, Any]) -> str:
    """Return the default of a key, empty where there is none or it depends."""
    value = schema.get("default")
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return "" if value in (None, [], {}, "", "True") or isinstance(value, dict) else f"`{value}`"


def sweeps() -> list[str]:
    """Return a table of the packaged sweeps and what each says of itself."""
    rows = ["| sweep | measures |", "| --- | --- |"]
    for name, path in packaged().items():
        found = re.search(r"^description: (?:[>|]-?\n\s+)?(.*)$", path.read_text("utf-8"), re.MULTILINE)
        rows.append(f"| `{name}` | {found[1] if found else ''} |")
    return rows
