"""Why a verdict is UNCLEAR, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gravbench.model.work import Work


class Reason(StrEnum):
    """Why a verdict is UNCLEAR and what to do about it, or what to know about another verdict."""

    ALONE = (
        "nothing shows how much processes differ: one process measured each side, and no anchor was measured by "
        "several; measure both again, with measure.processes of 4 or more, or with anchors"
    )
    NO_ANCHOR_OF_GPU = (
        f"no anchor of work on {Work.GPU} in one run or both, so nothing shows how much processes differ: measure both "
        "again, with measure.processes of 4 or more, or with anchors"
    )
    NO_ANCHOR_OF_HOST = (
        f"no anchor of work on {Work.HOST} in one run or both, so nothing shows how much processes differ: measure "
        "both again, with measure.processes of 4 or more"
    )
    NO_ANCHOR_OF_BOTH = (
        f"no anchor of work on {Work.BOTH} in one run or both, so nothing shows how much processes differ: measure "
        "both again, with measure.processes of 4 or more, or with anchors"
    )
    HOST = (
        "one process measured each side: on a CPU, processes of one kernel may differ by far more than those of the "
        "anchor, especially on a busy machine; measure both again, with measure.processes of 4 or more"
    )
    WITHIN = "as far as the records tell, this holds within one process of one run: another process may differ by more"
    FEW = (
        "fewer than 7 samples on one side, which cannot bound a median with enough confidence: "
        "raise measure.budget_seconds"
    )
    DEPENDENT = (
        "the samples depend on each other and are worth too few independent ones: "
        "raise measure.budget_seconds, or measure on a quiet machine"
    )
    OUTRACED = (
        "outraced on one side: sampling stopped once it was clear that another case is faster, so its time is not "
        "known; measure it in full, with --search all --resume"
    )
    CLOCK = "the clock changed: the verdicts on seconds and on clock cycles differ; fix the clock to make them agree"
    THROTTLED = "the device lowered its clock meanwhile: let it cool, or fix a lower clock"
    LAUNCH = "launch-bound: the device waited for the host, so this is the time of the host; use a larger n"
    PROCESSES = "the processes that measured this case differ by more than its samples: raise measure.processes"
    DRIFT = (
        "the anchors of such work scatter more between processes than this case's samples: measure again, on a quiet "
        "machine or with measure.processes of 4 or more"
    )
    WIDE = "the interval is wider than the threshold: take more samples by raising measure.budget_seconds"
    NEAR = "the interval contains the threshold: take more samples, or use another --threshold"
    NO_CLOCK = "no clock was recorded: the number of cycles is unknown, so only seconds are judged"
    DEVICES = "two devices: cycles are not compared, only seconds are judged"


NO_ANCHOR: Mapping[Work, Reason] = {
    Work.GPU: Reason.NO_ANCHOR_OF_GPU,
    Work.HOST: Reason.NO_ANCHOR_OF_HOST,
    Work.BOTH: Reason.NO_ANCHOR_OF_BOTH,
}
"""That of a kind of work of which a run repeated no anchor."""
