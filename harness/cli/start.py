"""Where the command line starts: what takes longest to import is begun before the command itself is imported."""

import sys
from collections.abc import Sequence

from gravbench.measuring import forking


def main() -> None:
    """Run the command line, see ``gravbench.cli.main``."""
    if measures_on_gpus(sys.argv[1:]):
        forking.begin()
    from gravbench.cli.main import main as command

    command()


def measures_on_gpus(words: Sequence[str]) -> bool:
    """Tell whether a command line seems to need workers of GPUs here; if that is wrong, nothing but time is lost."""
    elsewhere = ("--help", "-h", "--dry-run", "--dask", "cpu", "--device=cpu")
    return words[:1] == ["run"] and not any(word in elsewhere or word.startswith("--dask=") for word in words)
