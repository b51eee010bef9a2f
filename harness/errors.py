"""The one exception a person sees as a sentence instead of a traceback."""


class InputError(ValueError):
    """What was asked for cannot be done; the message is one sentence that names the cause.

    The command line prints it and exits with code 2.
    """


def nearest(word: str, accepted: list[str]) -> str:
    """Say which of the ``accepted`` words is meant by a misspelt one, then name them all."""
    import difflib

    close = difflib.get_close_matches(word, accepted, n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}accepted: {', '.join(accepted)}"
