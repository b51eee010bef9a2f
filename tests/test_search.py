"""Searches of a sweep: what they ask, what they leave out, and what they may never leave out."""

from __future__ import annotations

import importlib.util
import io
import math
import random
import statistics
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from gravbench.config.search import STRATEGIES, Search
from gravbench.config.settings import validated
from gravbench.errors import InputError
from gravbench.measuring.progress import ConsoleWatcher
from gravbench.model.case import Case
from gravbench.model.statistics import CONFIDENCE, median_interval
from gravbench.search.comparison_groups import contest, told_apart
from gravbench.search.sampled import SAMPLED
from gravbench.search.space import VARIANT, Space, point_of
from gravbench.search.strategies import of_names, start
from gravbench.search.strategy import Strategy
from gravbench.verdicts.racing import looks, outraced
from test_report import record

VARIANTS = {
    "approximate_tiled": SimpleNamespace(approximates="a fraction of the pairs"),
    "tiled": SimpleNamespace(approximates=None),
}
INSTALLED = [name for name in STRATEGIES if name not in SAMPLED or importlib.util.find_spec("optuna")]
needs_optuna = pytest.mark.skipif(not importlib.util.find_spec("optuna"), reason="Optuna is not installed")


def case(variant: str = "tiled", n: int = 1024, toolkit: str = "cupy", dtype: str = "float32", **axes) -> Case:
    return Case(
        variant=variant, toolkit=toolkit, axes=axes, n=n, dtype=dtype, bodies="plummer", subset="even", seed=1,
        eps=0.025, timed="force",
    )  # fmt: skip


def grid() -> list[Case]:
    """Two variants on two toolkits, with axes of which a condition excludes combinations."""
    tiled = [
        case(p=p, unroll=unroll, toolkit=toolkit)
        for p, unroll, toolkit in product((16, 32, 64, 128), (1, 2, 4, 8), ("cupy", "numba"))
        if unroll * 8 <= p and not (toolkit == "numba" and p == 128)
    ]
    split = [case("split", p=p, q=q, travel=way) for p, q, way in product((32, 64), (1, 2), ("shuffle", "shared"))]
    return tiled + split


def seconds_of(one: Case) -> float:
    return 1e-3 * (2 + abs(math.log2(one.axes["p"]) - 6) + one.axes.get("unroll", 3) / 10) * (one.n / 1024) ** 2


def run(strategy: Strategy, most: int = 1000) -> list[Case]:
    """Answer until the end without noise; return what was asked for the first time."""
    asked = []
    for _ in range(most):
        question = strategy.ask()
        if question is None:
            return asked
        if not question.again:
            asked.append(question.case)
        took = seconds_of(question.case)
        behind = question.behind is not None and took > question.behind
        strategy.tell(question.case, took, (0.999 * took, 1.001 * took), outraced=behind)
    raise AssertionError("a search without an end")


@pytest.mark.parametrize("name", INSTALLED)
def test_every_case_is_asked_once_and_the_same_seed_gives_the_same_order(name):
    cases = grid()
    orders = [[one.key for one in run(start(cases, Search(strategy=name, seed=seed), {}))] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == sorted(one.key for one in cases) for order in orders)


@pytest.mark.parametrize("name", INSTALLED)
def test_resumption_asks_nothing_twice_and_finds_the_same(name):
    cases = grid() + [one.model_copy(update={"n": 2048}) for one in grid()]
    whole = start(cases, Search(strategy=name), {})
    run(whole)
    first = start(cases, Search(strategy=name, budget_trials=25), {})
    earlier = [question.case for _ in range(25) if (question := first.ask())]
    resumed = start(cases, Search(strategy=name), {})
    for one in earlier:
        resumed.tell_record(record(one.variant, seconds_of(one), **one.model_dump(exclude={"variant"}), device="a GPU"))
    assert not {one.key for one in run(resumed)} & {one.key for one in earlier}
    assert [found[0].key for found in resumed.result()] == [found[0].key for found in whole.result()]


@pytest.mark.parametrize("name", INSTALLED)
def test_what_fails_is_not_asked_again_and_is_no_result(name):
    cases = grid()
    strategy = start(cases, Search(strategy=name), {})
    best = min(cases, key=seconds_of)
    asked = []
    while question := strategy.ask():
        if not question.again:
            asked.append(question.case.key)
        took = None if question.case.axes == best.axes else seconds_of(question.case)
        strategy.tell(question.case, took, took and (took, took))
    assert sorted(asked) == sorted(one.key for one in cases)
    assert all(one.axes != best.axes for found in strategy.result() for one in found)


@pytest.mark.parametrize("name", INSTALLED)
def test_a_budget_of_trials_counts_those_of_an_earlier_start_and_one_of_seconds_only_its_own(name):
    strategy = start(grid(), Search(strategy=name, budget_trials=12), {})
    for one in grid()[:5]:
        strategy.tell(one, seconds_of(one), (0.9, 1.1))
    assert len(run(strategy)) == 7
    moment = iter(range(1000))
    timed = start(grid(), Search(strategy=name, budget_seconds=7.5), {}, lambda: float(next(moment)))
    assert len(run(timed)) == 7


def test_cases_compete_where_they_compute_the_same_and_an_approximation_with_its_like():
    def same(one: Case, other: Case) -> bool:
        return contest(one, VARIANTS) == contest(other, VARIANTS)

    assert same(case(p=64), case("split", q=2, toolkit="numba"))
    assert same(case(), case("symmetric", equal_mass=0, terms=2))
    assert not same(case(), case(n=2048))
    assert not same(case(), case(dtype="float64"))
    assert not same(case(), case(toolkit="cpu"))
    assert not same(case(), case("symmetric", equal_mass=1))
    assert not same(case(), case("approximate_tiled", fraction=0.5))
    assert not same(case("approximate_tiled", fraction=0.5), case("approximate_tiled", fraction=0.25))
    assert same(case("approximate_tiled", fraction=0.5, p=64), case("approximate_tiled", fraction=0.5, p=128))


def test_contests_of_one_n_are_told_apart_by_what_differs_and_one_alone_by_nothing():
    cloud = "clouds/cloud.tab"
    rivals = [
        case(),
        case(dtype="float64"),
        case("symmetric", equal_mass=1),
        case("approximate_tiled", fraction=0.5),
        case().model_copy(update={"bodies": cloud, "bodies_file_sha256": "a" * 64}),
        case(n=2048),
    ]
    assert told_apart(rivals, VARIANTS) == [
        "plummer, float32",
        "plummer, float64",
        "plummer, float32, equal_mass=1",
        "plummer, float32, approximate_tiled fraction=0.5",
        "cloud.tab, bodies_file_sha256=aaaaaaaa, float32",
        "",
    ]


def test_the_line_about_a_contest_says_what_sets_it_apart():
    watcher = ConsoleWatcher(Console(file=io.StringIO(), width=200))
    fastest = [[case(p=64), case(p=128)], [case(dtype="float64")]]
    watcher.searched("cuda:0", fastest, told_apart([own[0] for own in fastest], VARIANTS))
    first, second = watcher.console.file.getvalue().splitlines()
    assert first.startswith("fastest on cuda:0 at n = 1,024, float32: tiled cupy n=1024 float32 p=64, and 1 that")
    assert second == "fastest on cuda:0 at n = 1,024, float64: tiled cupy n=1024 float64"
    watcher.searched("cuda:0", fastest[:1], told_apart([fastest[0][0]], VARIANTS))
    assert watcher.console.file.getvalue().splitlines()[2].startswith("fastest on cuda:0 at n = 1,024: tiled cupy")


def test_a_race_bounds_each_case_by_the_fastest_of_its_own_contest():
    cases = [case(p=p, n=n) for p in (16, 32, 64, 128) for n in (1024, 2048)]
    strategy = start(cases, Search(strategy="race", threshold=0.1), {})
    fastest: dict[int, float] = {}
    while (question := strategy.ask()) and not question.again:
        n, took = question.case.n, seconds_of(question.case)
        assert question.behind == (pytest.approx(1.1 * 1.001 * fastest[n]) if n in fastest else None)
        fastest[n] = min(took, fastest.get(n, math.inf))
        strategy.tell(question.case, took, (0.999 * took, 1.001 * took))


def test_a_race_repeats_its_finalists_once_and_they_are_its_result():
    cases = [case(p=p) for p in (16, 32, 64, 128, 256)]
    took = {16: 1.0, 32: 1.005, 64: 1.03, 128: 1.5, 256: 1.01}
    strategy = start(cases, Search(strategy="race"), {})
    again = []
    while question := strategy.ask():
        p = question.case.axes["p"]
        if question.again:
            again.append(p)
            # The second measurement finds another order, and one of them invalid.
            strategy.tell(question.case, None if p == 256 else 1.02 if p == 16 else 1.0, (0.9, 1.1))
        else:
            width = 0.02 if p == 64 else 0.001
            strategy.tell(question.case, took[p], (took[p] - width, took[p] + width), outraced=p == 128)
    assert sorted(again) == [16, 32, 64, 256]
    assert [one.axes["p"] for one in strategy.result()[0]] == [32, 16, 64]


def test_a_race_without_intervals_stops_nothing_and_drops_nothing():
    strategy = start([case(p=p) for p in (16, 32, 64)], Search(strategy="race"), {})
    asked = 0
    while question := strategy.ask():
        assert question.behind is None
        asked += 1
        strategy.tell(question.case, float(question.case.axes["p"]))
    assert (asked, len(strategy.result()[0])) == (6, 3)


def test_looks_come_after_few_samples_and_see_what_outraced_sees():
    samples = list(np.random.default_rng(1).lognormal(0.0, 0.001, 60))
    found = looks(samples)
    assert [count for count, _ in found] == [3, 7, 14, 28, 56]
    for count in range(61):
        low = dict(found).get(count, -math.inf)
        assert outraced(samples[:count], 0.9) == (low > 0.9)
    assert outraced(samples[:3], 0.9)
    assert not outraced(samples[:7], 1.001)
    assert not outraced(samples, None)


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_all_looks_together_stop_a_case_at_the_bound_less_often_than_stated(noise):
    generator = np.random.default_rng(3)
    drawn = generator.normal(0, 0.01, (1500, 56)) if noise == "normal" else generator.exponential(0.01, (1500, 56))
    samples = np.exp(drawn - (0 if noise == "normal" else 0.01 * math.log(2)))
    stopped = sum(any(low > 1.0 for _, low in looks(list(own))) for own in samples)
    assert stopped <= (1 - CONFIDENCE) / 2 * len(samples)


def test_a_race_never_drops_a_case_whose_median_is_within_the_threshold_of_the_best():
    generator = np.random.default_rng(2)
    threshold, races, dropped, close, stopped = 0.02, 60, 0, 0, 0
    for number in range(races):
        cases = [case(p=p, unroll=unroll) for p, unroll in product(range(1, 6), range(1, 7))]
        true = {one.key: 1 + 0.004 * i for i, one in enumerate(cases)}
        strategy = start(cases, Search(strategy="race", seed=number, threshold=threshold), {})
        while question := strategy.ask():
            samples = list(true[question.case.key] * generator.lognormal(0.0, 0.005, 14))
            taken = next((n for n in range(15) if outraced(samples[:n], question.behind)), None)
            interval = median_interval(samples[:taken])
            stopped += taken is not None
            ends = interval.low, interval.high
            strategy.tell(question.case, interval.median, ends, outraced=taken is not None)
        kept = {one.key for one in strategy.result()[0]}
        within = {key for key, median in true.items() if median <= 1 + threshold}
        close += len(within)
        dropped += len(within - kept)
    assert close == 6 * races
    assert dropped == 0
    # And yet most of the others are stopped early.
    assert stopped > 0.6 * 24 * races


def test_repairing_always_gives_an_existing_case_that_was_not_visited(attacks):
    choose = random.Random(5)
    for _ in range(100 * attacks):
        cases = choose.sample(grid(), choose.randrange(2, 30))
        space = Space(cases)
        taken: set[int] = set()
        while len(taken) < len(cases):
            variant = choose.choice(list(space.parameters))
            wanted = {name: choose.choice(values) for name, values in space.parameters[variant].items()}
            place = space.nearest({VARIANT: variant, **wanted}, taken)
            assert place not in taken
            assert 0 <= place < len(cases)
            taken.add(place)


def test_repairing_takes_the_point_itself_then_what_is_fewest_steps_away_and_last_another_variant():
    cases = [case(p=16, unroll=1), case(p=64, unroll=1), case(p=64, unroll=4), case("split", p=64, q=1)]
    space = Space(cases)
    assert space.nearest(point_of(cases[1]), set()) == 1
    assert space.nearest({**point_of(cases[0]), "unroll": 4}, set()) in (0, 2)
    assert space.nearest({**point_of(cases[1]), "unroll": 4}, {2}) == 1
    assert space.nearest(point_of(cases[1]), {1}) in (0, 2)
    assert space.nearest(point_of(cases[1]), {0, 1, 2}) == 3
    assert space.nearest(point_of(cases[3]), {3}) in (1, 2)


def test_values_that_are_equal_in_python_are_different_points():
    cases = [case(p=1), case(p=True), case(p="1"), case(p=1.0)]
    space = Space(cases)
    assert [space.nearest(point_of(one), set()) for one in cases] == [0, 1, 2, 3]


@pytest.mark.slow
@needs_optuna
def test_tpe_needs_fewer_measurements_than_random_on_a_separable_space_of_10_000_points():
    cases = [case(a=a, b=b, c=c, d=d) for a, b, c, d in product(range(10), repeat=4)]

    def took(one: Case) -> float:
        return 1 + sum((value - 5.3) ** 2 / 30 for value in one.axes.values())

    goal = 1.05 * min(map(took, cases))
    needed = {}
    for name in ("random", "tpe"):
        counts = []
        for seed in range(1, 6):
            strategy = start(cases, Search(strategy=name, seed=seed, budget_trials=100), {})
            count = 0
            while question := strategy.ask():
                count += 1
                if took(question.case) <= goal:
                    break
                strategy.tell(question.case, took(question.case))
            counts.append(count)
        needed[name] = statistics.median(counts)
    assert needed["tpe"] < 0.7 * needed["random"]


@pytest.mark.parametrize("name", SAMPLED)
def test_without_optuna_a_sampler_is_one_sentence_and_the_others_work(name, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda word, *more: None if word == "optuna" else found(word, *more)
    )
    with pytest.raises(InputError, match=rf"strategy {name} needs Optuna; install it .*gravbench\[search\]"):
        start(grid(), Search(strategy=name), {})
    assert [one.strategy for one in of_names([], 0.02)] == ["all", "race"]
    assert len(run(start(grid(), Search(strategy="race"), {}))) == len(grid())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"strategy": "tpee"}, "strategy is 'tpee'; did you mean tpe"),
        ({"budget_trials": 0}, "budget_trials is 0; accepted: 1 or more"),
        ({"budget_seconds": -1.0}, "budget_seconds is -1.0; accepted: more than 0"),
        ({"threshold": 1}, "threshold is 1; accepted: less than 1"),
        ({"seed": -1}, "seed is -1; accepted: 0 or more"),
        ({"budget": 3}, "unknown key 'budget'; did you mean budget_trials"),
    ],
)
def test_a_setting_of_a_search_that_is_not_accepted_is_one_sentence(data, sentence):
    with pytest.raises(InputError) as error:
        validated(Search, data, "a.yaml")
    assert sentence in str(error.value).replace('"', "'")
