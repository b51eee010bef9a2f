"""What a student sees: the list of exercises and the result of a check, as sections; and the next step, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gravbench.judging.cost import ARCHITECTURE
from gravbench.judging.entry import PYTHON
from gravbench.judging.judged import Costed, Judged
from gravbench.judging.judged import as_json as judgement_json
from gravbench.learning.checking import Checked
from gravbench.learning.exercises import IN_NUMBA, Exercise, exercises
from gravbench.learning.grading import Compared, compared
from gravbench.learning.progress import Progress, Verdict, Work
from gravbench.learning.thresholds import Limits
from gravbench.learning.times import AS_FAST
from gravbench.learning.timing_beside import Beside
from gravbench.model.stem_code import CUDA_C
from gravbench.report.section import Column, Part, Section, Table

WORDS: dict[Verdict | None, str] = {
    "wrong": "wrong",
    "right": "right, but costs more",
    "good": "done",
    None: "",
}
BEGINNINGS: dict[Verdict, str] = {"wrong": "Wrong because", "right": "Right, but", "good": "Right, and"}
COLOURS: dict[Verdict, str] = {"wrong": "red", "right": "yellow", "good": "green"}
BY_COUNTS = f"Graded by what is counted in the machine code for {ARCHITECTURE}, not by time."
IN_NUMBA_CHOSEN = " --toolkit numba"
"""What the commands of an exercise end with that is done in Numba CUDA."""
INSTALLED = "install"
"""A word of reasons that go away when something is installed."""
DISAGREE = 'Counted {} {}, timed {}: see "How long it takes" in gravbench learn show {}'


def listed(progress: Progress) -> Section:
    """Show all exercises and how far each is."""
    rows = [(each, progress.exercises.get(each.name, Work())) for each in exercises()]
    columns: list[Column[tuple[Exercise, Work]]] = [
        Column("", lambda row: str(row[0].number)),
        Column("exercise", lambda row: row[0].name, text=True),
        Column("what it is", lambda row: row[0].about.title, 3, text=True),
        Column("rung", lambda row: row[0].about.rung, 2, text=True),
        Column("attempts", lambda row: str(len(row[1].attempts) or ""), 1),
        Column("hints", lambda row: f"{row[1].hints} of {len(row[0].about.hints)}" if row[1].hints else "", 1),
        Column("result", lambda row: WORDS[row[1].best], text=True),
    ]
    reading = "Write each kernel yourself; no GPU is needed. Each is set against a rung of the ladder."
    return Section("exercises", "The course", reading, [Part(table=Table(columns, rows))])


def next_in_list(progress: Progress) -> str:
    """Name the first exercise that is not done."""
    for each in exercises():
        work = progress.exercises.get(each.name, Work())
        if work.best != "good":
            ending = progress.ending if progress.ending in each.endings else CUDA_C
            if work.attempts:
                return f"Next: gravbench learn check {each.name}{ending}"
            return f"Next: gravbench learn start {each.name}{IN_NUMBA_CHOSEN if ending == PYTHON else ''}"
    return "All exercises are done. To measure kernels of your own: gravbench new my_kernel"


def result(checked: Checked, limits: Limits, beside: Beside | None = None) -> Iterator[Section]:
    """Show what came of a check, and of the time ``beside`` that of the rung, where it was timed."""
    title = f"{checked.entry.path.name}: {WORDS[checked.verdict]}"
    sentence = f"{BEGINNINGS[checked.verdict]} {checked.sentence}"
    sentence += "" if sentence.endswith("?") else "."
    yield Section(
        "verdict",
        title,
        "",
        [Part(lines=[sentence], style=lambda _: COLOURS[checked.verdict])],
        [*_disagreement(checked, beside), *_notes(checked)],
    )
    if checked.counts and checked.of_rung:
        rows = compared(checked.counts, checked.of_rung, limits)
        yield Section("counts", "What is counted", BY_COUNTS, [Part(table=Table(_columns(checked), rows))])
    if beside and not beside.wrong:
        yield Section("time", "How long it takes", "", [Part(lines=[beside.sentence])])


def _disagreement(checked: Checked, beside: Beside | None) -> list[str]:
    """Say that what is counted and the time differ, where they do."""
    if beside is None or beside.ratio is None or checked.counts is None:
        return []
    if (beside.ratio <= AS_FAST) == (checked.verdict == "good"):
        return []
    counted = "as good as" if checked.verdict == "good" else "as less good than"
    return [DISAGREE.format(counted, beside.rung_name, beside.verdict, checked.exercise.name)]


def _notes(checked: Checked) -> Sequence[str]:
    if checked.not_counted:
        return [f"not counted: {checked.not_counted}"]
    return [
        f"also: {difference.sentence}" for difference in checked.differences if difference.sentence != checked.sentence
    ]


def _columns(checked: Checked) -> Sequence[Column[Compared]]:
    rung = checked.of_rung.name if checked.of_rung else ""
    return (
        Column("count", lambda row: row.what, text=True),
        Column("yours", lambda row: row.submission),
        Column(rung, lambda row: row.rung),
        Column("accepted", lambda row: row.accepted, text=True),
        Column("", lambda row: "" if row.within else "beyond", text=True, style="yellow"),
    )


def next_after(checked: Checked, work: Work) -> str:
    """Name the next step after a check."""
    name, file = checked.exercise.name, checked.entry.path
    choice = IN_NUMBA_CHOSEN if checked.entry.is_python else ""
    if checked.verdict == "good":
        following = checked.exercise.next_name
        if following not in IN_NUMBA:
            choice = ""
        return f"Next: gravbench learn start {following}{choice}" if following else next_in_list(Progress())
    if checked.not_counted and INSTALLED in checked.not_counted:
        extra = "numba-cuda" if checked.entry.is_python else "explain"
        return f"Next: pip install 'gravbench[{extra}]', and again: gravbench learn check {file}"
    hint = f"gravbench learn hint {name}{choice}" if work.hints < len(checked.exercise.about.hints) else ""
    help_words = f"; for help: {hint}" if hint else f"; our solution: gravbench learn show {name} --solution{choice}"
    return f"Next: change it, and again: gravbench learn check {file}{help_words}"


def as_json(checked: Checked, limits: Limits, work: Work, beside: Beside | None = None) -> dict[str, Any]:
    """Return all that is known of a check, for programs."""
    counts = compared(checked.counts, checked.of_rung, limits) if checked.counts and checked.of_rung else []
    judged = judgement_json(Judged(checked.judgement, "emulated", (Costed(checked.entry.path.name, None),)))
    return {
        "exercise": checked.exercise.name,
        "file": str(checked.entry.path),
        "verdict": checked.verdict,
        "sentence": checked.sentence,
        "rung": checked.exercise.about.rung,
        "graded_by": f"counts for {ARCHITECTURE}",
        "counts": [asdict(count) for count in counts],
        "differences": [asdict(difference) for difference in checked.differences],
        "not_counted": checked.not_counted,
        "time": beside
        and {
            "device": beside.device,
            "n": beside.n,
            "seconds": beside.submission.seconds,
            "rung_seconds": beside.rung.seconds,
            "wrong": beside.wrong,
        },
        "sizes": judged["sizes"],
        "seed": judged["seed"],
        "attempts": len(work.attempts),
        "hints": work.hints,
    }


def progress_json(progress: Progress) -> list[dict[str, Any]]:
    """Return the list of exercises, for programs."""
    rows = []
    for each in exercises():
        work = progress.exercises.get(each.name, Work())
        rows.append(
            {
                "exercise": each.name,
                "title": each.about.title,
                "rung": each.about.rung,
                "result": work.best,
                "attempts": len(work.attempts),
                "hints": work.hints,
                "solution_shown": work.solution_shown,
            }
        )
    return rows
