"""What several commands share: the application, options, the console, and how what the system refuses ends."""

from __future__ import annotations

import gc
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gravbench.cli import completion
from gravbench.cli.renamed import renamed, sentence
from gravbench.errors import InputError, shortened

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from gravbench.model.record import Record
    from gravbench.verdicts.compare import Run

_UsageError: Any = typer.BadParameter.__bases__[0]
"""What the parser of the command line raises; typer has no public name for it."""
USAGE = 2
"""Exit code of a command line that cannot be understood."""
NOT_JUDGED = ("power_watts", "temperature_celsius")
"""Readings of a record by which no verdict is decided, and no time explained."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from gravbench.measuring import environment

        described = environment.describe([], [])
        commit = f"commit {described['commit'][:12]}" if described["commit"] else "no checkout"
        typer.echo(f"gravbench {described['harness_version']} ({commit}, Python {described['python'].split()[0]})")
        raise typer.Exit


ORDER = (
    *("run", "check", "judge", "selftest", "peaks", "ablate", "movie", "live"),
    *("report", "best", "compare", "replay", "merge", "export", "share", "verify", "site", "history"),
    *("list", "source", "explain", "doctor", "learn", "new", "schema"),
)
"""The commands as a reader of ``--help`` meets them."""


class Commands(TyperGroup):
    """All commands, so that what the parser or the system refuses is one sentence like any other mistake."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the commands as ``--help`` does: in the order of ``ORDER``, then the others."""
        return sorted(super().list_commands(ctx), key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def main(self, args: Any = None, prog_name: Any = None, *others: Any, **options: Any) -> Any:
        """Run a command line, and exit unless the option ``standalone_mode`` is false.

        Raises:
            InputError: an option or a command is misused, or a file cannot be read or written.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # the name of a file need not be text
                stream.reconfigure(errors="backslashreplace")
        given = list(sys.argv[1:] if args is None else args)
        arguments = renamed(given)
        if arguments != given:
            warn(sentence(given, arguments))
        try:
            code = super().main(arguments, prog_name, *others, **(options | {"standalone_mode": False}))
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
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def gravbench(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Measure how fast a GPU or a CPU computes gravity between N bodies, and what each optimization is worth."""


MEASURE, READ, LOOK, OWN = "Measure", "Read results (no GPU needed)", "Look around", "Write your own"
"""Headings of ``--help``, under which the commands stand."""

ConfigArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help="A YAML file, or the name of a packaged configuration.",
        autocompletion=completion.configs,
    ),
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Folders or names of runs.", autocompletion=completion.runs),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--parameter",
        metavar="NAME=VALUES",
        help="Override a setting or an axis, e.g. n=1024,4096 or p=64..512*2.",
    ),
]
Variants = Annotated[
    list[str] | None,
    typer.Option("--variant", help="Run only this variant; repeat for more.", autocompletion=completion.variants),
]
Toolkits = Annotated[
    list[str] | None,
    typer.Option("--toolkit", help="Run only on this toolkit; repeat for more.", autocompletion=completion.toolkits),
]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device", help="Run on this device: cpu, cuda:0, ...; repeat for more.", autocompletion=completion.devices
    ),
]
Bodies = Annotated[
    str | None, typer.Option(help="Initial conditions: a generator such as plummer, or a file of bodies.")
]
Subset = Annotated[str | None, typer.Option(help="How to pick n bodies from a file: even, lee or lee_last.")]
ThresholdOption = Annotated[
    str, typer.Option("--threshold", help="The smallest relative change that matters, e.g. 2% or 0.02.")
]
Everything = Annotated[bool, typer.Option("--all", help="Show all cases, not only the first of each verdict.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def console(*, stderr: bool = False) -> Console:
    """Open the terminal; ``stderr`` where standard output is for machines."""
    from rich.console import Console

    return Console(stderr=stderr)


@contextmanager
def paged() -> Iterator[Console]:
    """Open the terminal for a long text: where it is one and has a pager, what is printed is shown by the pager.

    ``PAGER`` names another pager, and ``cat`` none. ``less`` ends at once where all fits the screen. What is piped, or
    written to a file, never meets a pager.
    """
    from rich.console import Console

    plain = console()
    words = shlex.split(os.environ.get("PAGER", "less"))
    program = shutil.which(words[0]) if words else None
    if not (plain.is_terminal and sys.stdin is not None and sys.stdin.isatty() and program) or words == ["cat"]:
        yield plain
        return
    text = io.StringIO()
    yield Console(file=text, width=plain.width, force_terminal=True, no_color=plain.no_color)
    # As git calls it: colours as they are, no paging of what fits, and the text stays on the screen.
    environment = os.environ | {"LESS": os.environ.get("LESS", "FRX")}
    with suppress(BrokenPipeError):  # left before the end
        subprocess.run([program, *words[1:]], input=text.getvalue(), text=True, encoding="utf-8", env=environment)


@contextmanager
def working(title: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error, where that is a terminal, what a command is busy with; the function changes what is said.

    It disappears at the end. What is piped gets nothing of it.
    """
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield lambda _: None
        return
    with terminal.status(title) as status:
        yield status.update


@contextmanager
def busy(terminal: Console, title: str) -> Iterator[Callable[[str], None]]:
    """Show what a command is busy with, in a terminal in its last line and elsewhere in lines; yields what says it."""
    if not terminal.is_terminal:
        yield lambda what: terminal.print(what, markup=False)
        return
    with terminal.status(title) as status:
        yield status.update


def linked(text: str, path: Path) -> Text:
    """Return a text that leads to a file where a terminal has hyperlinks; elsewhere it is the text alone."""
    from rich.text import Text

    return Text(text, style=f"link {path.resolve().as_uri()}")


def tell(terminal: Console, sentence: str) -> None:
    """Print a sentence as it is, in one line however long it is: it may have a command to be copied."""
    terminal.print(sentence, markup=False, highlight=False, soft_wrap=True)


def tell_written(terminal: Console, path: Path, *, size: bool = False) -> None:
    """Say that a file was written, and how large it is."""
    written = f", {_size_words(path.stat().st_size)}" if size else ""
    terminal.print("wrote ", linked(str(path), path), written, sep="", soft_wrap=True)


def _size_words(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def warn(sentence: str) -> None:
    """Say on standard error what a person should know beside what was asked for."""
    tell(console(stderr=True), sentence)


def find_run(name: str, *, stderr: bool = True) -> Path:
    """Return the folder of a run, and say which it is where ``name`` is that of its configuration or of the clone."""
    from gravbench.model import run_names, runs

    folder, which = run_names.find(name), ""
    if run_names.is_of_the_clone(folder) and not Path(name).is_absolute():
        which = "a run of the clone of gravbench"
    elif folder.name.startswith(f"{name}-"):
        which = "the newest with measurements" if runs.has_measurements(folder) else "the newest; none has measurements"
    if which:
        tell(console(stderr=stderr), f"{name}: {folder}, {which}")
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
