"""What a configuration file may say: its keys, their types and limits, and the sentence for each mistake.

A list is swept and a scalar is fixed, so everything that can be swept is a list once it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from gravbench.config.document import shown
from gravbench.errors import InputError, nearest
from gravbench.model.bodies import SMALLEST_EPS
from gravbench.model.interaction import GRAVITY
from gravbench.model.variant import Dtype

Subset = Literal["even", "lee", "lee_last"]
Timed = Literal["force", "step", "call"]
Integrator = Literal["leapfrog", "damped_euler"]
Location = Sequence[int | str]

MOST_BODIES = 2**31 - 1  # kernels count bodies in an int32

FEWEST_SAMPLES = 3
"""Taken even where a single evaluation is longer than the budget."""

DRIFT_STEPS = 100
"""Steps over which the drift of the energy is recorded."""
DRIFT_UP_TO = 4096
"""Bodies above which it is not: the energy takes time in n * n on the host."""

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def listed(value: Any) -> Any:
    """Make a scalar the only element of a list."""
    return value if isinstance(value, list) else [value]


Swept = Annotated[list[T], BeforeValidator(listed), Field(min_length=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]


def _for_all(value: Any) -> Any:
    return value if isinstance(value, dict) else {"": value}


class Measure(BaseModel):
    """How each case is measured.

    Attributes:
        half_width: stop when the confidence interval of the median is this narrow, relative to the median.
        min_samples: but not before so many samples.
        budget_seconds: stop after this long in any event.
        warm_up_seconds: evaluate for this long before the first sample.
        sample_seconds: least length of one sample; short evaluations are repeated to fill it.
        timeout_seconds: give a case up after this long.
        anchor_every: cases between two repetitions of the anchor case.
        order_seed: of the shuffled order of the cases.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    half_width: Annotated[Number, Field(gt=0, lt=1)] = 0.005
    min_samples: Annotated[int, Field(ge=1)] = 10
    budget_seconds: Positive = 5.0
    warm_up_seconds: Annotated[Number, Field(ge=0)] = 0.5
    sample_seconds: Positive = 0.01
    timeout_seconds: Positive = 300.0
    anchor_every: Annotated[int, Field(ge=1)] = 10
    order_seed: int = 1


class Settings(BaseModel):
    """What can be set for all variants, and again for those of one entry.

    Without n: all bodies of a file. ``interaction`` is the name of a packaged one or a file. ``integrator`` and ``dt``
    are of cases with ``timed: step``; others have none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    bodies: Swept[str] = ["plummer"]
    subset: Swept[Subset] = ["even"]
    seed: Swept[Annotated[int, Field(ge=0)]] = [1]
    eps: Swept[Annotated[Number, Field(ge=SMALLEST_EPS)]] = [0.025]
    dtype: Swept[Dtype] = ["float32"]
    interaction: Swept[str] = [GRAVITY]
    timed: Swept[Timed] = ["force"]
    integrator: Swept[Integrator] = ["leapfrog"]
    dt: Swept[Positive] = [0.001]
    n: Swept[Annotated[int, Field(ge=1, le=MOST_BODIES)]] = []


class Entry(Settings):
    """One element of ``variants``: variants, toolkits and, among the extra keys, values of axes."""

    model_config = ConfigDict(extra="allow")

    variant: Swept[str]
    toolkit: Swept[str] = []
    when: str = "True"

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, data: Any) -> Any:
        return {"variant": data} if isinstance(data, str) else data

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The extra keys, which have to be axes; their values are not checked yet."""
        return {name: listed(value) for name, value in (self.model_extra or {}).items()}


class Protocol(BaseModel):
    """What is set once for all cases and does not decide which cases there are.

    ``flops_per_interaction`` is the convention for GFLOP/s: a number for every interaction (kept under an empty name),
    or one each for those named. Without it the count in the interaction's own file is the convention.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    flops_per_interaction: Annotated[dict[str, Positive], BeforeValidator(_for_all)] = {}
    measure: Measure = Measure()


class Config(Settings, Protocol):
    """A whole configuration file. ``published`` names the source whose numbers the report sets beside the run's."""

    description: str = ""
    published: str | None = None
    variant_folders: list[str] = []
    variants: Swept[Entry]


SETTINGS = tuple(Settings.model_fields)
ENTRY_KEYS = tuple(Entry.model_fields)
PROTOCOL = ("flops_per_interaction", *(f"measure.{name}" for name in Measure.model_fields))


def validated(model: type[M], data: Any, where: Callable[[Location], str]) -> M:
    """Make ``model`` of ``data``; ``where`` says, for a location in it, how a message about it begins.

    Raises:
        InputError: the first mistake, in one sentence.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InputError(f"{where(first['loc'])}: {_sentence(first, model)}") from None


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> str:
    names = [part for part in error["loc"] if isinstance(part, str) and part not in ("variants", "")]
    if error["type"] == "extra_forbidden":
        keys = list((Measure if len(names) > 1 else model).model_fields)
        return f"unknown key {shown(names[-1])}; {nearest(names[-1], keys)}"
    if error["type"] == "missing":
        return f"the key {error['loc'][-1]} is missing"
    what = ".".join(names) or ("an entry of variants" if error["loc"] else "the file")
    if error["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        word = error["input"] if isinstance(error["input"], str) else ""
        return f"{what} is {shown(error['input'])}; {nearest(word, words)}"
    return f"{what} is {shown(error['input'])}; accepted: {_accepted(error)}"


def _accepted(error: ErrorDetails) -> str:
    limits = error.get("ctx", {})
    match error["type"]:
        case "int_type":
            return "a whole number"
        case "float_type" | "finite_number":
            return "a finite number"
        case "string_type":
            return "a text"
        case "list_type":
            return "a list"
        case "model_type" | "dict_type":
            return "keys and values"
        case "too_short":
            return "at least one value"
        case "greater_than":
            return f"more than {limits['gt']:g}"
        case "greater_than_equal":
            return f"{limits['ge']:g} or more"
        case "less_than":
            return f"less than {limits['lt']:g}"
        case "less_than_equal":
            return f"up to {limits['le']}"
        case _:
            return error["msg"].removeprefix("Value error, ")
