"""Random sweeps with random outcomes: a search asks each case once, ends, and never names what failed."""

import importlib.util
import random

import pytest

from gravbench.config.search import STRATEGIES, Search
from gravbench.model.case import Case
from gravbench.search.sampled import SAMPLED
from gravbench.search.strategies import start

SWEEPS = 25
VALUES = [0, 1, 2, 64, -1, 2**62, 0.5, 1.0, True, False, "", "a", "1", "shuffle", "\u00e9" * 50]


def sweep(choose: random.Random) -> list[Case]:
    """Make cases of a few variants, each with axes of its own, in which numbers and words are mixed."""
    cases = {}
    for variant in choose.sample(["naive", "tiled", "split", "symmetric"], choose.randrange(1, 4)):
        axes = {
            name: choose.sample(VALUES, choose.randrange(1, 5)) for name in choose.sample("pqrs", choose.randrange(4))
        }
        for _ in range(choose.randrange(1, 15)):
            one = Case(
                variant=variant, toolkit=choose.choice(["cupy", "numba", "cpu"]), n=choose.choice([16, 1024]),
                axes={name: choose.choice(values) for name, values in axes.items()}, dtype="float32", bodies="plummer",
                subset="even", seed=1, eps=0.025, timed="force",
            )  # fmt: skip
            cases[one.key] = one
    return list(cases.values())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_search_of_any_sweep_with_any_outcome_asks_each_case_once_and_ends(attacks, name):
    if name in SAMPLED and not importlib.util.find_spec("optuna"):
        pytest.skip("Optuna is not installed")
    for number in range(SWEEPS * attacks):
        choose = random.Random(f"search {number}")
        cases = sweep(choose)
        strategy = start(cases, Search(strategy=name, seed=number), {})
        known = choose.sample(cases, choose.randrange(len(cases) + 1))
        outcomes: dict[str, float | None] = {}
        failing = choose.choice([0.0, 0.3, 1.0])

        def tell(case, *, may_stop, outcomes=outcomes, choose=choose, failing=failing, strategy=strategy):
            took = None if choose.random() < failing else choose.choice([1e-15, 1.0, 1.01, 1e12, choose.random() + 0.1])
            ends = choose.choice([None, (0.0, float("inf")), took and (0.99 * took, 1.01 * took)])
            outcomes[case.key] = took
            strategy.tell(case, took, took and ends, outraced=may_stop and took is not None and choose.random() < 0.3)

        for case in known:
            tell(case, may_stop=False)
        asked, again = [case.key for case in known], []
        while question := strategy.ask():
            (again if question.again else asked).append(question.case.key)
            tell(question.case, may_stop=question.behind is not None and not question.again)
        assert sorted(asked) == sorted(case.key for case in cases), number
        assert len(again) == len(set(again)), number
        assert strategy.ask() is None
        results = [case.key for found in strategy.result() for case in found]
        assert len(results) == len(set(results))
        assert all(outcomes[key] is not None for key in results), number
        assert bool(results) or all(took is None for took in outcomes.values()) or again, number
