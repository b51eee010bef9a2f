"""Random values in a table of the fastest variants: each gives a force that is right, or one sentence."""

import json
import os
import random
import subprocess
import sys

import pytest
import yaml
from sentence import NASTY_WORDS, answered

from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, discover
from gravbench.verdicts import fastest
from recorder import possible

VALUES, FORCES = 300, 40
TOOLKITS = [name for name, entry in catalogue().items() if entry.in_force]
ON_CPU = [variant for variant in discover().values() if CPU in variant.toolkits]
NASTY = [
    None,
    True,
    False,
    [],
    {},
    [1],
    0,
    -1,
    7,
    2**31,
    10_000_000,
    2**63,
    -(2**63),
    10**200,
    0.5,
    -0.5,
    1e308,
    1e-308,
]

# Bodies that are not planar; every force is compared with a direct sum in float64.
PROGRAM = """
import json, sys
import numpy as np
from gravbench import force
from gravbench.errors import InputError
from gravbench.model.variant import discover

generator = np.random.default_rng(1)
x, m = generator.normal(size=(300, 3)), generator.uniform(1, 2, 300)
apart = x[None] - x[:, None]
pulls = m[None, :, None] * apart / ((apart**2).sum(-1) + 0.01)[..., None] ** 1.5
exact, sizes = pulls.sum(1), np.sqrt((pulls**2).sum(-1)).sum(1)
for path, name, dtype, axes in json.load(sys.stdin):
    print(path, axes, flush=True)
    try:
        found = force(x, m, eps2=0.01, table=path, toolkit="cpu", error=1e9, dtype=dtype)
    except InputError as error:
        print("refused", error)
        continue
    errors = np.linalg.norm(found - exact, axis=1) / sizes
    accepted = discover()[name].accepted(dtype, axes)
    assert errors.max() <= accepted.max, errors.max()
    assert np.sqrt((errors**2).mean()) <= max(accepted.rms, 1e-6), errors
    print("right", flush=True)
"""


def drawn(choose, variant, axis):
    """Draw a value: anything, one that is listed, or a number in and around the range."""
    kind = choose.randrange(4)
    if kind == 0:
        return choose.choice([*NASTY, *(word for word in NASTY_WORDS if word.isprintable())])
    if kind == 1 or axis not in variant.ranges:
        return choose.choice(variant.axes[axis])
    numbers = variant.ranges[axis]
    if kind == 2:
        return choose.choice([numbers.least, numbers.most, numbers.least - 1, numbers.most + 1])
    return choose.randint(round(numbers.least), round(numbers.most))


def saved(path, toolkit, variant, dtype, axes):
    choice = {"variant": variant.name, "dtype": dtype, "axes": axes, "error_max": [1e-5], "seconds": [1.0]}
    measured = {"toolkit": toolkit, "device": "made up", "n": [1024], "choices": [choice]}
    path.write_text(yaml.safe_dump({"runs": [], "threshold": 0.02, "bodies": {}, "measured": [measured]}), "utf-8")
    return path


def test_any_value_of_an_axis_in_a_table_is_one_that_runs_or_gets_one_sentence(attacks, tmp_path):
    taken = refused = 0
    for number in range(VALUES * attacks):
        choose = random.Random(f"table {number}")
        toolkit = choose.choice(TOOLKITS)
        variant = choose.choice([one for one in discover().values() if toolkit in one.toolkits and one.axes])
        changed = choose.sample([*variant.axes], choose.randint(0, min(3, len(variant.axes))))
        axes = variant.defaults | {axis: drawn(choose, variant, axis) for axis in changed}
        path = saved(tmp_path / f"{number}.yaml", toolkit, variant, "float32", axes)
        with answered((variant.name, toolkit, axes)) as said:
            try:
                (choice,) = fastest.read(path).of(toolkit).choices
            except fastest.InputError as error:
                said += str(error).split("\n")
                refused += str(error).startswith(f"{path}, line ")
                continue
            taken += 1
            assert possible(variant, choice.axes, toolkit)
            assert choice.axes.get("dim", 3) == 3
            for axis, value in choice.axes.items():
                again = variant.find_value(axis, value)
                assert (type(again), again) == (type(value), value)
    assert taken > 20
    assert taken + refused == VALUES * attacks


def test_any_table_gives_the_right_force_on_the_cpu_or_one_sentence(attacks, tmp_path):
    tables = []
    for number in range(FORCES * attacks):
        choose = random.Random(f"force {number}")
        variant = choose.choice([one for one in ON_CPU if one.axes] if number % 5 else ON_CPU)
        changed = choose.sample([*variant.axes], choose.randint(0, min(2, len(variant.axes))))
        axes = variant.defaults | {axis: drawn(choose, variant, axis) for axis in changed}
        dtype = choose.choice(variant.dtypes)
        path = saved(tmp_path / f"{number}.yaml", CPU, variant, dtype, axes)
        tables.append((str(path), variant.name, dtype, axes))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(tables), capture_output=True, text=True, timeout=240 * attacks, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    answers = [line for line in done.stdout.splitlines() if line.startswith(("right", "refused"))]
    assert len(answers) == len(tables)
    assert sum(line == "right" for line in answers) > 5


@pytest.mark.parametrize(
    ("axis", "value", "message"),
    [
        ("dim", 7, r"line \d+: barnes_hut_cpu has no dim = 7; accepted: 2, 3"),
        ("dim", 2, r"line \d+: barnes_hut_cpu with dim = 2 computes in the plane; accepted: dim = 3"),
        ("width", 10_000_000, r"barnes_hut_cpu has no width = 10000000; accepted: divisors of 64 from 1 to 64"),
        ("sort", "none", r"line \d+: barnes_hut_cpu does not run with .*; accepted: axes with .*width == 1"),
        ("theta", "0.7x", r'line \d+: barnes_hut_cpu has no theta = "0.7x"; accepted: 0 and numbers from 0.05 to 1.4'),
        ("cores", 5, r"line \d+: barnes_hut_cpu has no cores = 5; accepted: one, all"),
    ],
)
def test_a_sentence_names_the_file_the_axis_the_value_and_what_is_accepted(tmp_path, axis, value, message):
    variant = discover()["barnes_hut_cpu"]
    path = saved(tmp_path / "table.yaml", CPU, variant, "float32", variant.defaults | {axis: value})
    with pytest.raises(fastest.InputError, match=message) as raised:
        fastest.read(path)
    assert str(raised.value).startswith(str(path))


def test_what_is_no_whole_force_in_one_evaluation_is_refused(tmp_path):
    for variant, axes, reason in (
        ("approximate_tiled", {"fraction": 0.5}, "computes a part of the pairs .*; accepted: fraction = 1"),
        ("tiled_gpus", {"gpus": 2}, "uses several GPUs; accepted: gpus = 1"),
        ("soa_direct", {"dim": 2}, "computes in the plane; accepted: dim = 3"),
    ):
        one = discover()[variant]
        path = saved(tmp_path / f"{variant}.yaml", "cupy", one, "float32", one.complete(axes))
        with pytest.raises(fastest.InputError, match=reason):
            fastest.read(path)
