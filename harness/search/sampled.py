"""Searches by Optuna's samplers, which choose the next case by what those before it took."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from gravbench.config.search import Search, StrategyName
from gravbench.errors import InputError
from gravbench.model.case import Case
from gravbench.model.variant import Variant
from gravbench.search.space import VARIANT, Space, is_ordered, place_in
from gravbench.search.strategy import Answer, Clock, Strategy

SAMPLED: tuple[StrategyName, ...] = ("random", "tpe")
"""The strategies that are samplers of Optuna."""


def missing() -> str | None:
    """Say that Optuna is not installed; None where it is."""
    if importlib.util.find_spec("optuna") is not None:
        return None
    return f"Optuna is not installed, so {' and '.join(SAMPLED)} are left out: pip install 'gravbench[search]'"


class Sampled(Strategy):
    """One study for each contest, in turns.

    A study's space is the product of the axes' values of each variant, and the variant is one of its parameters. A
    point at which there is no case, or one that was measured, is repaired to the nearest case that is left, as
    ``Space.nearest`` finds it, and the study is told of that one.

    Raises:
        InputError: Optuna is not installed.
    """

    def __init__(
        self, cases: Sequence[Case], search: Search, variants: Mapping[str, Variant], clock: Clock = time.monotonic
    ) -> None:
        if missing():
            needed = f"the strategy {search.strategy} needs Optuna; install it with: pip install 'gravbench[search]'"
            raise InputError(needed)
        super().__init__(cases, search, variants, clock)
        self._studies = [
            Study([self.cases[place] for place in contest], search.strategy, search.seed + number)
            for number, contest in enumerate(self.contests)
        ]
        self._turns = cycle(range(len(self.contests)))
        # Where each case stands in its own contest.
        self._within = {place: i for contest in self.contests for i, place in enumerate(contest)}

    def _next(self) -> int | None:
        number = next(number for number in self._turns if not self._studies[number].exhausted)
        return self.contests[number][self._studies[number].ask()]

    def _learn(self, place: int, answer: Answer) -> None:
        self._studies[self._contest_of[place]].tell(self._within[place], answer.seconds)


class Study:
    """Optuna's ask and tell over the cases of one contest, by their places in it."""

    def __init__(self, cases: Sequence[Case], sampler: str, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
        self._optuna = optuna
        self._study = optuna.create_study(sampler=samplers[sampler](seed=seed % 2**32))
        self._space = Space(cases)
        self._taken: set[int] = set()
        self._choices = {
            variant: {name: values for name, values in axes.items() if len(values) > 1}
            for variant, axes in self._space.parameters.items()
        }
        self._variants = list(self._choices)

    @property
    def exhausted(self) -> bool:
        """Whether no case is left."""
        return len(self._taken) == len(self._space.points)

    def ask(self) -> int:
        """Return the place of the case to be measured next: there has to be one that is left."""
        trial = self._study.ask()
        variant = self._variants[self._suggest(trial, VARIANT, self._variants)]
        chosen = {
            name: values[self._suggest(trial, f"{variant}.{name}", values)]
            for name, values in self._choices[variant].items()
        }
        fixed = {name: values[0] for name, values in self._space.parameters[variant].items() if len(values) == 1}
        # What it is told of may be another point, or come from an earlier run: all of that is added as trials.
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        place = self._space.nearest({VARIANT: variant, **fixed, **chosen}, self._taken)
        self._taken.add(place)
        return place

    def tell(self, place: int, seconds: float | None) -> None:
        """Add what a case took; what failed or was invalid is slower than anything."""
        self._taken.add(place)
        point = self._space.points[place]
        variant = point[VARIANT]
        settings = {VARIANT: (self._variants, variant)} | {
            f"{variant}.{name}": (values, point[name]) for name, values in self._choices[variant].items()
        }
        several = {name: (values, value) for name, (values, value) in settings.items() if len(values) > 1}
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params={name: place_in(values, value) for name, (values, value) in several.items()},
                distributions={name: self._distribution(values) for name, (values, _) in several.items()},
                value=math.inf if seconds is None else seconds,
            )
        )

    def _suggest(self, trial: Any, name: str, values: Sequence[Any]) -> int:
        """Choose the place of a value; of numbers in their order, so that close ones count as alike."""
        if len(values) == 1:
            return 0
        if is_ordered(values):
            return int(trial.suggest_int(name, 0, len(values) - 1))
        return int(trial.suggest_categorical(name, range(len(values))))

    def _distribution(self, values: Sequence[Any]) -> Any:
        distributions = self._optuna.distributions
        if is_ordered(values):
            return distributions.IntDistribution(0, len(values) - 1)
        return distributions.CategoricalDistribution(range(len(values)))
