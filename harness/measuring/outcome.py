"""What became of a case in its session, in a form that a record can hold whatever a variant or an exception says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from gravbench.model.record import Errors, Inside, Measurement, Preparation, Resources, Status, Stepping
from gravbench.model.variant import Axes, Dtype, Prepared, Variant
from gravbench.verifying.outside import Launch

Name = Annotated[str, Field(strict=True, pattern=r"^\P{C}{1,60}$")]
Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Numbers = Annotated[dict[Name, Number], Field(max_length=100)]
CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""As in ECMA-48, 5.4. Rich's decoder would also drop whatever precedes a carriage return."""


class CaseError(Exception):
    """A case fails, with this sentence as the reason."""


@dataclass(slots=True)
class Results:
    """What is known of a case so far: the parts of its record, each whole."""

    preparation: Preparation = field(default_factory=Preparation)
    errors: Errors = field(default_factory=Errors)
    resources: Resources = field(default_factory=Resources)
    measurement: Measurement = field(default_factory=Measurement)
    stepping: Stepping = field(default_factory=Stepping)
    inside: Inside = field(default_factory=Inside)

    def parts(self) -> Iterator[BaseModel]:
        """Return them all."""
        return (getattr(self, part.name) for part in fields(self))


@dataclass(slots=True)
class Outcome:
    """What became of a case, and what was found of it on the way; ``broken`` asks for a new session.

    ``launches`` are handed over to the judge outside.
    """

    status: Status
    reason: str | None = None
    results: Results = field(default_factory=Results)
    broken: bool = False
    launches: tuple[Launch, ...] = ()

    def recordable(self) -> Outcome:
        """Return it in plain values of the types that a record has; or, where it has others, that the case failed."""
        checked = Results()
        status, reason = self.status, self.reason
        for part in fields(Results):
            content = getattr(self.results, part.name)
            try:
                content = type(content).model_validate(content.model_dump(warnings=False))
                json.dumps(content.model_dump(), ensure_ascii=False).encode()
                setattr(checked, part.name, content)
            except Exception as error:
                if status != "failed":
                    status, reason = "failed", f"its {part.name} cannot be recorded: {text_of(error)}"
        return Outcome(status, reason and printable(reason), checked, self.broken, self.launches)


class Insights(BaseModel, extra="forbid"):
    """What a variant may tell of an evaluation: fields of ``Inside``, the numbers finite and zero or more."""

    stages_seconds: Numbers = {}
    stages_bytes: Numbers = {}
    computed: Numbers = {}
    walk_overlap: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None


def uncounted(variant: Variant, prepared: Prepared, dtype: Dtype, axes: Axes) -> bool:
    """Tell whether it is not known what an evaluation computes, unless ``insight`` tells it.

    A window over a part of the bodies is known by its cycle, and what is as accurate as a direct sum is one.
    """
    return variant.approximates is not None and prepared.cycle == 1 and not variant.accepted(dtype, axes).of_rounding


def counted(insight: Callable[[], Any], n: int, inside: Inside) -> Inside:
    """Add to ``inside`` what the variant's ``insight`` tells of an evaluation of n bodies.

    Raises:
        CaseError: it is no mapping of fields of ``Inside``, or a number of it is none that can be true.
    """
    answer = insight()
    try:
        insights = Insights.model_validate(dict(answer) if isinstance(answer, Mapping) else answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise CaseError(
            f"insight() returned something that a record cannot hold: {where and where + ': '}{first['msg']}"
        ) from None
    interactions = sum(insights.computed.values())
    if insights.computed and not 0 < interactions <= n:
        raise CaseError(
            f"insight() returned {interactions:g} interactions per body (computed); accepted: above 0, up to {n}"
        )
    update = insights.model_dump(exclude_unset=True) | {"uncounted": inside.uncounted and not insights.computed}
    return inside.model_copy(update=update)


def text_of(error: BaseException) -> str:
    """Return the first lines of an exception's text, in one line, whatever its text is."""
    try:
        text = printable(str(error))
    except Exception:
        return "(its message cannot be shown)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:4])[:1000]


def printable(text: str) -> str:
    """Return a text without the colour codes of a terminal, which Numba's messages have, and with all else printable.

    A character that is not printable, such as half of a surrogate pair, becomes its escape.
    """
    plain = CONTROL_SEQUENCE.sub("", text)
    return "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in plain)
