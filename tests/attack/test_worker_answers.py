"""Random nonsense in the place of what a variant says: each answer is recorded or the failure of its case."""

import json
import math
from types import MappingProxyType

import numpy as np
import pytest

from gravbench.config.load import load
from gravbench.measuring.outcome import CaseError, Outcome, Results, counted, text_of
from gravbench.measuring.plan import plan
from gravbench.measuring.runner import _record
from gravbench.model.device import Device
from gravbench.model.record import Errors, Inside, Measurement, Preparation, Record
from gravbench.model.variant import CPU

NUMBERS = (
    0, 1, -1, 7.5, True, 10**400, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, 2**63, 1j,
    np.float32(2), np.float64(3), np.int64(4), np.array(5.0), np.array([1.0, 2.0]), np.datetime64("2026-01-01"),
)  # fmt: skip
TEXTS = (
    "computed",
    "walk_overlap",
    "stages_bytes",
    "body_body",
    "",
    "\ud800",
    "\x1b[2J",
    "\n",
    "a" * 10_000,
    "ä",
    "\0",
)
OTHERS = (None, object(), b"bytes", ..., int, len, frozenset({1}), range(3))


def drawn(random, depth=0):
    """Draw a number, a text, a container of some, or something else."""
    pick = lambda some: some[int(random.integers(len(some)))]  # noqa: E731
    kind = random.random()
    if depth < 3 and kind < (0.8 if depth == 0 else 0.4):
        items = [drawn(random, depth + 1) for _ in range(random.integers(4))]
        names = [pick(TEXTS) if random.random() < 0.9 else pick((1, None, 2.5)) for _ in items]
        own = dict(zip(names, items, strict=True))
        return pick((own, own, MappingProxyType(own), items, tuple(items)))
    return pick(NUMBERS) if kind < 0.8 else pick(TEXTS) if kind < 0.9 else pick(OTHERS)


@pytest.fixture(scope="module")
def task():
    """Return what a record is made for."""
    return plan(load("quick", ["n=40"], variants=["numpy_direct"]), [Device(CPU, "a processor")], None).tasks[0]


def holds(record):
    """Whether a file of records gives back what was written to it."""
    line = record.model_dump_json()
    line.encode()
    return "\n" not in line and Record.model_validate_json(line).model_dump_json() == line


def test_what_insight_answers_is_recorded_or_fails_the_case(task, attacks):
    random = np.random.default_rng(1)
    right = 0
    for number in range(500 * attacks):
        answer = drawn(random)
        try:
            inside = counted(lambda answer=answer: answer, 40, Inside())
        except CaseError as error:
            outcome = Outcome("failed", text_of(error))
        else:
            right += 1
            outcome = Outcome("ok", None, Results(inside=inside, measurement=Measurement(median_seconds=1e-3)))
        record = _record(task, outcome.recordable(), 20.0, "2026-01-01T00:00:00+00:00")
        assert record.status == outcome.status, (number, answer)
        assert "\n" not in (record.reason or ""), (number, answer)
        if record.status == "ok":
            assert 0 < record.interactions_per_second <= 40 * 40 / 1e-3, (number, answer)
        assert holds(record), (number, answer)
    assert right > 0


def test_whatever_is_found_makes_a_record(task, attacks):
    random = np.random.default_rng(2)
    parts = {"errors": Errors, "preparation": Preparation, "measurement": Measurement, "inside": Inside}
    for number in range(500 * attacks):
        found = Results()
        for name, part in parts.items():
            fields = list(part.model_fields)
            update = {fields[int(place)]: drawn(random) for place in random.integers(len(fields), size=2)}
            if random.random() < 0.3:
                setattr(found, name, part().model_copy(update=update))
        reason = "".join(TEXTS[int(place)] for place in random.integers(len(TEXTS), size=2))
        outcome = Outcome("invalid" if random.random() < 0.5 else "ok", reason, found).recordable()
        record = _record(task, outcome, 20.0, "2026-01-01T00:00:00+00:00")
        assert record.status in ("ok", "invalid", "failed"), number
        json.dumps(record.reason, ensure_ascii=False).encode()
        assert holds(record), (number, found)
