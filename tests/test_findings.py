"""What README and docs/ tell of measurements is what the committed records say.

A measured number is followed by a comment that names its records:

    2.76 <!-- h100/ladder: speed of tiled cupy n=1024 / naive cupy n=1024 -->
    9.7 ms ± 7 % <!-- h100/chamomile: time of chamomile cupy n=131072 interaction=gravity -->
    1.0e-6 <!-- h100/chamomile: error_max of chamomile cupy n=131072 interaction=gravity -->
    25.5 <!-- published: lee2008 -->
    1,800 <!-- h200/ceilings: clock_mhz of mma_mufu -->
    <!-- h100/ladder: UNCLEAR: numba_symmetric cpu n=16384 / numba_parallel cpu n=16384 -->

The run is a folder below reports. A case is a variant, a toolkit and whatever else tells its record from others; an
axis that is not named has its default. ``speed`` is interactions/s, ``time`` seconds, anything else a field of the
record or an entry of one (``counters.issue_slots``), or of a ceiling. ``compare`` has to call a ratio of speeds or
times FASTER or SLOWER, as the number says, the scatter of the run's anchor included. A speed, a time or a ratio of
them whose interval is wider than ± 5 % states how wide, followed by * as code where it lacks the scatter between
processes. What stands after ± is that of reports and ``compare``; a stage has that of its evaluation. A verdict instead
of a quantity states no number.
"""

import math
import re
from dataclasses import dataclass
from functools import cache

import pytest
import yaml

from conftest import ROOT
from gravbench.explain import peaks
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.verdicts.cards import together
from gravbench.verdicts.compare import THRESHOLD, Pair, Verdict, judge
from gravbench.verdicts.ranking import is_ranked
from gravbench.verdicts.uncertainty import Uncertainties

FINDINGS = "docs/findings.md"
TESTED_ELSEWHERE = {"docs/explanation/searching.md", "docs/explanation/judging.md"}
CHECKED = (
    "README.md",
    *sorted({str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")} - TESTED_ELSEWHERE),
)
WIDE = 0.05
"""Half the interval of a time, as a part of it, above which the interval has to be stated."""

NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
REFERENCE = re.compile(
    rf"(?:(?P<number>{NUMBER})(?P<unit> ms| %)?(?: ± (?P<width>[\d,]+) %(?P<narrow> `\*`)?)? )?"
    r"<!-- (?P<source>[^>]*?: .*?) -->"
)
GENERATED = re.compile(r"<!-- (ladder|printed|noise|languages|step|seeds): .*?<!-- end of \1 -->", re.DOTALL)
UNITS = {" ms": 1e3, " %": 1e2}


class WrongError(Exception):
    """A sentence says what its records do not."""


@dataclass(frozen=True)
class Told:
    """A reference in a document: the sentence around it, the number before it (None without one), what it names."""

    document: str
    sentence: str
    number: str | None
    unit: str | None
    width: str | None
    narrow: bool
    source: str

    def __str__(self) -> str:
        return f"{self.document}: {self.number or ''} {self.source}"


def prose(text: str) -> str:
    """Leave out what a command generates and blocks of code."""
    return re.sub(r"^```.*?^```$", "", GENERATED.sub("", text), flags=re.DOTALL | re.MULTILINE)


def references(document: str, text: str) -> list[Told]:
    """Return what a document refers to."""
    found = []
    for bullet in re.split(r"\n(?=- |\|)|\n\n", prose(text)):
        line = " ".join(bullet.split())
        sentence = re.sub(r" ?<!--.*?-->", "", line)
        found += [
            Told(
                document,
                sentence,
                match["number"],
                match["unit"],
                match["width"],
                bool(match["narrow"]),
                match["source"],
            )
            for match in REFERENCE.finditer(line)
            if not match["source"].startswith(("command: ", "code: "))
        ]
    return found


@cache
def run(name: str) -> tuple[list[Record], Uncertainties]:
    """Read a run below reports: one record a case, and the uncertainties that its anchors give."""
    (records,) = together([RecordFile(ROOT / "reports" / name).read()])
    return latest(records), Uncertainties([records])


def alike(value: object, word: str) -> bool:
    try:
        return float(word) == float(str(value))
    except ValueError:
        return str(value) == word


def record_of(name: str, words: str) -> Record:
    """Return the one record of a run that the words name."""
    variant, toolkit, *pairs = words.split()
    asked = dict(pair.split("=") for pair in pairs)
    defaults = discover()[variant].defaults if variant in discover() else {}

    def fits(record: Record) -> bool:
        stated = {**record.model_dump(include=set(asked)), **record.axes}
        return (
            (record.variant, record.toolkit) == (variant, toolkit)
            and all(key in stated and alike(stated[key], word) for key, word in asked.items())
            and all(record.axes.get(axis, own) == own for axis, own in defaults.items() if axis not in asked)
        )

    found = [record for record in run(name)[0] if fits(record)]
    if len(found) != 1:
        raise WrongError(f"reports/{name} has {len(found)} records of {words}; 1 is needed")
    if not is_ranked(found[0]):
        raise WrongError(f"the record of {words} in reports/{name} is {found[0].status}: {found[0].reason}")
    return found[0]


def compared(name: str, new: Record, base: Record) -> Pair:
    """Return what ``compare`` says of two records of a run."""
    return judge(base, new, run(name)[1].wider(base, new), THRESHOLD, one_run=True)


def is_timed(quantity: str) -> bool:
    """Tell whether a quantity follows from a time, so that it has an uncertainty."""
    return quantity in ("speed", "time") or quantity.startswith("stages_seconds.")


def is_narrow(name: str, quantity: str, records: list[Record]) -> bool:
    """Tell whether the uncertainty of a quantity, or of the ratio of two, lacks the scatter between processes."""
    if quantity in ("speed", "time") and len(records) == 2:
        return compared(name, *records).narrow
    return is_timed(quantity) and not all(map(run(name)[1].includes_processes, records))


def figure(record: Record, quantity: str) -> float:
    """Return a quantity of a record in its own unit."""
    name, _, entry = {"speed": "interactions_per_second", "time": "median_seconds"}.get(quantity, quantity).partition(
        "."
    )
    value = getattr(record, name, None)
    value = value.get(entry) if entry and value is not None else value
    if value is None:
        raise WrongError(f"the record of {record.variant} {record.toolkit} n={record.n} has no {quantity}")
    return float(value)


def reach(name: str, record: Record, quantity: str) -> float:
    """Return half the interval of one time or speed in logarithms; 0 of errors."""
    if not is_timed(quantity):
        return 0.0
    found = run(name)[1].reach(record)
    if found is None:
        raise WrongError(
            f"{len(record.samples_seconds)} samples do not bound the time of {record.variant} n={record.n}"
        )
    return found


def half_width(name: str, record: Record, quantity: str) -> float:
    """Return half the interval of one time or speed as a part of it, which is what reports print; 0 of errors."""
    return math.sinh(reach(name, record, quantity))


def ratio_of(name: str, quantity: str, base: Record, new: Record, stated: float) -> tuple[float, float]:
    """Return NEW over BASE and half its interval as a part of it.

    Raises:
        WrongError: it is one of speeds or times, and the records do not tell which is faster as the number does.
    """
    value, wide = figure(new, quantity) / figure(base, quantity), 0.0
    if quantity == "speed":  # of two approximations, each evaluation counts once, whatever it computes
        value = figure(base, "time") / figure(new, "time")
        if base.n != new.n:
            raise WrongError(f"n={new.n} and n={base.n}: their speeds have no ratio")
    if quantity in ("speed", "time"):
        pair = compared(name, new, base)
        if pair.verdict is not (Verdict.FASTER if (stated > 1) == (quantity == "speed") else Verdict.SLOWER):
            low, high = pair.interval.low, pair.interval.high
            raise WrongError(f"compare calls it {pair.verdict} (times are {low:.4g} to {high:.4g} of each other)")
        wide = (pair.interval.high - pair.interval.low) / 2 / pair.interval.ratio
    elif quantity.startswith("stages_seconds."):
        both = math.hypot(reach(name, base, quantity), reach(name, new, quantity))
        if abs(math.log(value)) < both:
            raise WrongError("this ratio is within its interval")
        wide = math.sinh(both)
    return value, wide


def published(name: str) -> set[float]:
    """Return all numbers of a source's file, those in its sentences included."""
    text = (ROOT / "configs" / "published" / f"{name}.yaml").read_text("utf-8")
    return {float(word.replace(",", "")) for word in re.findall(NUMBER, str(yaml.safe_load(text)))}


def ceiling(folder: str, quantity: str, name: str) -> float:
    """Return a field of a ceiling in its own unit."""
    value = getattr(peaks.read(ROOT / "reports" / folder).by_name.get(name), quantity, None)
    if value is None:
        raise WrongError(f"reports/{folder} has no {quantity} of {name}")
    return float(value)


def check(told: Told) -> None:
    """Compute a number again from its records.

    Raises:
        WrongError: the records say something else, or nothing.
    """
    where, _, what = told.source.partition(": ")
    stated = float(told.number.replace(",", "")) if told.number else math.nan
    if where == "published":
        if stated not in published(what):
            raise WrongError(f"configs/published/{what}.yaml has no {told.number}")
        return
    if told.number and where.endswith("/ceilings"):
        quantity, _, name = what.partition(" of ")
        same(told, ceiling(where, quantity, name))
        return
    kind, _, cases = what.partition(": ") if re.match(r"[A-Z]+: ", what) else what.partition(" of ")
    records = [record_of(where, words) for words in cases.split(" / ")]
    if kind in Verdict.__members__:
        found = compared(where, *records).verdict
        if found is not Verdict(kind):
            raise WrongError(f"compare calls it {found}")
        return
    if told.number is None:
        raise WrongError("no number stands before the reference")
    if len(records) == 2:
        value, wide = ratio_of(where, kind, records[1], records[0], stated)
    else:
        value, wide = figure(records[0], kind), half_width(where, records[0], kind)
    sign = " `*`" if (wide > WIDE or told.width) and is_narrow(where, kind, records) else ""
    width, written = f"{math.ceil(100 * wide):,} %{sign}", f"{told.width} %{' `*`' * told.narrow}"
    if (wide > WIDE or told.width) and width != written:
        raise WrongError(f"its interval, the drift of the run included, is ± {width}; the text has to say so")
    same(told, value * UNITS.get(told.unit or "", 1))


def same(told: Told, value: float) -> None:
    """Raise ``WrongError`` unless a number is a value, rounded to the digits that it has."""
    assert told.number is not None
    stated = float(told.number.replace(",", ""))
    mantissa, _, exponent = told.number.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    if abs(value - stated) > unit / 2 * (1 + 1e-9):
        raise WrongError(f"the records say {value:.5g}")


def judged(told: Told) -> str | None:
    """Return what is wrong with a number, with its sentence and its records, or None."""
    try:
        check(told)
    except WrongError as wrong:
        return f"{told.document} says: {told.sentence}\n{told.number or ''} <!-- {told.source} -->: {wrong}"
    return None


TEXTS = {name: (ROOT / name).read_text("utf-8") for name in CHECKED}
TOLD = [told for name, text in TEXTS.items() for told in references(name, text)]


@pytest.mark.parametrize("told", TOLD, ids=str)
def test_a_number_is_that_of_its_records(told):
    assert judged(told) is None, judged(told)


def unsupported(text: str) -> list[str]:
    """Return the numbers that no reference follows: none but sizes (N = 1,024), what is written as code, and names."""
    text = REFERENCE.sub("", " ".join(prose(text).split()))
    text = re.sub(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)", "", text)
    text = re.sub(rf"N = {NUMBER}(?:(?:, | and | to | or ){NUMBER})*", "", text)
    text = re.sub(r"GPU Gems 3|8600M|CUDA 13\.0|driver 580\.159\.04", "", text)
    return re.findall(r"(?<![\w.])\d[\d,.]*\d?.{0,20}", text)


def test_every_number_of_the_findings_has_its_records():
    assert len(TOLD) > 40
    assert unsupported(TEXTS[FINDINGS]) == []


MEASURED = re.compile(
    r"\d(?:e9|[.,\d]* (?:ms|µs|GFLOP/s|interactions/s|steps/s|times|of (?:the|its) (?:speed|time)))\b"
)


@pytest.mark.parametrize("name", CHECKED)
def test_no_document_tells_a_measured_number_without_its_records(name):
    assert MEASURED.findall(REFERENCE.sub("", prose(TEXTS[name]))) == []


TILED, NAIVE = "tiled cupy n=65536 p=256 unroll=32", "naive cupy n=65536"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"It is 9.99 <!-- h100/ladder: speed of {TILED} / {NAIVE} --> times as fast.", "the records say 1.8"),
        (f"It is 0.54 <!-- h100/ladder: speed of {TILED} / {NAIVE} --> times as fast.", "compare calls it FASTER"),
        (f"It is slower <!-- h100/ladder: SLOWER: {TILED} / {NAIVE} -->.", "compare calls it FASTER"),
        (f"It does 1e9 <!-- h100/ladder: speed of {TILED} -->.", "the records say 1.8"),
        (f"It is off by 1.0e-9 <!-- h100/ladder: error_max of {TILED} -->.", "the records say 1.3"),
        ("It does 1e9 <!-- h100/ladder: speed of tiled cupy n=7 -->.", "has 0 records of tiled cupy n=7; 1 is needed"),
        (f"It has 1.5 <!-- h100/ladder: stages_seconds.build of {NAIVE} -->.", "has no stages_seconds.build"),
        ("It runs at 1,980 <!-- h200/ceilings: clock_mhz of mma_mufu -->.", "the records say 1799.6"),
        ("It runs at 1,980 <!-- h200/ceilings: clock_mhz of mma_4 -->.", "has no clock_mhz of mma_4"),
        (f"It is fast <!-- h100/ladder: speed of {NAIVE} -->.", "no number stands before the reference"),
        ("It did 26 <!-- published: lee2008 --> frames.", "lee2008.yaml has no 26"),
        (
            "It does 0.66 <!-- h100/ladder: speed of numba_symmetric cpu n=16384 / numba_parallel cpu n=16384 -->.",
            "compare calls it UNCLEAR",
        ),
        (
            "A step takes 1.0 ms <!-- h100/bodin2026: time of numba_direct cpu n=1000 timed=step -->.",
            "the drift of the run included, is ±",
        ),
        ("It did 25.5 <!-- published: lee2008 --> frames.", None),
        (f"It is faster <!-- h100/ladder: FASTER: {TILED} / {NAIVE} -->.", None),
    ],
)
def test_a_wrong_number_is_found(text, answer):
    (told,) = references("x.md", text)
    found = judged(told)
    assert (found is None) == (answer is None), found
    if found:
        assert "x.md says: It " in found or "x.md says: A step" in found
        assert answer in found


def test_a_number_without_records_is_found():
    assert unsupported("At N = 1,024 it `p = 3` does 1.5 <!-- published: x --> on an H200 in float32.") == []
    assert unsupported("It is 2.9 times as fast.") == ["2.9 times as fast."]
    assert MEASURED.search("It does 1,950e9 a second.")
    assert MEASURED.search("It takes 9.7 ms.")
    assert MEASURED.search("It is 2.9 times `naive`, or 0.84 of its time.")
