"""The command line. Commands import what they need inside, so that ``--help`` answers at once."""

from __future__ import annotations

import sys

# In the order in which --help names their commands.
from gravbench.cli import judging, measuring, reporting  # noqa: F401
from gravbench.cli.options import app
from gravbench.errors import InputError


def main() -> None:
    """Run the command line; what a person did wrong ends in one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"gravbench: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
