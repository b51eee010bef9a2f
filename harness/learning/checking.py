"""Check a submission: wrong because, right but, or right and as good as the rung."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gravbench.errors import InputError
from gravbench.judging.cost import NO_LOOP, NoCostError, RefusedError, cost_of
from gravbench.judging.entry import Entry, entry_of
from gravbench.judging.export import exported
from gravbench.judging.judgement import Judgement, Sized, judge, usual_sizes
from gravbench.judging.launching import Launcher
from gravbench.learning.exercises import Exercise, ending_of, exercise
from gravbench.learning.grading import ROOT, Counted, Difference, counted, differences, not_mutual
from gravbench.learning.progress import Verdict
from gravbench.learning.thresholds import Limits
from gravbench.model.stem_code import CUDA_C
from gravbench.model.variant import discover

UNEXPLAINED = "no known mistake explains it"
"""What a judgement says of a result for which it has no likely cause."""
LOCAL_ARRAY = re.compile(r"^[ \t]*(?:float|double|int)[1-4]?\s+(\w+)\s*\[[^\[\]]+\]\s*;", re.MULTILINE)
"""A declaration in CUDA C without ``__shared__``."""
COMPILING = ("compile", "unknown function")
"""Kinds of faults of a text that no compiler accepts."""
OTHERS_RIGHT = "and the others right"
"""How a judgement ends that knows nothing but the wrong rows."""


@dataclass(frozen=True)
class Checked:
    """What came of a submission: the verdict and the sentence behind it, the judgement and what was counted.

    ``counts`` and ``of_rung`` are None, and ``not_counted`` says why, where the result is wrong or machine code cannot
    be counted here.
    """

    exercise: Exercise
    entry: Entry
    judgement: Judgement
    verdict: Verdict
    sentence: str
    differences: tuple[Difference, ...] = ()
    counts: Counted | None = None
    of_rung: Counted | None = None
    not_counted: str = ""


def check(of_exercise: Exercise, path: Path, text: str, limits: Limits, launcher: Launcher) -> Checked:
    """Judge a submission and set its counts against those of the rung.

    Raises:
        InputError: its head is not accepted, or says something else than the exercise does.
    """
    entry = entry_of(path, text)
    _check_head(of_exercise, entry)
    judgement = judge(entry, launcher, usual_sizes(entry))
    if judgement.right and (n := of_exercise.about.error_at):
        more = judge(entry, launcher, [n], seed=judgement.seed)
        judgement = replace(judgement, sizes=(*judgement.sizes, *more.sizes))
    if not judgement.right:
        return Checked(of_exercise, entry, judgement, "wrong", why_wrong(judgement))
    try:
        cost = cost_of(entry)
        rung = rung_of(of_exercise.name, ending_of(path))
    except RefusedError as error:
        return Checked(of_exercise, entry, judgement, "wrong", f"it does not compile for a GPU: {error}")
    except NoCostError as error:
        sentence = "its cost could not be counted here"
        if str(error) == NO_LOOP and entry.is_python and ROOT.search(entry.text):
            sentence += "; use rsqrtf of numba.cuda.libdevice in the place of 1 / math.sqrt"
        return Checked(of_exercise, entry, judgement, "right", sentence, not_counted=str(error))
    counts = counted(path.name, entry, cost, _error(judgement))
    beyond_limits = tuple(differences(counts, rung, limits))
    claim = not_mutual(entry, cost)
    if claim or beyond_limits:
        return Checked(
            of_exercise, entry, judgement, "right", claim or beyond_limits[0].sentence, beyond_limits, counts, rung
        )
    called = "which" if rung.name == of_exercise.about.rung else f"and {of_exercise.about.rung}"
    called += " in CUDA C" if entry.is_python else ""
    sentence = f"as good as {rung.name}, {called} takes {of_exercise.time_of_rung}"
    return Checked(of_exercise, entry, judgement, "good", sentence, (), counts, rung)


def rung_entry(name: str, ending: str = CUDA_C) -> Entry:
    """Return the rung of an exercise as an entry; our solution stands for what cannot be written as one."""
    of_name = exercise(name)
    variant = discover()[of_name.about.rung]
    if ending == CUDA_C and not variant.approximates:
        return entry_of(Path(f"{variant.name}{ending}"), exported(variant))
    return entry_of(Path(f"our solution{ending}"), of_name.solution(ending))


@cache
def rung_of(name: str, ending: str = CUDA_C) -> Counted:
    """Count the rung of an exercise.

    Raises:
        NoCostError: its machine code cannot be counted here.
    """
    entry = rung_entry(name, ending)
    return counted(entry.path.stem, entry, cost_of(entry))


def why_wrong(judgement: Judgement) -> str:
    """Say why a result is wrong, by the largest number of bodies for which the cause is known."""
    wrong = [size for size in judgement.sizes if not size.right]
    size = max(wrong, key=lambda size: (size.fault is not None, _is_known(size), size.n))
    local = "" if size.fault else _filled_alone(judgement.entry)
    return _why(replace(size, cause=local) if local else size)


def _filled_alone(entry: Entry) -> str:
    """Say that an array of which a thread fills its own place is one of that thread alone, where there is one."""
    for array in LOCAL_ARRAY.finditer(entry.text):
        if re.search(rf"\b{array[1]}\s*\[\s*threadIdx\.x\s*\]\s*=[^=]", entry.text):
            line = entry.text.count("\n", 0, array.start(1)) + 1
            return f"{array[1]} in line {line} is declared without __shared__: each thread has one, and fills one place"
    return ""


def _is_known(size: Sized) -> bool:
    """Tell whether a cause is known, beyond which rows are wrong."""
    return size.cause != UNEXPLAINED and not size.cause.endswith(OTHERS_RIGHT)


def _why(size: Sized) -> str:
    begin = f"with {size.n:,} {'body' if size.n == 1 else 'bodies'}, "
    if size.fault is not None:
        at = (
            f", line {size.fault.line}"
            if size.fault.line and f"line {size.fault.line}" not in size.fault.sentence
            else ""
        )
        # What does not compile does so for no number of bodies.
        begin = "" if size.fault.kind in COMPILING else begin
        rows = f" has {size.n} row{'' if size.n == 1 else 's'}"
        why = ": no thread may use an index from n on" if size.fault.sentence.endswith(rows) else ""
        return f"{begin}{size.fault.sentence}{at}{why} ({size.fault.kind})"
    known = size.cause if size.cause != UNEXPLAINED else ""
    if known.endswith(OTHERS_RIGHT):
        return f"{begin}{known}: {size.wrong}"
    if known:
        return f"{begin}{known}" if known.startswith("rows") else f"{begin}{known}; wrong rows: {size.bodies}"
    return f"{begin}{size.wrong}; wrong rows: {size.bodies}; {UNEXPLAINED}"


def _check_head(exercise: Exercise, entry: Entry) -> None:
    """Refuse a head that would be judged by other rules than those of the exercise."""
    ending = ending_of(entry.path)
    given = entry_of(Path(f"skeleton{ending}"), exercise.skeleton(ending)).head
    for key in ("error", "precision"):
        if getattr(entry.head, key) != getattr(given, key):
            accepted = getattr(given, key) if getattr(given, key) is not None else "no such key"
            raise InputError(f"{entry.path}: {key} is {getattr(entry.head, key)}; accepted: {accepted}")
    solution = entry_of(Path(f"solution{ending}"), exercise.solution(ending)).head
    if entry.head.mutual and not solution.mutual:
        raise InputError(f"{entry.path}: mutual is true; accepted: false, as {exercise.name} computes each pair twice")


def _error(judgement: Judgement) -> float | None:
    """Return the rms error at the largest number of bodies."""
    errors = max(judgement.sizes, key=lambda size: size.n).errors
    return errors.error_magnitude_rms if errors else None
