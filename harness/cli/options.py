"""What several commands share: the application, options, the console, and how a file that cannot be written ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.verdicts.compare import Run

app = typer.Typer(
    name="gravbench",
    help="Explore how fast gravity between N bodies can be computed, and what each optimization is worth here.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigArgument = Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file, or the stem of a packaged one.")]
RunsArgument = Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs, or their names.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUES", help="Override, e.g. n=1024,4096 or p=64..512*2."),
]
Variants = Annotated[list[str] | None, typer.Option("--variant", help="Only this variant; may be repeated.")]
Toolkits = Annotated[list[str] | None, typer.Option("--toolkit", help="Only this toolkit; may be repeated.")]
Devices = Annotated[list[str] | None, typer.Option("--device", help="cpu, cuda:0, ...; may be repeated.")]
Bodies = Annotated[str | None, typer.Option(help="plummer, uniform, collision, or a file of bodies.")]
Subset = Annotated[str | None, typer.Option(help="How n bodies are taken from a file: even or lee.")]
ThresholdOption = Annotated[str, typer.Option("--threshold", help="The smallest change that counts: 2% or 0.02.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every case.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


def console(*, stderr: bool = False) -> Console:
    """Open the terminal; ``stderr`` where standard output is for machines."""
    from rich.console import Console

    return Console(stderr=stderr)


def find_run(name: str, *, stderr: bool = True) -> Path:
    """Return the folder of a run, and say which it is where ``name`` is that of its configuration."""
    from gravbench.model import runs

    folder = runs.find(name)
    if folder.name.startswith(f"{name}-"):
        which = "the newest with measurements" if runs.has_measurements(folder) else "the newest; none has measurements"
        console(stderr=stderr).print(f"{name}: {folder}, {which}", markup=False, highlight=False, soft_wrap=True)
    return folder


def read_runs(names: list[str]) -> list[Run]:
    """Read the records of runs by their folders or names; say on standard error which lines are none."""
    from gravbench.model import runs
    from gravbench.verdicts.compare import Run

    return [Run(name, runs.RecordFile(find_run(name)).read(warn)) for name in names]


def warn(sentence: str) -> None:
    """Say on standard error what a person should know beside what was asked for."""
    console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in a sentence that what is written to a file or below a folder cannot be."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
