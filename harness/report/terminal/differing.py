"""What differs between the two sides of a comparison besides the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter

from gravbench.report.names import count
from gravbench.verdicts.compare import Comparison

NAMES = ("driver", "toolkit_version", "compiler", "flags", "commit", "harness_version", "method")
"""Fields of a record whose old and new values are given, where they are few and short."""
UNNAMED = ("device_uuid",)
MOST_CHANGES, MOST_CHARACTERS = 3, 100
"""Pairs of values of one field that are written out, and characters of a value."""
COMMIT = re.compile(r"\b([0-9a-f]{7})[0-9a-f]{33}\b")


def differences(comparison: Comparison) -> str:
    """Name what differs between the two records of a pair, a line per field with its values in BASE and NEW.

    ``driver 580.65 -> 590.12`` is that of BASE and that of NEW. Fields whose values are long, or change in many ways,
    share the last line with the number of cases whose source differs, and of those whose bodies do.
    """
    lines, last = [], []
    for name in (*NAMES, *UNNAMED):
        value_of = attrgetter(name)
        # Most pairs have the same two values. A list, which is no key, has only ``flags``.
        if name == "flags":
            both = dict.fromkeys([(tuple(pair.base.flags), tuple(pair.new.flags)) for pair in comparison.pairs])
        else:
            both = dict.fromkeys([(value_of(pair.base), value_of(pair.new)) for pair in comparison.pairs])
        written = dict.fromkeys((_written(old), _written(new)) for old, new in both)
        changes = [(old, new) for old, new in written if old != new]
        word = name.replace("_", " ")
        if changes and name in NAMES and _short(changes):
            lines.append(f"{word} {'; '.join(f'{old} -> {new}' for old, new in changes)}")
        elif changes:
            last.append(word)
    hashes = [
        (
            both_records.base.code_sha256 or both_records.base.source_sha256,
            both_records.new.code_sha256 or both_records.new.source_sha256,
        )
        for both_records in comparison.pairs
    ]
    edited = len([old for old, new in hashes if old != new])
    last += [f"source of {count(edited, 'case')}"] * bool(edited)
    bodies = [(pair.base.bodies_sha256, pair.new.bodies_sha256) for pair in comparison.pairs]
    others = len([old for old, new in bodies if None not in (old, new) and old != new])
    last += [f"bodies of {count(others, 'case')}"] * bool(others)
    return "\n".join([*lines, *[", ".join(last)] * bool(last)])


def _short(changes: Sequence[tuple[str, str]]) -> bool:
    return len(changes) <= MOST_CHANGES and all(len(value) <= MOST_CHARACTERS for both in changes for value in both)


def _written(value: object) -> str:
    """Write a value as a person would: flags as on a command line, a commit with seven digits."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return COMMIT.sub(r"\1", value)
    return " ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
