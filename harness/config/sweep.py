"""Every combination of what is swept, less those that cannot run or are not wanted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from gravbench.config.condition import Condition
from gravbench.config.document import shown
from gravbench.config.fitting import misfit, needed_by
from gravbench.errors import InputError
from gravbench.model import interaction_files
from gravbench.model.bodies import unfit_eps
from gravbench.model.case import Case
from gravbench.model.generated_bodies import is_generated
from gravbench.model.initial_conditions import SUBSETS, available, file_sha256
from gravbench.model.interaction import GRAVITY
from gravbench.model.quantities import QUANTITIES
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import AxisValue, Variant


@dataclass(frozen=True)
class Block:
    """The part of a sweep that one variant of one entry makes; ``where`` begins the messages about it.

    The command line chose the ``toolkits`` among those ``offered``; the variant is ``chosen`` if it names that, too.
    ``places`` has what begins the messages about each axis and each setting that was set.
    """

    variant: Variant
    toolkits: Sequence[str]
    settings: Mapping[str, Sequence[Any]]
    axes: Mapping[str, Sequence[AxisValue]]
    wanted: Condition
    where: str
    offered: Sequence[str]
    places: Mapping[str, str]
    chosen: bool

    @property
    def combinations(self) -> int:
        """How many there are at most."""
        return math.prod(len(values) or 1 for values in (self.toolkits, *self.settings.values(), *self.axes.values()))


def cases_of(block: Block, removed: Counter[str]) -> Iterator[Case]:
    """Make the cases of a block, and count in ``removed`` why others are left out.

    A generator uses no subset and a file no seed: so that nothing is measured twice, the first value stands for all.
    Only a step has an integrator and its dt.

    Raises:
        InputError: a condition cannot be computed, n is left open and the bodies do not say it, or eps is too large
            for a number type.
    """
    variant = block.variant
    grid = _able(block, removed)
    # Each file is asked once, not for every case.
    bodies = {spec: file_sha256(spec) for spec in block.settings["bodies"]}
    interactions = {spec: interaction_files.code_sha256(spec) for spec in block.settings["interaction"]}
    steppable = {spec for spec in interactions if interaction_files.find(spec).steppable}
    for settings in _settings(block):
        if settings["dtype"] not in variant.dtypes:
            removed[f"{variant.name}, which computes in {' or '.join(variant.dtypes)}"] += 1
            continue
        if settings["interaction"] != GRAVITY and not variant.any_interaction:
            removed[f"{variant.name}, which computes {GRAVITY}"] += 1
            continue
        timed = QUANTITIES[settings["timed"]]
        if timed.steps and settings["interaction"] not in steppable:
            wants = "ax, ay, az of positions"
            removed[f"timed: {timed.name}, whose integrator needs {wants}, not {settings['interaction']}"] += 1
            continue
        contents: dict[str, Any] = {
            "bodies_file_sha256": bodies[settings["bodies"]],
            "interaction_sha256": interactions[settings["interaction"]],
        }
        for toolkit, axes in grid:
            if settings["dtype"] not in catalogue()[toolkit].dtypes:
                removed[f"{toolkit}, which computes in {' or '.join(catalogue()[toolkit].dtypes)}"] += 1
                continue
            stated = {name: value for name, value in settings.items() if value is not None}
            named = {"variant": variant.name, "chosen": block.chosen, "toolkit": toolkit}
            if block.wanted.holds({**named, **stated, **axes}):
                if reason := unfit_eps(settings["eps"], settings["dtype"]):
                    raise InputError(f"{block.places.get('eps', block.where)}: {reason}")
                yield Case(variant=variant.name, toolkit=toolkit, axes=variant.complete(axes), **settings, **contents)
            else:
                removed[f"when: {block.wanted.text}"] += 1


def misfits(block: Block) -> Iterator[str]:
    """Say of each combination of axes and toolkit that the variant cannot run why, and what would be nearest."""
    for axes in _combinations(block.axes):
        adapted = ((toolkit, block.variant.adapted(axes, toolkit, block.places)) for toolkit in block.toolkits)
        sentences = (misfit(block.variant, toolkit, values) for toolkit, values in adapted)
        yield from (sentence for sentence in sentences if sentence)


def unused(blocks: Iterable[Block]) -> list[str]:
    """Say of each value of an axis that was set why a variant has no case with it, where it has none.

    That is said of values that the variant can never run with; others may be left out by a ``when`` or by the choice of
    a toolkit, as was asked for.
    """
    parts: dict[tuple[str, str, AxisValue], list[Block]] = {}
    for block in blocks:
        if block.toolkits and block.variant.when:
            for axis, values in block.axes.items():
                for value in values if axis in block.places else ():
                    part = replace(block, axes={**block.axes, axis: [value]}, toolkits=block.offered)
                    parts.setdefault((block.variant.name, axis, value), []).append(part)
    return [
        f"{alike[0].places[axis]}: no case of {name} has {axis} = {shown(value)}: {next(misfits(alike[0]))}"
        for (name, axis, value), alike in parts.items()
        if not any(map(_fits, alike))
    ]


def _fits(block: Block) -> bool:
    """Tell whether the variant can run with some combination of axes and toolkit."""
    condition = needed_by(block.variant)
    combinations = (
        {"toolkit": toolkit, **block.variant.adapted(axes, toolkit, block.places)}
        for axes in _combinations(block.axes)
        for toolkit in block.toolkits
    )
    return any(map(condition.holds, combinations))


def _able(block: Block, removed: Counter[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return each toolkit with the axes that the variant can run on it, toolkit by toolkit."""
    variant = block.variant
    condition = needed_by(variant)
    grid = []
    for axes in _combinations(block.axes):
        adapted = {toolkit: variant.adapted(axes, toolkit, block.places) for toolkit in block.toolkits}
        broken = {toolkit: condition.broken({"toolkit": toolkit, **values}) for toolkit, values in adapted.items()}
        grid += [(toolkit, adapted[toolkit]) for toolkit, needed in broken.items() if needed is None]
        for needed in dict.fromkeys(filter(None, broken.values())):
            missing = [toolkit for toolkit in block.toolkits if broken[toolkit] == needed]
            where = f" on {' and '.join(missing)}" if len(missing) < len(broken) else ""
            removed[f"{variant.name}{where}, which needs {needed}"] += 1
    return sorted(grid, key=lambda combination: block.toolkits.index(combination[0]))


def _settings(block: Block) -> Iterator[dict[str, Any]]:
    for bodies in block.settings["bodies"]:
        made = is_generated(bodies)
        subsets = SUBSETS[:1] if made else block.settings["subset"]
        seeds = block.settings["seed"] if made else block.settings["seed"][:1]
        for subset in subsets:
            values = {**block.settings, "bodies": [bodies], "subset": [subset], "seed": seeds}
            # Read even where n is given: a broken file is one sentence now, not a skip a case later.
            if not made or not values["n"]:
                try:
                    offered = available(bodies, subset)
                except InputError as error:
                    raise InputError(f"{block.places.get('bodies', block.where)}: {error}") from error
                if offered is None:
                    problem = f"n is missing, but {bodies} can make any number of bodies"
                    raise InputError(f"{block.where}: {problem}; accepted: 1 or more")
                values["n"] = values["n"] or [offered]
            for timed in values["timed"]:
                timed_values = values if QUANTITIES[timed].steps else {**values, "integrator": [None], "dt": [None]}
                yield from _combinations({**timed_values, "timed": [timed]})


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))
