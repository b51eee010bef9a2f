"""More launches of what was right at first: several in a row, on other bodies, as they are timed."""

from __future__ import annotations

from time import perf_counter

from gravbench.measuring import checks
from gravbench.measuring.outcome import Found
from gravbench.measuring.timed import Timed
from gravbench.measuring.verify import Judge
from gravbench.model.case import Case
from gravbench.model.record import Errors
from gravbench.toolkits.interface import DeviceToolkit

IN_A_ROW = 5
"""Launches that are judged one after another before anything is timed, beside those on other bodies."""
QUICK = 0.1
"""Seconds of a launch up to which there are so many, and seconds after which no more of them follow."""


def launched_again(judge: Judge, found: Found) -> str | None:
    """Judge more launches: on other bodies, and several in a row; return what is wrong.

    Three in a row are judged at least: a fault in every second or third of them shows.
    """
    if objection := judge.elsewhere():
        return objection
    began = perf_counter()
    for _ in range(IN_A_ROW if judge.quickest < QUICK else 0):
        if objection := _kept(judge.launched(), found):
            return f"right at first, but in one of the next launches: {objection}"
        if perf_counter() - began > QUICK:
            break
    return None


def as_timed(case: Case, toolkit: DeviceToolkit, judge: Judge, timed: Timed, found: Found) -> str | None:
    """Judge what is timed, behind a held queue and as a call or step; return what is wrong.

    Nothing else may use the device: what it does would hide that a result arrives too early or too late.
    """
    if objection := checks.queue(toolkit, judge.prepared, judge.own):
        return objection
    if objection := timed.objection():
        return f"the force is right, but {objection}"
    if case.timed != "force" and (objection := left(judge, found)):
        return f"the force is right at first, but not in a {case.timed}: {objection}"
    return None


def left(judge: Judge, found: Found) -> str | None:
    """Judge what was launched last; return what is wrong."""
    return _kept(judge.verdict(quantiles=False), found)


def at_last(verdict: tuple[Errors, str | None], found: Found) -> str | None:
    """Return the objection to what came after all samples."""
    objection = _kept(verdict, found)
    return objection and f"right at first, but after the last launch: {objection}"


def _kept(verdict: tuple[Errors, str | None], found: Found) -> str | None:
    """Return the objection; errors that are wrong take the place of those at first."""
    errors, objection = verdict
    if objection:
        found.errors = errors
    return objection
