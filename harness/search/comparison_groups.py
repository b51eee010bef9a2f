"""Which cases compete: those that compute the same, so that the faster of two is the better."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from gravbench.model.case import CONDITIONS, Case, brief, word
from gravbench.model.variant import CPU, Variant
from gravbench.verdicts.ranking import TOLD

APPROXIMATING = ("theta", "fraction")
"""Axes that say how coarse an approximation is."""


def contest(case: Case, variants: Mapping[str, Variant]) -> Hashable:
    """Name the contest of a case: equal for cases of one n, one task and one kind of device that compute the same.

    Bodies, number type, interaction and what is timed are the task. What presupposes equal masses or leaves terms out
    competes with its like. An approximation competes with other configurations of its variant that are as coarse:
    against an exact sum its error would have to count too. ``variants`` say which approximate.
    """
    return case.toolkit == CPU, case.n, *case.conditions.items(), *alike(case, variants)


def alike(case: Case, variants: Mapping[str, Variant]) -> tuple[str, ...]:
    """Say, beside n and the task, what all cases of a contest share: nothing of most."""
    known = variants.get(case.variant)
    approximates = known is not None and known.approximates is not None
    coarse = APPROXIMATING if approximates else ()
    distinguishing = {
        name: at for name, at in case.axes.items() if name in coarse or (name in TOLD and at != TOLD[name])
    }
    return *([case.variant] if approximates else []), *(word(name, at) for name, at in sorted(distinguishing.items()))


def told_apart(cases: Sequence[Case], variants: Mapping[str, Variant]) -> list[str]:
    """Name the contest of each case by what sets it apart from the others of the same n.

    Of conditions, such as the dtype or the bodies, only those are named that differ: the text is empty where n says
    it all.
    """
    rivals: dict[int, list[Case]] = {}
    for case in cases:
        rivals.setdefault(case.n, []).append(case)
    return [", ".join(_apart(case, rivals[case.n], variants)) for case in cases]


def _apart(case: Case, rivals: Sequence[Case], variants: Mapping[str, Variant]) -> list[str]:
    differing = [name for name in CONDITIONS if len({rival.conditions.get(name) for rival in rivals}) > 1]
    values = [(name, case.conditions[name]) for name in differing if name in case.conditions]
    words = [word(name, brief(name, at) if isinstance(at, str) else at) for name, at in values]
    return words + ([" ".join(alike(case, variants))] if len(rivals) > 1 and alike(case, variants) else [])
