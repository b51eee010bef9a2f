"""The one exception a person sees as a sentence instead of a traceback, and what keeps the sentence readable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

MOST_CHARACTERS = 1000
"""Of a sentence. A longer one loses its middle: it begins with the place and ends with what is accepted."""
MOST_SENTENCES = 10
"""Of an error that has several causes."""
MOST_NAMED = 600
"""Characters of the names that a sentence lists; the rest is counted."""
MOST_NAMES, CLOSE_NAMES, FIRST_NAMES = 24, 3, 10
"""Of more than ``MOST_NAMES`` accepted names, a sentence about a wrong one has that many close ones or first ones."""
LISTING = "gravbench list"
"""The command that names every variant."""
MOST_QUOTED = 100
"""Characters of a word that a person gave, where a sentence repeats it."""


Place = tuple[int, int]
"""A line and a column of a file, from 0."""
BEHIND = sys.maxsize
"""The line of what is not in the file but on the command line."""


class InputError(ValueError):
    """What was asked for cannot be done; the message is one sentence that names the cause.

    Where several causes are known it has a line for each. The command line prints it and exits with code 2. A line has
    no control characters and at most ``MOST_CHARACTERS``.
    """

    def __init__(self, *sentences: object) -> None:
        super().__init__(*(shortened(printable(str(sentence)), MOST_CHARACTERS) for sentence in sentences))

    def __str__(self) -> str:
        """Join the lines."""
        return "\n".join(self.args)


class Mistakes:
    """The mistakes in a file and its overrides, collected so that all are said at once, in the order of the file."""

    def __init__(self) -> None:
        self._found: dict[str, Place] = {}

    @contextmanager
    def noted(self, place: Place) -> Iterator[None]:
        """Collect what is wrong in the block, which is about this place of the file."""
        try:
            yield
        except InputError as error:
            for sentence in error.args:
                self.note(sentence, place)

    def note(self, sentence: str, place: Place) -> None:
        """Collect what is wrong at this place of the file."""
        self._found.setdefault(sentence, place)

    def check(self) -> None:
        """Refuse the file if anything was collected.

        Raises:
            InputError: the first ``MOST_SENTENCES`` mistakes, and how many more there are.
        """
        if self._found:
            raise self.error()

    def error(self) -> InputError:
        """Return the error that has what was collected."""
        return InputError(*few(sorted(self._found, key=lambda sentence: self._found[sentence])))


def few(sentences: Sequence[str]) -> list[str]:
    """Keep the first ``MOST_SENTENCES``, and say how many more mistakes there are."""
    more = len(sentences) - MOST_SENTENCES
    if more <= 0:
        return list(sentences)
    return [*sentences[:MOST_SENTENCES], f"and {more:,} more mistake{'s' if more > 1 else ''}"]


class ForkedError(InputError):
    """A process was forked from one that uses what does not survive a fork; the message says what, and what helps."""


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
    close = closest(word, accepted)
    return f"did you mean {shortened(close)}? " if close else ""


def closest(word: str, accepted: Sequence[str]) -> str | None:
    """Return the closest of the ``accepted`` words; None where none is close."""
    return next(iter(_close(word, accepted)), None)


def _close(word: str, accepted: Sequence[str]) -> list[str]:
    """Return the closest words, first those that differ by capitals, then by the ending of a plural."""
    import difflib

    # Beyond it no name is meant, and the comparison takes long.
    if len(word) > MOST_QUOTED:
        return []
    folded: dict[str, str] = {}
    for name in accepted:
        folded.setdefault(name.casefold(), name)
    small = word.casefold()
    same = [small, f"{small}s", small.removesuffix("s")]
    close = [*(name for name in same if name in folded), *difflib.get_close_matches(small, folded, n=CLOSE_NAMES)]
    return [folded[name] for name in dict.fromkeys(close)][:CLOSE_NAMES]


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


class Stopped(BaseException):
    """A signal asks for the end; ``hint`` is what to say of it. Not for ``except Exception``."""

    def __init__(self, number: int) -> None:
        """The exit code is that of shells: 128 and the signal's number."""
        super().__init__(number)
        self.exit_code = 128 + number
        self.hint = ""
