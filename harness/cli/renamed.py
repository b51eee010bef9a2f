"""Command lines of version 1.0 that have other names now. They work until version 1.2."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

EXPLAIN = ("ledger", "compare", "bottleneck", "validate")
VALUES = ("--records", "--limits", "--against", "--ceilings")
"""Options of the old ``explain`` with a value."""


def renamed(arguments: Sequence[str]) -> list[str]:
    """Return a command line as it is written today; one that is written so already comes back as it is."""
    command, *words = arguments or [""]
    if command == "ceilings":
        return ["peaks", *words]
    if command != "explain" or not words or words[0] in (*EXPLAIN, "-h", "--help"):
        return list(arguments)
    return _explain(words)


def sentence(old: Sequence[str], new: Sequence[str]) -> str:
    """Say what an old command line is now."""
    return f"gravbench {shlex.join(old)}: this is now gravbench {shlex.join(new)}; the old name ends with version 1.2"


def _explain(words: Sequence[str]) -> list[str]:
    split = [part for word in words for part in (word.split("=", 1) if word.startswith(_WITH_VALUE) else [word])]
    given: dict[str, list[str]] = {name: [] for name in VALUES}
    rest: list[str] = []
    left = iter(split)
    for word in left:
        if word in VALUES and (value := next(left, None)) is not None:
            given[word].append(value)
        else:
            rest.append(word)
    rest += [word for folder in given["--ceilings"] for word in ("--peaks", folder)]
    if "--knock-outs" in rest:
        return ["ablate", *(word for word in rest if word != "--knock-outs")]
    if given["--limits"]:
        return ["explain", "bottleneck", *given["--limits"], *rest]
    if given["--records"]:
        variant = ["--variant"] if rest and not rest[0].startswith("-") else []
        return ["explain", "validate", *given["--records"], *variant, *rest]
    if given["--against"]:
        return ["explain", "compare", *rest, *given["--against"]]
    return ["explain", "ledger", *rest]


_WITH_VALUE = tuple(f"{name}=" for name in VALUES)
