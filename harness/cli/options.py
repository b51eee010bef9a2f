"""What several commands share: the application, options, the console, and how what the system refuses ends."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gravbench.errors import InputError, shortened

if TYPE_CHECKING:
    from rich.console import Console

    from gravbench.model.record import Record
    from gravbench.verdicts.compare import Run

_UsageError: Any = typer.BadParameter.__bases__[0]
"""What the parser of the command line raises; typer has no public name for it."""
USAGE = 2
"""Exit code of a command line that cannot be understood."""


class Commands(TyperGroup):
    """All commands, so that what the parser or the system refuses is one sentence like any other mistake."""

    def main(self, args: Any = None, prog_name: Any = None, *others: Any, **options: Any) -> Any:
        """Run a command line, and exit unless the option ``standalone_mode`` is false.

        Raises:
            InputError: an option or a command is misused, or a file cannot be read or written.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # the name of a file need not be text
                stream.reconfigure(errors="backslashreplace")
        try:
            code = super().main(args, prog_name, *others, **(options | {"standalone_mode": False}))
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # only the name of a group: its help
                print(error, file=sys.stderr)  # noqa: T201
                raise SystemExit(USAGE) from None
            # The program may go by another name, such as that of Python.
            command = error.ctx.command_path.removeprefix(error.ctx.find_root().info_name) if error.ctx else ""
            what = error.format_message().rstrip(".").replace("Value error, ", "", 1)  # of typer's own checks
            raise InputError(f"{shortened(what, 500)}; see gravbench{command} --help") from None
        except OSError as error:
            if error.filename is None:
                raise
            raise InputError(f"{shortened(str(error.filename), 500)}: {error.strerror}") from error
        if options.get("standalone_mode", True):
            raise SystemExit(code if isinstance(code, int) else 0)
        return code


app = typer.Typer(
    cls=Commands,
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


def warn(sentence: str) -> None:
    """Say on standard error what a person should know beside what was asked for."""
    console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)


def find_run(name: str, *, stderr: bool = True) -> Path:
    """Return the folder of a run, and say which it is where ``name`` is that of its configuration."""
    from gravbench.model import runs

    folder = runs.find(name)
    if folder.name.startswith(f"{name}-"):
        which = "the newest with measurements" if runs.has_measurements(folder) else "the newest; none has measurements"
        console(stderr=stderr).print(f"{name}: {folder}, {which}", markup=False, highlight=False, soft_wrap=True)
    return folder


def read_runs(names: list[str], without: Collection[str] = ()) -> list[Run]:
    """Read runs by their folders or names, ``without`` some lists; say on standard error which lines are no records."""
    from gravbench.verdicts.compare import Run

    return [Run(name, read_records(find_run(name), without=without)) for name in names]


def read_records(folder: Path, say: Callable[[str], object] = warn, without: Collection[str] = ()) -> list[Record]:
    """Read the records of a run once and for all: no collection of garbage looks through them again.

    Nor does one look often through what is made of them, nearly all of which is kept until the end.
    """
    from gravbench.model.runs import RecordFile

    records = RecordFile(folder).read(say, without)
    gc.freeze()
    gc.set_threshold(100_000, 100, 100)
    return records


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in a sentence that what is written to a file or below a folder cannot be."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
