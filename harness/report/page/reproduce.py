"""The command that measures the case of a record again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gravbench.model import interaction_files
from gravbench.model.case import PARTS, stated
from gravbench.model.record import Record
from gravbench.model.variant import Variant

CONFIG = "quick"
"""A packaged configuration that has every chosen variant once, so that a command can say all the rest."""

# What needs no saying, because CONFIG means it, as it means what is usual of a case; a test compares.
UNSAID_MEASURE: Mapping[str, float] = {
    "half_width": 0.005,
    "min_samples": 10,
    "budget_seconds": 0.4,
    "warm_up_seconds": 0.05,
    "sample_seconds": 0.005,
    "timeout_seconds": 60,
}


def command(record: Record, config: str = CONFIG, variant: Variant | None = None) -> str:
    """Return the ``gravbench run`` that has this case alone, measured by the same protocol, on the reader's device.

    ``config`` is what has the variant, where that is no built-in one; it is then made to say everything. Axes that the
    ``variant`` no longer has are left out, where it can be loaded here and they have the value that it has kept.
    """
    short = config == CONFIG
    unsaid = {name: PARTS[name].usual if short else None for name in stated()}
    named = {name: value for name in unsaid if (value := getattr(record, name)) not in (None, unsaid[name])}
    words = ["gravbench", "run", config]
    for name in (name for name in named if PARTS[name].option):
        words += [f"--{name}", str(named[name])]
    # What varies most stands first.
    axes = variant.known(record.axes) if variant else record.axes
    settings = {"n": record.n, **axes} | {name: named[name] for name in named if not PARTS[name].option}
    if record.flops_per_interaction != _own_flops(record.interaction):
        settings["flops_per_interaction"] = record.flops_per_interaction
    for name, usual in UNSAID_MEASURE.items():
        if record.protocol and name in record.protocol and not (short and record.protocol[name] == usual):
            settings[f"measure.{name}"] = record.protocol[name]
    for name, value in settings.items():
        words += ["-p", f"{name}={_text(value)}"]
    return shlex.join(words)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


@lru_cache
def _own_flops(interaction: str) -> float | None:
    # A file of one's own is not opened: a record may name any path.
    known = interaction in interaction_files.packaged()
    return float(interaction_files.find(interaction).flops) if known else None
