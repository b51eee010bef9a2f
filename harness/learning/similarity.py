"""Submissions that are nearly the same text: sequences of tokens, whatever names and constants they have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

LENGTH = 8
"""Tokens of a sequence."""
LEAST = 0.9
"""What two submissions have in common of all their sequences, from which they are named."""
FEWEST = 12
"""Sequences of its own that a submission needs to be compared at all."""
_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|""".*?"""|#(?!pragma)[^\n]*', re.DOTALL)
_TOKEN = re.compile(r"(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d[\w.]*)|(?P<sign>[^\s\w])")
_WORDS = re.compile(
    r"if|else|for|while|do|return|continue|break|const|float[234]?|int|unsigned|bool|void|pragma|unroll|atomicAdd|rsqrtf|"
    r"def|in|range|elif|and|or|not|pass|shared|local|array|syncthreads|grid|(load|store)4|"
    r"__(shared|device|global|restrict)__|__\w+_sync|__sync\w+|(thread|block)Idx|(block|grid)Dim"
)
"""Names that say what a kernel does; all others are taken for one."""


class Pair(NamedTuple):
    """Two submissions, and what they have in common of all their sequences."""

    first: str
    second: str
    similarity: float


def sequences(text: str) -> frozenset[tuple[str, ...]]:
    """Return the sequences of tokens of a text, without comments, layout, names and constants."""
    tokens = [_token(match) for match in _TOKEN.finditer(_COMMENT.sub(" ", text))]
    return frozenset(tuple(tokens[first : first + LENGTH]) for first in range(len(tokens) - LENGTH + 1))


def similar(submissions: Mapping[str, str], given: Sequence[str]) -> list[Pair]:
    """Return the pairs of submissions that are nearly the same, apart from what is in one of the ``given`` texts."""
    known = frozenset[tuple[str, ...]]().union(*map(sequences, given))
    each = {name: sequences(text) - known for name, text in submissions.items()}
    kept = {name: sequences for name, sequences in each.items() if len(sequences) >= FEWEST}
    pairs = [Pair(a, b, len(kept[a] & kept[b]) / len(kept[a] | kept[b])) for a, b in combinations(sorted(kept), 2)]
    return sorted((pair for pair in pairs if pair.similarity >= LEAST), key=lambda pair: -pair.similarity)


def _token(match: re.Match[str]) -> str:
    if match["name"]:
        return match[0] if _WORDS.fullmatch(match[0]) else "name"
    return "0" if match["number"] else match[0]
