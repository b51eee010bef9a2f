"""How the cases of a sweep are searched: all of them, or as few as it takes to find the fastest."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field

from gravbench.config.limits import MOST_SECONDS

StrategyName = Literal["all", "race", "random", "tpe"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)


class Search(BaseModel, frozen=True, extra="forbid", strict=True):
    """In which order the cases of a sweep are measured, and when that ends.

    Attributes:
        strategy: ``all`` measures every case; ``race`` starts every case and stops those that cannot be the fastest;
            ``random`` and ``tpe`` (a tree-structured Parzen estimator) let Optuna choose the cases one by one.
        budget_trials: end after this many cases, including those from earlier starts of the run; by default, measure
            every case that the strategy requests.
        budget_seconds: start no new case after this time, counted from this start of the run.
        seed: seed of the order and of random choices.
        threshold: a case that is slower than the fastest by at most this fraction counts as equally fast.
    """

    strategy: StrategyName = "all"
    budget_trials: Annotated[int, Field(ge=1)] | None = None
    budget_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    threshold: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.02

    @property
    def measures_all(self) -> bool:
        """Whether every case is measured in full, as without a search."""
        return self.strategy == "all" and not (self.budget_trials or self.budget_seconds)
