"""The one exception a person sees as a sentence instead of a traceback, and what keeps the sentence readable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

MOST_CHARACTERS = 1000
"""Of a sentence. A longer one loses its middle: it begins with the place and ends with what is accepted."""
MOST_SENTENCES = 10
"""Of an error that has several causes."""
MOST_NAMED = 600
"""Characters of the names that a sentence lists; the rest is counted."""
MOST_NAMES, CLOSE_NAMES, FIRST_NAMES = 20, 3, 10
"""Of more than ``MOST_NAMES`` accepted names, a sentence about a wrong one has that many close ones or first ones."""
LISTING = "gravbench list"
"""The command that names every variant."""
MOST_QUOTED = 100
"""Characters of a word that a person gave, where a sentence repeats it."""


class InputError(ValueError):
    """What was asked for cannot be done; the message is one sentence that names the cause.

    Where several causes are known it has a line for each; after ``MOST_SENTENCES`` it says how many more there are. The
    command line prints it and exits with code 2. A line has no control characters and at most ``MOST_CHARACTERS``.
    """

    def __init__(self, *sentences: object) -> None:
        lines = [shortened(printable(str(sentence)), MOST_CHARACTERS) for sentence in sentences]
        # A count of one more would take as much room as the sentence. What is unpickled has a count already.
        if len(lines) > MOST_SENTENCES + 1:
            lines[MOST_SENTENCES:] = [f"and {len(lines) - MOST_SENTENCES:,} more mistakes"]
        super().__init__(*lines)

    def __str__(self) -> str:
        """Join the lines."""
        return "\n".join(self.args)


def exit_code_of(program: str, work: Callable[[], object]) -> int:
    """Do the work of ``program``; return 0, or 2 after a mistake, which is printed in one sentence."""
    try:
        work()
    except (InputError, OSError) as error:
        sys.stderr.write(prefixed(program, str(error)))
        return 2
    return 0


def prefixed(program: str, message: str) -> str:
    """Begin each line of a message with the name of the program."""
    return "".join(f"{program}: {line}\n" for line in message.splitlines())


def printable(text: str) -> str:
    r"""Write what no terminal shows as it is, such as control characters, as Python does: ``\x1b``."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text) if not text.isprintable() else text


def shortened(text: str, most: int = MOST_QUOTED) -> str:
    """Cut the middle out of a text of more than ``most`` characters."""
    if len(text) <= most:
        return text
    kept = most - len("...")
    return f"{text[: kept - kept // 2]}...{text[-(kept // 2) :]}"


def listed(names: Iterable[str]) -> str:
    """Join names by commas; after ``MOST_NAMED`` characters say how many more there are."""
    every = [shortened(name) for name in names]
    kept, characters = 0, 0
    while kept < len(every) and characters + len(every[kept]) <= MOST_NAMED:
        characters += len(every[kept]) + 2
        kept += 1
    more = [f"and {len(every) - kept} more"] if kept < len(every) else []
    return ", ".join([*every[:kept], *more])


def guess(word: str, accepted: Sequence[str]) -> str:
    """Ask whether the closest of the ``accepted`` words is meant by a misspelt one; empty where none is close."""
    close = _close(word, accepted)
    return f"did you mean {shortened(close[0])}? " if close else ""


def _close(word: str, accepted: Sequence[str]) -> list[str]:
    import difflib

    # Beyond it no name is meant, and the comparison takes long.
    return difflib.get_close_matches(word, accepted, n=CLOSE_NAMES) if len(word) <= MOST_QUOTED else []


def nearest(word: str, accepted: Sequence[str], more: str = "") -> str:
    """Say which of the ``accepted`` words is meant by a misspelt one, then name what is accepted.

    Of more than ``MOST_NAMES`` words, the closest are named, or the first where none is close, and the rest are
    counted; ``more`` is the command that lists them all.
    """
    question = guess(word, accepted)
    if len(accepted) <= MOST_NAMES:
        return f"{question}accepted: {listed(accepted)}"
    named = _close(word, accepted) or accepted[:FIRST_NAMES]
    see = f"; {more} shows all of them" if more else ""
    return f"{question}accepted: {listed(named)} and {len(accepted) - len(named):,} more{see}"
