"""How much a configuration and the command line may ask for; docs/reference/limits.md has the same numbers.

A mistake of a person stays below them, and what exceeds them is refused before it costs time or memory.
"""

from __future__ import annotations

MOST_CASES = 20_000
"""Combinations of a run, counted before ``when`` removes any; and values of one key."""
MOST_ENTRIES = 1000
"""Elements of ``variants``."""
MOST_RANGE = 1000
"""Values that one range of ``-p`` stands for."""
MOST_BYTES = 512 * 1024
"""Of a configuration file."""
MOST_LEVELS = 20
"""Lists and mappings within each other, aliases written out."""
MOST_PARTS = 100_000
"""Keys, values, lists and mappings of a file, aliases written out."""
MOST_IN_CONDITION = 500
"""Characters of a ``when``."""
MOST_DIGITS = 300
"""Of a whole number: beyond it a number is a mistake, and costs Python time."""
MOST_SECONDS = 10_000_000
"""Of each time in ``measure``: about 116 days."""
