"""The strategies by their names."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from gravbench.config.load import Sweep
from gravbench.config.search import STRATEGIES, Search, StrategyName
from gravbench.measuring.plan import Plan
from gravbench.model.case import Case
from gravbench.model.device import Kind
from gravbench.model.variant import Variant, discover
from gravbench.search.orders import All, Race
from gravbench.search.sampled import SAMPLED, Sampled, missing
from gravbench.search.strategy import Clock, Strategy

_STRATEGIES: Mapping[StrategyName, type[Strategy]] = {"all": All, "race": Race, "random": Sampled, "tpe": Sampled}


def start(
    cases: Sequence[Case], search: Search, variants: Mapping[str, Variant], clock: Clock = time.monotonic
) -> Strategy:
    """Begin the search of ``cases`` that ``search`` describes; see ``Strategy``.

    Raises:
        InputError: it needs Optuna, which is not installed.
    """
    return _STRATEGIES[search.strategy](cases, search, variants, clock)


def of_plan(sweep: Sweep, todo: Plan) -> dict[Kind, Strategy]:
    """Begin a search of the cases of each kind of device, told what is known; none where every case is measured.

    Raises:
        InputError: as ``start``.
    """
    if sweep.search.measures_all:
        return {}
    variants = discover(sweep.variant_folders)
    strategies = {kind: start(cases, sweep.search, variants) for kind, cases in todo.contests.items()}
    for kind, strategy in strategies.items():
        for record in todo.known:
            if record.device == kind[0]:
                strategy.tell_record(record)
    return strategies


def of_names(names: Sequence[str], threshold: float) -> list[Search]:
    """Describe searches by the strategies of these names; without any, by all that are installed."""
    there = [name for name in STRATEGIES if not (name in SAMPLED and missing())]
    return [Search.model_validate({"strategy": name, "threshold": threshold}) for name in names or there]
