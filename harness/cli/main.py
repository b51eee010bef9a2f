"""The command line. Commands import what they need inside, so that ``--help`` answers at once."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

# In the order in which --help names their commands.
from gravbench.cli import judging, looking, making, measuring, reporting, searching  # noqa: F401

# isort: split
from gravbench.cli import ablating, browsing, entries, explaining, filming, learning, peaks, sharing  # noqa: F401
from gravbench.cli.options import app
from gravbench.cli.stopping import stopping
from gravbench.errors import InputError, Stopped, prefixed


def main() -> None:
    """Run the command line; what a person did wrong ends in one sentence and exit code 2."""
    try:
        with stopping():
            try:
                app()
            finally:
                if sys.stdout is not None:  # as Python has it where the shell closed it
                    sys.stdout.flush()
    except InputError as error:
        _end(str(error), 2)
    except Stopped as stopped:
        _end("stopped" + (f"; {stopped.hint}" if stopped.hint else ""), stopped.exit_code)
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever was to read has gone
            _end("", 1)
        # Of a file that has a name, the commands have made an InputError.
        _end(f"standard output: {error.strerror or error}", 2)


def _end(sentence: str, code: int) -> None:
    """Exit after a sentence, or several in lines of their own, also where nobody can read it any more."""
    with suppress(OSError):
        if sentence:
            sys.stderr.write(prefixed("gravbench", sentence))
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # Python would try again as it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
