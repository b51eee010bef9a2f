"""The commands of the course: learn, and learn start, check, hint, show and class."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli.options import OWN, AsJson, app, console, tell, warn, working, writing
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.learning.exercises import Exercise

learn = typer.Typer(invoke_without_command=True)
app.add_typer(
    learn, name="learn", rich_help_panel=OWN, help="Write each kernel of the ladder yourself; graded without a GPU."
)


class Toolkit(StrEnum):
    """In what an exercise may be done instead of CUDA C."""

    NUMBA = "numba"


ToolkitOption = Annotated[
    Toolkit | None, typer.Option("--toolkit", help="In Numba CUDA, which is Python (default: in CUDA C).")
]
Name = Annotated[str, typer.Argument(metavar="EXERCISE", help="One of those that `gravbench learn` lists.")]
ProgressFile = Annotated[
    Path | None,
    typer.Option("--progress", metavar="FILE", help="Keep the progress in this file (default: your own)."),
]
ThresholdsFile = Annotated[
    Path | None, typer.Option("--thresholds", metavar="FILE", help="YAML: how near to the rung is good enough.")
]


@learn.callback()
def list_exercises(context: typer.Context, progress: ProgressFile = None, as_json: AsJson = False) -> None:
    """List the ten exercises of the course, and how far you are."""
    if context.invoked_subcommand is not None:
        if progress is not None or as_json:
            raise InputError(f"options of learn {context.invoked_subcommand} stand behind {context.invoked_subcommand}")
        return
    from gravbench.learning.progress import read
    from gravbench.learning.shown import listed, next_in_list, progress_json
    from gravbench.report.terminal.sections import render_sections

    known = read(_path(progress))
    if as_json:
        typer.echo(json.dumps(progress_json(known), indent=2))
        return
    render_sections([listed(known)], console())
    _say_next(next_in_list(known))


@learn.command()
def start(name: Name, toolkit: ToolkitOption = None) -> None:
    """Write the skeleton of an exercise to EXERCISE.cu, or EXERCISE.py, in this folder."""
    from gravbench.learning.exercises import exercise

    begun, ending = exercise(name), _ending(toolkit)
    skeleton, file = begun.skeleton(ending), Path(f"{name}{ending}")
    with writing(file):
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(skeleton)
        except FileExistsError:
            raise InputError(
                f"{file}: exists already; accepted: another folder, or a file that you moved away"
            ) from None
    console().print(f"{begun.number}. {begun.about.title}: {begun.about.idea}", markup=False, highlight=False)
    console().print(
        f"wrote {file}; its text: gravbench learn show {name}{_chosen(toolkit)}", markup=False, highlight=False
    )
    _say_next(f"Next: edit {file}, then: gravbench learn check {file}")


@learn.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Your kernel, named after its exercise: tiles.cu, tiles.py.")
    ],
    name: Annotated[str | None, typer.Option("--exercise", metavar="NAME", help="The exercise it is for.")] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Time it on this GPU, such as cuda:0 (default: the first, if there is one)."),
    ] = None,
    progress: ProgressFile = None,
    thresholds: ThresholdsFile = None,
    as_json: AsJson = False,
) -> None:
    """Check your kernel: wrong because, right but, or right and as good as the rung.

    It is emulated thread by thread, in Numba CUDA by Numba's simulator, and what an interaction costs is counted in its
    machine code. Where there is a GPU, a kernel in CUDA C is timed beside the rung. Exit code 1 unless it is as good as
    the rung.
    """
    from gravbench.config.document import text_of
    from gravbench.judging.emulating import EmulatedLauncher
    from gravbench.judging.entry import MOST_BYTES
    from gravbench.learning import checking, shown
    from gravbench.learning.exercises import ending_of, exercise, of_file
    from gravbench.learning.progress import attempt, changing
    from gravbench.learning.thresholds import thresholds as read_thresholds
    from gravbench.learning.timing_beside import times_beside
    from gravbench.report.terminal.sections import render_sections
    from gravbench.sandbox.confined import protections
    from gravbench.toolkits.devices import select

    gpu = next((known for known in select([device] if device else [])[0] if known.is_gpu), None)
    of_exercise = exercise(name) if name else of_file(file)
    text, limits = text_of(file, MOST_BYTES), read_thresholds(thresholds).of(of_exercise.name)
    for sentence in protections().missing:
        warn(sentence)
    with working(f"checking {file.name}"):
        checked = checking.check(of_exercise, file, text, limits, EmulatedLauncher())
        beside = (
            times_beside(checked, gpu) if gpu and checked.verdict != "wrong" and not checked.entry.is_python else None
        )
    if beside and beside.wrong:
        checked = replace(checked, verdict="wrong", sentence=f"on {beside.device}, {beside.wrong}")
    with changing(_path(progress)) as known:
        work = known.of(of_exercise.name)
        work.attempts.append(attempt(text, checked.verdict, checked.sentence, ending_of(file)))
    if as_json:
        typer.echo(json.dumps(shown.as_json(checked, limits, work, beside), indent=2))
    else:
        render_sections(shown.result(checked, limits, beside), console())
        _say_next(shown.next_after(checked, work))
    raise typer.Exit(0 if checked.verdict == "good" else 1)


@learn.command()
def hint(name: Name, toolkit: ToolkitOption = None, progress: ProgressFile = None) -> None:
    """Open the next hint of an exercise, and show those that are open."""
    from gravbench.learning.exercises import exercise
    from gravbench.learning.progress import changing

    ending = _ending(toolkit)
    hints = exercise(name).hints(ending)
    with changing(_path(progress)) as known:
        work = known.of(name)
        work.hints = min(work.hints + 1, len(hints))
    for number, sentence in enumerate(hints[: work.hints], 1):
        console().print(f"{number}. {sentence}", markup=False, highlight=False)
    more = (
        f"one more hint: gravbench learn hint {name}{_chosen(toolkit)}"
        if work.hints < len(hints)
        else "there are no more hints"
    )
    _say_next(f"Next: gravbench learn check {name}{ending}; {more}")


@learn.command()
def show(
    name: Name,
    solution: Annotated[bool, typer.Option("--solution", help="Print our solution, after a first attempt.")] = False,
    toolkit: ToolkitOption = None,
    progress: ProgressFile = None,
) -> None:
    """Show the text of an exercise, or our solution."""
    from gravbench.learning.exercises import exercise

    of_exercise = exercise(name)
    if solution:
        _show_solution(of_exercise, _ending(toolkit), _path(progress))
        return
    from rich.markdown import Markdown

    from gravbench.learning.progress import read

    text = of_exercise.page + ("\n" + of_exercise.in_numba if toolkit else "")
    console().print(Markdown(text))
    file = f"{name}{_ending(toolkit)}"
    has_begun = Path(file).exists() or read(_path(progress)).of(name).has_attempt(_ending(toolkit))
    _say_next(f"Next: gravbench learn {f'check {file}' if has_begun else f'start {name}{_chosen(toolkit)}'}")


def _show_solution(of_exercise: Exercise, ending: str, path: Path) -> None:
    from gravbench.learning.progress import changing, read

    name, solution = of_exercise.name, of_exercise.solution(ending)
    if name not in (known := read(path)).exercises or not known.of(name).attempts:
        raise InputError(
            f"{name} has no attempt yet; our solution is shown behind gravbench learn check {name}{ending}"
        )
    with changing(path) as changed:
        changed.of(name).solution_shown = True
    typer.echo(solution, nl=False)


@learn.command("class")
def class_(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Has a folder for each student, with EXERCISE.cu or .py.")
    ],
    thresholds: ThresholdsFile = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page to this file, too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the submissions of a class: one table, and pairs that are nearly the same.

    FOLDER/STUDENT/EXERCISE.cu, or EXERCISE.py, is a submission; FOLDER/STUDENT/progress.json, where there is one, has
    the attempts.
    """
    from gravbench.judging.emulating import EmulatedLauncher
    from gravbench.learning import classroom
    from gravbench.learning.thresholds import thresholds as read_thresholds
    from gravbench.report.terminal.sections import render_sections
    from gravbench.sandbox.confined import protections

    limits = read_thresholds(thresholds)
    for sentence in protections().missing:
        warn(sentence)
    with working(f"checking {folder}") as say:
        result = classroom.read_class(folder, limits, EmulatedLauncher(), say)
    if html is not None:
        with writing(html):
            html.write_text(classroom.page(result), "utf-8")
    if as_json:
        typer.echo(json.dumps(classroom.as_json(result), indent=2))
    else:
        render_sections(classroom.sections(result), console())
    if html is not None:
        console(stderr=as_json).print(f"wrote {html}", markup=False, highlight=False, soft_wrap=True)


def _ending(toolkit: Toolkit | None) -> str:
    """Return the ending of the files of a toolkit."""
    from gravbench.judging.entry import PYTHON
    from gravbench.model.stem_code import CUDA_C

    return PYTHON if toolkit else CUDA_C


def _chosen(toolkit: Toolkit | None) -> str:
    """Return what the commands of an exercise end with."""
    from gravbench.learning.shown import IN_NUMBA_CHOSEN

    return IN_NUMBA_CHOSEN if toolkit else ""


def _path(given: Path | None) -> Path:
    from gravbench.learning.progress import usual_path

    return given or usual_path()


def _say_next(sentence: str) -> None:
    tell(console(), f"\n{sentence}")
