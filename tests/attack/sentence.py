"""What every attack holds the program to: an answer or one readable sentence, soon, and never a traceback."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from gravbench.errors import MOST_CHARACTERS, MOST_SENTENCES, InputError

SECONDS = 10.0
"""Of computing, for any one input."""

NASTY_WORDS = [
    *("", " ", "~", "null", "true", "0", "-1", "1e400", "-0.0", ".nan", "nan", "inf", "1_000", "0x10", "1:30"),
    *("2020-01-01", "[b]x[/b]", "{0}", "~/x"),
    *("9" * 299, "9" * 400, "1e-400", "1e" + "9" * 50, "64.0", "naive", "tiled", "all", "cupy", "cpu", "..", "/", "."),
    *("a" * 300, "b" * 5000, "../" * 2000, "a\0b", "\x1b[31mred", "\u202eabc", "tab\there", "new\nline", "\x9b"),
    *("1..9*2", "1..1e9+1e-9", "1..99999999+1", "0..1*2", "1..2*1.0000001", "5..1+1", "1...2", "1..1e999999999*10"),
    *("/dev/null", "/dev/zero", "/proc/self/mem", "/dev/stdin", "/etc", "x" * 256 + ".tab", "%s%n", "$(id)"),
]  # fmt: skip


@contextmanager
def answered(what: object) -> Iterator[list[str]]:
    """Give the list for the sentences that the input is refused with; hold them and the time to their bounds."""
    said: list[str] = []
    began = time.process_time()
    try:
        try:
            yield said
        except InputError as error:
            said += str(error).split("\n")
        assert len(said) <= MOST_SENTENCES + 1
        for sentence in said:
            assert 10 < len(sentence) <= MOST_CHARACTERS + len("gravbench: ")
            assert sentence.isprintable()
            assert "Traceback" not in sentence
        assert time.process_time() - began < SECONDS
    except BaseException as error:
        error.add_note(f"input: {what!r:.3000}")
        raise
