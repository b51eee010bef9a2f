"""Random values for random axes: each gives cases that can run, or one sentence."""

import random

from sentence import NASTY_WORDS, answered

from gravbench.config.load import load
from gravbench.model.variant import discover
from recorder import possible

VALUES = 500
AXES = [(one.name, axis) for one in discover().values() for axis in one.axes]
WORDS = [*NASTY_WORDS, "2^9999", "9^-9999", "1/0", "0/1", "10k", "4M", "1e6", "1e-6", "2**10", "1e0", "1.5k", "-0", "k"]


def drawn(choose, one, axis):
    """Draw a value: any word, one that is listed, or a number in and around the range."""
    kind = choose.randrange(4)
    if kind == 0 or axis not in one.ranges:
        return choose.choice([*WORDS, *map(str, one.axes[axis])])
    numbers = one.ranges[axis]
    if kind == 1:
        return str(choose.choice([numbers.least, numbers.most, numbers.least - 1, numbers.most + 1]))
    if kind == 2:
        return str(choose.uniform(numbers.least, numbers.most))
    return str(round(numbers.least + 2 ** choose.uniform(0, 11)))


def test_any_value_of_an_axis_gives_cases_that_can_run_or_one_sentence(attacks, tmp_path):
    path = tmp_path / "x.yaml"
    taken = 0
    for number in range(VALUES * attacks):
        choose = random.Random(f"axis {number}")
        name, axis = choose.choice(AXES)
        one = discover()[name]
        others = [other for other in one.axes if other == axis or choose.random() < 0.3]
        given = [f"{other}={drawn(choose, one, other)}" for other in others]
        path.write_text(f"n: 64\nvariants: {name}")
        with answered(given):
            cases = load(str(path), given).cases
            taken += len(cases)
            for case in cases:
                assert possible(one, case.axes, case.toolkit)
                for other, value in case.axes.items():
                    # What a record has is taken again, as the same value.
                    again = one.find_value(other, value)
                    assert (type(again), again) == (type(value), value)
    assert taken > 50
