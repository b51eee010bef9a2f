"""A finding is judged by the newest run that has its cases: where it cites an older one, the two have to agree.

Two runs agree on a ratio or a time if their intervals, the scatter of their anchors included, leave room for it; on a
verdict unless the newer run is sure of another; on anything else up to one unit of the last digit that is written.

A ratio or verdict of two cases at one n says nothing of other n. If a newer run has the same two at other n only, and
is sure of another verdict there, the paragraph has to name that run, too.
"""

import math
import re
import sys
from collections.abc import Iterable
from functools import cache
from itertools import repeat

import pytest

from conftest import ROOT
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.verdicts.compare import Verdict
from gravbench.verdicts.ranking import is_ranked
from gravbench.verdicts.uncertainty import Uncertainties
from test_findings import TOLD, Told, WrongError, compared, figure, is_timed, reach, record_of, references, run

RUNS = sorted(str(path.parent.relative_to(ROOT / "reports")) for path in (ROOT / "reports").glob("*/*/records.jsonl"))
DECIDED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME)


def kind_of(record: Record) -> str:
    """Name the kind of a record's device, whichever cards of it shared the cases."""
    return (record.device or "").partition(" (one of")[0]


@cache
def by_case(name: str) -> dict[object, Record]:
    """Return the results of a run by case and kind of device."""
    return {(record.identity, kind_of(record)): record for record in run(name)[0] if is_ranked(record)}


@cache
def by_pair(name: str) -> dict[object, dict[int, Record]]:
    """Return the results of a run by case without its n, then by n."""
    found: dict[object, dict[int, Record]] = {}
    for record in by_case(name).values():
        found.setdefault(without_n(record), {})[record.n] = record
    return found


def without_n(record: Record) -> tuple[str, str]:
    return record.model_copy(update={"n": 1}).key, kind_of(record)


def started(records: Iterable[Record]) -> str:
    return max(record.started for record in records)


def parts(told: Told) -> tuple[str, str, list[Record]]:
    """Return the run, the quantity or verdict, and the records that a reference names."""
    where, _, what = told.source.partition(": ")
    kind, _, cases = what.partition(": ") if re.match(r"[A-Z]+: ", what) else what.partition(" of ")
    return where, kind, [record_of(where, words) for words in cases.split(" / ")]


def newest(where: str, kind: str, records: list[Record]) -> tuple[str, list[Record]]:
    """Return the newest run that has all cases and the quantity, and its records."""
    known = [(started(records), where, records)]
    for name in RUNS:
        there = [by_case(name).get((record.identity, kind_of(record))) for record in records]
        same = [record for record in there if record is not None]
        if len(same) == len(records) and has(name, kind, same) and all(map(of_as_many, same, records, repeat(kind))):
            known.append((started(same), name, same))
    return max(known, key=lambda entry: entry[0])[1:]


def of_as_many(new: Record, old: Record, kind: str) -> bool:
    """Tell whether a newer error is of no fewer bodies: that of a sample does not replace that of all bodies."""
    return not kind.startswith("error") or (new.error_rows or 0) >= (old.error_rows or 0)


def has(name: str, kind: str, records: list[Record]) -> bool:
    try:
        for record in records:
            if kind not in Verdict.__members__:
                figure(record, kind)
                reach(name, record, kind)
    except WrongError:
        return False
    return True


def value_of(name: str, kind: str, records: list[Record]) -> tuple[float, float]:
    """Return a quantity, or the ratio of two, and half its interval in logarithms; NaN where it has none."""
    if kind in ("speed", "time") and len(records) == 2:
        pair = compared(name, *records)
        ratio = pair.interval.ratio if kind == "time" else 1 / pair.interval.ratio
        return ratio, math.log1p(pair.interval.half_width)
    value = figure(records[0], kind) / (figure(records[1], kind) if len(records) == 2 else 1)
    return value, math.hypot(*(reach(name, record, kind) for record in records)) if is_timed(kind) else math.nan


def disagreement(told: Told) -> str | None:
    """Return what the newest run with a reference's cases says instead, or None."""
    where, kind, records = parts(told)
    name, there = newest(where, kind, records)
    if name == where:
        return None
    if kind in Verdict.__members__:
        verdict = compared(name, *there).verdict
        return f"reports/{name} is newer: {verdict}" if verdict in DECIDED and verdict != kind else None
    (old, old_reach), (new, new_reach) = value_of(where, kind, records), value_of(name, kind, there)
    if math.isnan(old_reach):
        assert told.number is not None
        mantissa, _, exponent = told.number.replace(",", "").partition("e")
        unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) / {" %": 100}.get(told.unit or "", 1)
        agree = abs(new - old) <= unit
    else:
        agree = abs(math.log(new / old)) <= math.hypot(old_reach, new_reach)
    return None if agree else f"reports/{name} is newer: {new:.4g} instead of {old:.4g}"


def stated_verdict(told: Told, kind: str) -> str | None:
    """Return the verdict that a reference to two cases states, by its word or by its number."""
    if kind in Verdict.__members__:
        return kind
    if kind not in ("speed", "time") or told.number is None:
        return None
    return Verdict.FASTER if (float(told.number) > 1) == (kind == "speed") else Verdict.SLOWER


def elsewhere(told: Told, paragraph: list[Told]) -> str | None:
    """Return the newer run that is sure of another verdict at other n and that the paragraph does not name, or None."""
    _, kind, records = parts(told)
    if len(records) != 2 or records[0].n != records[1].n or not (stated := stated_verdict(told, kind)):
        return None
    keys = list(map(without_n, records))
    known = {name: both for name in RUNS if (both := pairs(name, keys))}
    if not known:
        return None
    name = max(known, key=lambda run_name: started(record for two in known[run_name].values() for record in two))
    if records[0].n in known[name] or started(records) > started(two[0] for two in known[name].values()):
        return None
    found = {n: compared(name, *two).verdict for n, two in known[name].items()}
    others = {n: verdict for n, verdict in found.items() if verdict in DECIDED and verdict != stated}
    if not others or any(one.source.startswith(f"{name}: ") and names(one, keys) for one in paragraph):
        return None
    said = ", ".join(f"{verdict} at n={n:,}" for n, verdict in others.items())
    return f"reports/{name} is newer and the paragraph does not name it: {said}"


def pairs(name: str, keys: list[tuple[str, str]]) -> dict[int, list[Record]]:
    """Return the two cases of a run at each n at which it has both; none where it repeated no anchor of their work."""
    sizes = [by_pair(name).get(key, {}) for key in keys]
    both = {n: [size[n] for size in sizes] for n in sorted(sizes[0].keys() & sizes[1].keys())}
    anchored = not any(run(name)[1].wider(*two).substitute for two in both.values())
    return both if anchored else {}


def names(told: Told, keys: list[tuple[str, str]]) -> bool:
    """Tell whether a reference is to the same two cases, whatever their n."""
    return list(map(without_n, parts(told)[2])) == keys


MEASURED = [
    told for told in TOLD if not told.source.startswith("published: ") and "/ceilings: " not in f"/{told.source}"
]


def wrong(told: Told, paragraph: list[Told]) -> str | None:
    """Return what is stale in a reference, with its sentence, or None."""
    why = disagreement(told) or elsewhere(told, paragraph)
    return f"{told.document} says: {told.sentence}\n{told.number or ''} <!-- {told.source} -->: {why}" if why else None


@pytest.mark.parametrize("told", MEASURED, ids=str)
def test_the_newest_run_that_has_the_cases_says_the_same(told):
    paragraph = [other for other in MEASURED if (other.document, other.sentence) == (told.document, told.sentence)]
    assert (found := wrong(told, paragraph)) is None, found


@pytest.mark.parametrize("case", ["tiled {} n=65536 p=256 unroll=32", "barnes_hut {} n=65536"])
def test_two_cases_of_a_run_are_asked_about_where_it_has_an_anchor_of_their_work(case, monkeypatch):
    name = "h100/ladder"
    both = [record_of(name, case.format(toolkit)) for toolkit in ("cupy", "pycuda")]
    keys = list(map(without_n, both))
    assert both[0].n in pairs(name, keys)
    others = [
        record
        for record in RecordFile(ROOT / "reports" / name).read()
        if not record.anchor or record.work != both[0].work
    ]
    without_anchor = (run(name)[0], Uncertainties([others]))
    monkeypatch.setattr(sys.modules[__name__], "run", lambda _: without_anchor)
    assert pairs(name, keys) == {}


FEW = "split cupy n=8192 / tiled cupy n=8192"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # A later run is sure that split is as fast at another n.
        (f"Faster <!-- h100/ladder: FASTER: {FEW} -->.", "h100/fastest is newer and the paragraph does not"),
        (
            f"Faster <!-- h100/ladder: FASTER: {FEW} -->, or as fast "
            "<!-- h100/fastest: SAME: split cupy n=262144 / tiled cupy n=262144 -->.",
            None,
        ),
        (
            "It is 3.16 <!-- h100/ladder: speed of split cupy n=1024 / tiled cupy n=1024 --> times as fast.",
            "h100/fastest is newer: 3.079 instead of 3.163",
        ),
        ("It is 1.85 <!-- h200/languages: speed of tiled cupy n=65536 / naive cupy n=65536 --> times as fast.", None),
        (
            "Its error: 4.9e-3 <!-- h200/arena: error_p99 of resident_tree cupy n=1048576 bodies=plummer part=0.01 "
            "moments=monopole -->",
            None,
        ),
    ],
)  # fmt: skip
def test_a_stale_finding_is_found(text, answer):
    paragraph = references("x.md", text)
    found = wrong(paragraph[0], paragraph)
    assert (found is None) == (answer is None), found
    if answer:
        assert answer in found
