"""What a configuration file may say: its keys, their types and limits, and the sentence for each mistake.

A list is swept and a scalar is fixed, so everything that can be swept is a list once it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from gravbench.config.document import Document, shown
from gravbench.config.limits import MOST_CASES, MOST_ENTRIES, MOST_SECONDS
from gravbench.config.numbers import abbreviated
from gravbench.config.search import Search
from gravbench.errors import InputError, Mistakes, closest, nearest
from gravbench.model.bodies import SMALLEST_EPS
from gravbench.model.case import MOST_BODIES
from gravbench.model.generated_bodies import canonical
from gravbench.model.interaction import GRAVITY
from gravbench.model.quantities import FORCE, TimedName
from gravbench.model.variant import Dtype

Subset = Literal["even", "lee", "lee_last"]
Verify = Literal["sample", "all"]
Location = tuple[int | str, ...]

FEWEST_SAMPLES = 3
"""Taken even where a single evaluation is longer than the budget."""

PROCESSES_ON_CPU, PROCESSES_ON_GPU = 4, 1
"""That measure each case unless ``measure.processes`` says so: on a CPU they differ by more than their samples do."""

DRIFT_STEPS = 100
"""Steps over which the drift of the energy and of the momentum is recorded."""
DRIFT_UP_TO, DRIFT_UP_TO_ON_GPU = 4096, 65536
"""Bodies above which that of the energy is not: it takes time in n * n, on the host and on a GPU."""
DRIFT_SECONDS = 2.0
"""Longest that the steps may take above ``DRIFT_UP_TO`` bodies; no drift is recorded where they take longer."""

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def listed(value: Any) -> Any:
    """Make a scalar the only element of a list."""
    return value if isinstance(value, list) else [value]


def _as_written(value: Any) -> Any:
    """Make a number of a text such as 10k or 2^20; leave everything else as it is."""
    number = abbreviated(value) if isinstance(value, str) else None
    return value if number is None else number


WRONG_PARAMETER = "wrong_parameter"
"""The type of a mistake in the parameters of generated bodies."""


def _bodies(spec: str) -> str:
    """Give generated bodies their one name."""
    try:
        return canonical(spec)
    except InputError as error:
        raise PydanticCustomError(WRONG_PARAMETER, "{sentence}", {"sentence": str(error)}) from error


Swept = Annotated[list[T], BeforeValidator(listed), Field(min_length=1, max_length=MOST_CASES)]
Whole = Annotated[int, BeforeValidator(_as_written)]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_as_written)]
Positive = Annotated[Number, Field(gt=0)]
Seconds = Annotated[Number, Field(gt=0, le=MOST_SECONDS)]


def _for_all(value: Any) -> Any:
    return value if isinstance(value, dict) else {"": value}


def _strategy_alone(value: Any) -> Any:
    return {"strategy": value} if isinstance(value, str) else value


class Measure(BaseModel, frozen=True, extra="forbid", strict=True):
    """How each case is measured.

    Attributes:
        half_width: stop when half the confidence interval of the median is at most this fraction of the median.
        min_samples: minimum number of samples in each process.
        budget_seconds: stop after this time in any case, counting all processes of a case.
        processes: processes that measure each case, one after the other, each with its share of the budget; by
            default 4 on a CPU and 1 on a GPU. Once the budget is spent, no further process starts. The first verifies
            the kernel in full; the others verify one launch before their samples and one after them.
        warm_up_seconds: evaluate for this long before the first sample. On a device that has just measured another case
            the warm-up ends earlier, once the times of batches and the clock of a GPU are steady. If there are several
            processes, all but the first use a share of this time.
        sample_seconds: minimum length of one sample; short evaluations are repeated to fill it.
        timeout_seconds: a case fails after this time in one process.
        memory_gigabytes: a case fails if its processes use more host memory than this; by default nine tenths of
            what the machine or the container has.
        log_megabytes: a case fails if it prints more than this; ``worker.log`` beside the records has what it
            printed before.
        anchor_every: number of cases between two repetitions of the anchor of the work (on the GPU, the host, or both)
            that most cases have, each in another process; and cases of other work for each repetition of its anchor.
            By default ten, or a twentieth of all cases in a run of more than 200. In a run of more than ten cases, each
            anchor is repeated at least five times, whatever the setting.
        order_seed: seed of the shuffled order of the cases.
        verify: the bodies whose accelerations are compared with float64: ``all``, or a ``sample`` of about 1,024, a new
            one each time. By default all up to 1,048,576 bodies on a GPU and up to 4,096 on a CPU.
    """

    half_width: Annotated[Number, Field(gt=0, lt=1)] = 0.005
    min_samples: Annotated[Whole, Field(ge=1)] = 10
    budget_seconds: Seconds = 5.0
    warm_up_seconds: Annotated[Number, Field(ge=0, le=MOST_SECONDS)] = 0.5
    sample_seconds: Seconds = 0.01
    timeout_seconds: Seconds = 300.0
    memory_gigabytes: Positive | None = None
    log_megabytes: Positive = 10.0
    anchor_every: Annotated[Whole, Field(ge=1)] | None = None
    order_seed: Whole = 1
    verify: Verify | None = None
    processes: Annotated[Whole, Field(ge=1, le=100)] | None = None

    def processes_on(self, *, gpu: bool) -> int:
        """Return how many processes measure each case."""
        return self.processes or (PROCESSES_ON_GPU if gpu else PROCESSES_ON_CPU)


class Settings(BaseModel, frozen=True, extra="forbid", strict=True):
    """What can be set for all variants, and again for those of one entry.

    Without n: all bodies of a file. ``bodies`` are a file, or a generator with its parameters behind it, as
    ``gravbench.model.generated_bodies`` reads them. ``interaction`` is the name of a packaged one or a file.
    ``integrator`` and ``dt`` are of cases with ``timed: step``; others have none.
    """

    bodies: Swept[Annotated[str, AfterValidator(_bodies)]] = ["plummer"]
    subset: Swept[Subset] = ["even"]
    seed: Swept[Annotated[Whole, Field(ge=0)]] = [1]
    eps: Swept[Annotated[Number, Field(ge=SMALLEST_EPS)]] = [0.025]
    dtype: Swept[Dtype] = ["float32"]
    interaction: Swept[str] = [GRAVITY]
    timed: Swept[TimedName] = [FORCE]
    integrator: Swept[Literal["leapfrog", "damped_euler"]] = ["leapfrog"]
    dt: Swept[Positive] = [0.001]
    n: Swept[Annotated[Whole, Field(ge=1, le=MOST_BODIES)]] = []


class Entry(Settings, frozen=True, extra="allow"):
    """One element of ``variants``: variants, toolkits and, among the extra keys, values of axes."""

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


class Protocol(BaseModel, frozen=True, extra="forbid", strict=True):
    """What is set once for all cases and does not decide which cases there are.

    ``flops_per_interaction`` is the convention for GFLOP/s: a number for every interaction (kept under an empty name),
    or one each for those named. Without it the count in the interaction's own file is the convention. ``search`` is a
    strategy's name, or more of its settings.
    """

    flops_per_interaction: Annotated[dict[str, Positive], BeforeValidator(_for_all)] = {}
    measure: Measure = Measure()
    search: Annotated[Search, BeforeValidator(_strategy_alone)] = Search()


class Config(Settings, Protocol, frozen=True):
    """A whole configuration file. ``published`` names the source whose numbers the report sets beside the run's."""

    description: str = ""
    published: str | None = None
    variant_folders: Annotated[list[str], Field(max_length=MOST_ENTRIES)] = []
    variants: Annotated[list[Entry], BeforeValidator(listed), Field(min_length=1, max_length=MOST_ENTRIES)]


SETTINGS = tuple(Settings.model_fields)
ENTRY_KEYS = tuple(Entry.model_fields)
PARTS: dict[str, type[BaseModel]] = {"measure": Measure, "search": Search}
"""The models of keys that have keys of their own."""
PROTOCOL = ("flops_per_interaction", *(f"{key}.{name}" for key, model in PARTS.items() for name in model.model_fields))

ACCEPTED = {
    "int_type": "a whole number",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "model_type": "keys and values",
    "dict_type": "keys and values",
    "too_short": "at least one value",
    "too_long": "up to {max_length} values",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "up to {le}",
}
"""What is accepted instead, by pydantic's name of a mistake."""


def validated(model: type[M], data: Any, where: str | Document) -> M:
    """Make ``model`` of ``data``; ``where`` is the document that it is from, or begins the message about a mistake.

    Raises:
        InputError: all mistakes in the order of the document, one sentence each; without a document the first.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        meant = _meant(error.errors(include_url=False), model)
    if isinstance(where, str):
        raise InputError(f"{where}: {_sentence(meant[0], model)}")
    mistakes = Mistakes()
    _note(meant, model, where, mistakes)
    raise mistakes.error()


def checked(document: Document, mistakes: Mistakes) -> Config:
    """Make what can be made of a configuration, and collect what is wrong with it.

    A key whose value is wrong is left out, and an entry without a right ``variant`` names none.

    Raises:
        InputError: nothing can be made of it.
    """
    try:
        return Config.model_validate(document.data)
    except ValidationError as error:
        wrong = _meant(error.errors(include_url=False), Config)
    _note(wrong, Config, document, mistakes)
    with suppress(ValidationError):
        return Config.model_validate(_without(document.data, [mistake["loc"] for mistake in wrong]))
    raise mistakes.error()


def _note(wrong: Iterable[ErrorDetails], model: type[BaseModel], document: Document, mistakes: Mistakes) -> None:
    for mistake in wrong:
        location = mistake["loc"]
        mistakes.note(f"{document.where(location)}: {_sentence(mistake, model)}", document.place(location))


def _without(data: Any, locations: Iterable[Location]) -> Any:
    """Leave out the keys of a configuration and of its entries in which mistakes are."""
    if not isinstance(data, dict):
        return data
    kept = {**data}
    entries = [{"variant": entry} if isinstance(entry, str) else entry for entry in listed(data.get("variants"))]
    for key, *rest in locations:
        if key != "variants" or not rest:
            kept.pop(str(key), None)
        elif isinstance(entry := entries[(number := int(rest[0]))], dict) and rest[1:]:
            entries[number] = {name: value for name, value in entry.items() if name != rest[1]}
        else:
            entries[number] = {}
    if "variants" in kept:
        nameless = Entry.model_construct(variant=[])
        kept["variants"] = [entry if "variant" in entry else nameless for entry in entries]
    return kept


def _meant(details: list[ErrorDetails], model: type[BaseModel]) -> list[ErrorDetails]:
    """Say of a key that is missing and misspelt only that it is misspelt."""
    misspelt: dict[Location, ErrorDetails] = {}
    for mistake in details:
        given = mistake["input"]
        if mistake["type"] == "missing" and isinstance(given, dict):
            *holder, name = mistake["loc"]
            keys = _keys(tuple(holder), model)
            close = [key for key in given if key not in keys and closest(key, keys) == name]
            if close:
                misspelt[mistake["loc"]] = {**mistake, "type": "extra_forbidden", "loc": (*holder, close[0])}
    others = {mistake["loc"] for mistake in misspelt.values()}
    return [
        *misspelt.values(),
        *(detail for detail in details if detail["loc"] not in misspelt and detail["loc"] not in others),
    ]


def _keys(holder: Location, model: type[BaseModel]) -> list[str]:
    """Return the keys that are accepted at a location."""
    names = [part for part in holder if isinstance(part, str)]
    part = Entry if names[:1] == ["variants"] else PARTS.get(names[0], model) if names else model
    return list(part.model_fields)


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> str:
    names = [part for part in error["loc"] if isinstance(part, str) and part not in ("variants", "")]
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        return f"unknown key {shown(key)}; {nearest(key, _keys(error['loc'][:-1], model))}"
    if error["type"] == "missing":
        return f"the key {error['loc'][-1]} is missing"
    what = ".".join(names) or ("an entry of variants" if error["loc"] else "the file")
    if error["type"] == WRONG_PARAMETER:
        return f"{what} is {shown(error['input'])}: {error['msg']}"
    written = {"int_type": "a whole number, such as 1024, 10k, 1e6 or 2^20"}
    return of_value(error, what, ACCEPTED | written if isinstance(error["input"], str) else ACCEPTED)


def of_value(error: ErrorDetails, what: str, accepted_by: Mapping[str, str] = ACCEPTED) -> str:
    """Say of ``what`` which value it has, and which are accepted."""
    if error["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        word = error["input"] if isinstance(error["input"], str) else ""
        return f"{what} is {shown(error['input'])}; {nearest(word, words)}"
    template = accepted_by.get(error["type"])
    accepted = template.format(**error.get("ctx", {})) if template else error["msg"].removeprefix("Value error, ")
    return f"{what} is {shown(error['input'])}; accepted: {accepted}"
