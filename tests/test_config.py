"""Configurations: what they mean, and that every mistake in one is a sentence that says where it is."""

import json
import re
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import ROOT, missing_variants
from gravbench.config import limits, request
from gravbench.config.condition import Condition
from gravbench.config.load import find, load, packaged
from gravbench.config.override import parse
from gravbench.config.settings import FEWEST_SAMPLES, Measure, Subset
from gravbench.errors import FIRST_NAMES, MOST_CHARACTERS, InputError, nearest
from gravbench.measuring import environment
from gravbench.measuring.plan import plan
from gravbench.measuring.tasks import CPU_INTERACTIONS_PER_SECOND, LAUNCHES_JUDGED, estimate_seconds
from gravbench.model import bodies_readers, files, importing
from gravbench.model.device import Device
from gravbench.model.initial_conditions import SUBSETS
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover

PACKAGED_NAMES = (
    "3dgep arena arena_steps beyond bodin2026 bodin2026_accuracy bodin2026_direct chamomile counters fastest "
    "fastest_cpu gems3 gpus hard_bodies ladder languages lee2008 plummer_seeds quick race sources wgpu"
)
ALL_PACKAGED = ", ".join(PACKAGED_NAMES.split())

SOURCES = ("3dgep", "Bodin 2026", "GPU Gems 3", "Hamada & Iitaka 2007", "Lee 2008")
"""The published sources, as the variants name them."""
NOT_IN_SOURCES = {
    **dict.fromkeys(
        ("naive", "float4", "approximate_global", "approximate_tiled", "staggered"), "the path lee2008 has them"
    ),
    "numpy_direct": "a formula, which the source times in no program",
    "numba_symmetric": "a technique that the source names, with the time of a program that also uses others",
}
"""Variants of a source that the sweep ``sources`` leaves out, and why."""

OWN_VARIANT = '''"""A variant of one's own."""

from gravbench.model.variant import variant


@variant(
    parent=None,
    source="a test",
    axes={"theta": (0.2, 0.5, 0.6, 1.0), "order": ("morton", "hilbert"), "cached": (True, False)},
    defaults={"theta": 0.5, "order": "morton", "cached": True},
    dtypes=("float32",),
)
def prepare(cpu, bodies, *, theta, order, cached):
    """Not called."""
'''


INTERACTION = '''"""A spring of no length."""


def interact(sums, i, j, eps2):
    """Pull."""
    sums.ax += j.mass * (j.x - i.x)
'''


@pytest.fixture
def write(tmp_path):
    """Write a configuration, given as text, and return its path."""

    def writing(text: str) -> str:
        path = tmp_path / "x.yaml"
        path.write_text(text, "utf-8")
        return str(path)

    return writing


@pytest.fixture
def own(tmp_path):
    """Make a folder of variants with the variant ``own``."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "own.py").write_text(OWN_VARIANT)
    return folder


def cases(path, *arguments, **named):
    return load(path, *arguments, **named).cases


def grid(found, *names):
    """Take the named settings and axes of every case."""
    return [tuple({**case.model_dump(), **case.axes}[name] for name in names) for case in found]


def refusal(path, *arguments, **named):
    with pytest.raises(InputError) as caught:
        load(path, *arguments, **named)
    message = str(caught.value)
    assert "\n" not in message
    return message


# What a configuration means


def test_the_sweep_of_the_sources_has_what_they_printed():
    of_a_source = {name for name, each in discover().items() if any(source in each.source for source in SOURCES)}
    measured = {case.variant for case in load("sources").cases}
    assert measured <= of_a_source
    assert of_a_source - measured == NOT_IN_SOURCES.keys()


def test_a_scalar_is_fixed_and_a_list_is_swept(write):
    found = cases(
        write("n: [64, 128]\nseed: 3\nvariants:\n - {variant: tiled, toolkit: cupy, p: [64, 128], unroll: 8}")
    )
    assert sorted(grid(found, "n", "p", "unroll", "seed")) == [
        (64, 64, 8, 3),
        (64, 128, 8, 3),
        (128, 64, 8, 3),
        (128, 128, 8, 3),
    ]


def test_everything_can_be_swept(write):
    two_each = "bodies: [plummer, uniform]\nseed: [1, 2]\neps: [0.1, 1]\ndtype: [float32, float64]"
    found = cases(write(f"n: 64\n{two_each}\nvariants: numpy_direct"))
    assert len(found) == len(set(grid(found, "bodies", "seed", "eps", "dtype"))) == 16


def test_what_is_not_said_has_a_default(write):
    (case,) = cases(write("n: 64\nvariants: numpy_direct"))
    said = (case.bodies, case.subset, case.seed, case.eps, case.dtype, case.timed)
    assert said == ("plummer", "even", 1, 0.025, "float32", "force")
    sweep = load(write("n: 64\nvariants: tiled"))
    assert (sweep.measure, sweep.flops_per_interaction, sweep.description) == (Measure(), {}, "")
    assert grid(sweep.cases, "toolkit", "p", "unroll") == [(name, 256, 32) for name in ("cupy", "pycuda", "numba")]


def test_the_whole_of_a_sweep_is_read(write, own):
    settings = "description: Why\nflops_per_interaction: 38\nmeasure: {half_width: 0.1}"
    path = write(f"{settings}\nvariant_folders: [{own.name}]\nn: 8\nvariants: own")
    sweep = load(path)
    assert (sweep.name, sweep.path, sweep.description) == ("x", Path(path), "Why")
    assert (sweep.flops_per_interaction, sweep.variant_folders) == ({"": 38.0}, (own,))
    assert (sweep.measure.half_width, sweep.measure.min_samples) == (0.1, 10)
    assert grid(sweep.cases, "variant", "theta", "order", "cached") == [("own", 0.5, "morton", True)]


def test_an_entry_overrides_what_is_said_for_all(write):
    text = (
        "n: 64\neps: 0.5\nvariants:\n - numpy_direct\n - {variant: numba_direct, n: [8, 16], dtype: float64, seed: 7}"
    )
    assert grid(cases(write(text)), "variant", "n", "dtype", "seed", "eps") == [
        ("numpy_direct", 64, "float32", 1, 0.5),
        ("numba_direct", 8, "float64", 7, 0.5),
        ("numba_direct", 16, "float64", 7, 0.5),
    ]


def test_an_entry_can_name_a_default_explicitly(write):
    found = cases(write("n: 64\nseed: 9\nvariants:\n - {variant: numpy_direct, seed: 1}"))
    assert grid(found, "seed") == [(1,)]


def test_a_case_said_twice_is_there_once(write):
    found = cases(
        write("n: [64, 64]\nvariants:\n - numpy_direct\n - numba_direct\n - {variant: numpy_direct, n: [64, 32]}")
    )
    assert grid(found, "variant", "n") == [("numpy_direct", 64), ("numba_direct", 64), ("numpy_direct", 32)]


def test_all_means_every_built_in_variant_and_no_other(write, own):
    found = cases(write(f"n: 64\nvariant_folders: [{own.name}]\nvariants: all"))
    assert {case.variant for case in found} == set(discover())


def test_a_toolkit_of_all_leaves_out_the_variants_without_it(write):
    found = cases(
        write("n: 64\nvariants:\n - {variant: all, toolkit: cpu, p: 64}\n - {variant: tiled, toolkit: [numba, cupy]}")
    )
    assert {case.toolkit for case in found if case.variant.startswith("num")} == {"cpu"}
    assert {case.toolkit for case in found if case.variant == "tiled"} == {"numba", "cupy"}
    assert "naive" not in {case.variant for case in found}


def test_an_axis_applies_to_the_variants_that_have_it(write):
    found = cases(write("n: 64\nvariants:\n - {variant: [float4, tiled], toolkit: cupy, p: 64, unroll: [8, 16]}"))
    assert [(case.variant, case.axes) for case in found] == [
        ("float4", {"p": 64}),
        ("tiled", {"p": 64, "unroll": 8}),
        ("tiled", {"p": 64, "unroll": 16}),
    ]


def test_axes_keep_the_type_and_order_the_variant_declares(write, own):
    text = (
        f"n: 8\nvariant_folders: [{own.name}]\nvariants:\n - {{variant: own, cached: false, order: hilbert, theta: 1}}"
    )
    (case,) = cases(write(text))
    assert list(case.axes.items()) == [("theta", 1.0), ("order", "hilbert"), ("cached", False)]
    assert type(case.axes["theta"]) is float
    assert case.axes["cached"] is False


def test_numbers_are_those_of_yaml_1_2(write):
    assert grid(cases(write("n: 64\neps: 1e-3\nvariants: numpy_direct")), "eps") == [(1e-3,)]


def test_anchors_stand_for_what_they_name(write):
    found = cases(write("n: &sizes [8, 16]\nvariants:\n - {variant: numpy_direct, n: *sizes, seed: *sizes}"))
    assert sorted(grid(found, "n", "seed")) == [(8, 8), (8, 16), (16, 8), (16, 16)]


# when


def test_when_keeps_the_combinations_it_is_true_of(write):
    entry = "{variant: tiled, p: [64, 128], unroll: 8, when: n >= p and toolkit == 'cupy'}"
    found = cases(write(f"n: [64, 128]\nvariants: {entry}"))
    assert sorted(grid(found, "toolkit", "n", "p")) == [("cupy", 64, 64), ("cupy", 128, 64), ("cupy", 128, 128)]


def test_when_may_keep_a_variant_only_if_the_command_line_names_it(write):
    path = write('n: 64\nvariants: {variant: [naive, tiled], when: chosen or variant != "tiled"}')
    assert {case.variant for case in cases(path)} == {"naive"}
    assert {case.variant for case in cases(path, variants=["tiled"])} == {"tiled"}
    assert {case.variant for case in cases(path, variants=["naive", "tiled"])} == {"naive", "tiled"}


def test_combinations_a_variant_cannot_run_are_dropped(write):
    found = cases(write("n: 64\nvariants:\n - {variant: tiled, toolkit: cupy, p: [32, 64], unroll: [32, 64]}"))
    assert grid(found, "p", "unroll") == [(32, 32), (64, 32), (64, 64)]


def test_a_toolkit_whose_kernel_ignores_an_axis_takes_one_value_of_it(write):
    path = write(
        "n: 64\nvariants:\n"
        " - {variant: register_blocked, toolkit: [cupy, numba], mass_first: [0, 1], warps: [0, 16]}\n"
        " - {variant: split_j, toolkit: [cupy, numba], warps: [0, 16]}\n"
    )
    found = cases(path)
    assert grid([case for case in found if case.variant == "register_blocked"], "toolkit", "mass_first", "warps") == [
        *[("cupy", mass_first, warps) for mass_first in (0, 1) for warps in (0, 16)],
        ("numba", 1, 0),
    ]
    split_j = [case for case in found if case.variant == "split_j"]
    assert grid(split_j, "toolkit", "warps") == [("cupy", 0), ("cupy", 16), ("numba", 0)]


def test_what_a_toolkit_cannot_run_is_named_with_the_reason(write):
    on_numba = 'toolkit != "numba" or warps == 0'
    message = refusal(write("n: 64\nvariants: {variant: split_j, toolkit: numba, warps: 16}"))
    assert f"every combination is removed by split_j, which needs {on_numba} (1)" in message
    message = refusal(write("n: 64\nvariants: {variant: split_j, toolkit: [cupy, numba], warps: 16, when: n > 64}"))
    assert f"split_j on numba, which needs {on_numba} (1); when: n > 64 (1)" in message


def test_a_part_of_when_about_an_axis_is_not_asked_of_a_variant_without_it(write):
    axes = "toolkit: cupy, p: 128, unroll: [8, 16]"
    text = f"n: [64, 256]\nvariants: {{variant: [float4, tiled], {axes}, when: unroll < 16 and n >= p}}"
    assert [(case.variant, case.n, case.axes.get("unroll")) for case in cases(write(text))] == [
        ("float4", 256, None),
        ("tiled", 256, 8),
    ]


def test_a_dtype_a_variant_does_not_have_is_dropped(write, own):
    found = cases(write(f"n: 8\ndtype: [float64, float32]\nvariant_folders: [{own.name}]\nvariants: own"))
    assert grid(found, "dtype") == [("float32",)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n in (64, 128)", True),
        ("n not in [64]", False),
        ("not n == 64", False),
        ("32 < n <= 64", True),
        ("dtype == 'float32' and n % 32 == 0", True),
        ("n // 3 * 3 + 1 - 0.5 < n / 1", True),
        ("n == -64 or True", True),
        ('dtype in ("float64", "float32")', True),
    ],
)
def test_conditions(text, value):
    assert Condition(text, ["n", "dtype"], "here").holds({"n": 64, "dtype": "float32"}) is value


@pytest.mark.parametrize(
    "text", ["a < b and b < c", "a < 3 and b != 0 and a / b > 2", "a < c or c < b", "a < 9", "a > 9 and b > 0"]
)
def test_verdicts_are_those_of_all_combinations(text):
    condition = Condition(text, ["a", "b", "c"], "here")
    for a, b, c in product(((1.0,), (1.0, 3.0)), ((0.0,), (0.0, 0.25), (2.0, 4.0)), ((5.0,), (0.5, 3.5))):
        expected = {condition.holds({"a": x, "b": y, "c": z}) for x, y, z in product(a, b, c)}
        assert condition.verdicts({"a": a, "b": b, "c": c}) == expected


def test_verdicts_of_many_names_take_no_time():
    """Of their 2 ** 60 combinations nobody looks at all."""
    names = [f"n{number}" for number in range(60)]
    condition = Condition(" and ".join(f"{name} < 3" for name in names[:30]), names, "here")
    assert condition.verdicts(dict.fromkeys(names, (1.0, 2.0))) == {True}


@pytest.mark.parametrize(
    "text",
    [
        "().__class__",
        "n.real > 0",
        "n.__class__ == 1",
        "__import__('os')",
        "print(n) == 1",
        "int(n) == 1",
        "(lambda: True)()",
        "[n for n in (1, 2)] == 1",
        "[1][0] == 1",
        "{1: 2} == 1",
        "(m := n) == 1",
        "f'{n}' == '1'",
        "n ** 9 > 1",
        "n << 9 > 1",
        "n is 1",
        "None == n",
        "b'' == n",
        "n > 1 if n else True",
        "n = 1",
        "n > 1; n > 2",
        "n >",
        "",
        "n > 1\x00",
        "n > " + "1" * 600,
        "-" * 490 + "n > 1",
        "(" * 300 + "n",
    ],
)
def test_conditions_hold_comparisons_and_nothing_else(text):
    with pytest.raises(InputError, match=r"^here: when "):
        Condition(text, ["n"], "here").holds({"n": 64})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n", "gives 64 (with n = 64); accepted: true or false"),
        ("n > 1 and n", "gives 64"),
        ("n / 0 > 1", "cannot be computed (with n = 64): division by zero"),
        ("n > 'a'", "cannot be computed"),
        ("'%999999999d' % n == 'a'", "cannot be computed"),
        ("'a' * 99999 == 'b'", "cannot be computed"),
        ("n in 5", "cannot be computed"),
        ("1.5", "gives 1.5;"),
    ],
)
def test_a_condition_that_is_not_true_or_false_is_refused(text, words):
    with pytest.raises(InputError) as caught:
        Condition(text, ["n"], "here").holds({"n": 64})
    assert words in str(caught.value)


def test_a_misspelt_name_is_found_even_where_it_would_not_be_reached(write):
    message = refusal(write("n: 64\nvariants:\n - variant: tiled\n   when: n > 1000 and unrol <= p"))
    assert "x.yaml, line 4: when" in message
    assert 'names "unrol"; did you mean unroll?' in message


def test_what_is_not_selected_is_checked_all_the_same(write):
    path = write("n: 64\nvariants:\n - numpy_direct\n - {variant: tiled, when: unrol <= p}")
    assert refusal(path, variants=["numpy_direct"]).startswith(f"{path}, line 4: when ")


def test_an_entry_without_a_case_says_what_removed_them(write):
    message = refusal(
        write("n: 64\nvariants:\n - naive\n - {variant: tiled, toolkit: cupy, p: [32, 64], unroll: 64, when: n > p}")
    )
    assert "x.yaml, line 4: no case is left" in message
    assert "tiled, which needs p % unroll == 0 (1)" in message
    assert "when: n > p (1)" in message


# Mistakes in the file

THREADS = "whole numbers from 1 to 1,024 (at most 1,024 threads per block)"
TILED = "n: 64\nvariants:\n - variant: tiled\n   "


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("n: 64\nvariant: naive\nvariants: naive", 2, 'unknown key "variant"; did you mean variants? accepted: '),
        ("n: 64\nmeasure:\n  budget: 1\nvariants: naive", 3, 'unknown key "budget"; '),
        ("n: 64", 1, "the key variants is missing"),
        ("n: 64\nvariants:\n - p: 64", 3, "the key variant is missing"),
        ("n: 64\nvariants: []", 2, "accepted: at least one value"),
        ("n: 64\nvariants: [naive, 3]", 2, "an entry of variants is 3; accepted: keys and values"),
        ("n: 64\nvariants:\n - naive\n - tilde", 4, 'no variant "tilde"; did you mean tiled? accepted: tiled and '),
        (
            TILED + "toolkit: [cupy, numbas]",
            4,
            'no toolkit "numbas"; did you mean numba? accepted: cupy, pycuda, numba',
        ),
        (TILED + "toolkit: cpu", 4, "toolkit cpu has no tiled; accepted: cupy, pycuda, numba"),
        (
            "n: 64\nvariants:\n - variant: [naive, numpy_direct]\n   toolkit: cupy",
            4,
            "numpy_direct runs on no cupy; accepted: cpu",
        ),
        (TILED + "unrol: 8", 4, 'tiled has no axis "unrol"; did you mean unroll? accepted: p, unroll, '),
        (
            TILED + "stagger: 1",
            4,
            "tiled no longer has the axis stagger; it is always 0; for other values, use the variant ",
        ),
        (TILED + "toolkt: cupy", 4, 'tiled has no axis "toolkt"; did you mean toolkit?'),
        (
            "n: 64\nvariants:\n - variant: [naive, float4]\n   unroll: 8",
            4,
            'none of naive, float4 has an axis "unroll"',
        ),
        (TILED + "p: [64, 1025]", 4, f"tiled has no p = 1025; accepted: {THREADS}"),
        (TILED + 'p: "64"', 4, f'tiled has no p = "64"; accepted: {THREADS}'),
        (TILED + "p: 64.0", 4, "tiled has no p = 64.0; "),
        (TILED + "unroll: true", 4, "tiled has no unroll = true; accepted: whole numbers from 1 to 128 ("),
        (TILED + "p: []", 4, "p is []; accepted: at least one value"),
        (TILED + "p: [[64]]", 4, "tiled has no p = [64]; "),
        (TILED + "p:", 4, "tiled has no p = null; "),
        (TILED + "n: [8,\n      0]", 5, "n is 0; accepted: 1 or more"),
        (TILED + "when: n", 4, "gives 64"),
        (TILED + "when: true", 4, "when is true; accepted: a text"),
        (
            "dtype: float46\nn: 64\nvariants: naive",
            1,
            'dtype is "float46"; did you mean float64? accepted: float32, float64',
        ),
        ("dtype: [[1]]\nn: 64\nvariants: naive", 1, "dtype is [1]; accepted: float32, float64"),
        ("subset: evne\nn: 64\nvariants: naive", 1, 'subset is "evne"; did you mean even? accepted: even, lee'),
        (
            "timed: forces\nn: 64\nvariants: naive",
            1,
            'timed is "forces"; did you mean force? accepted: force, step, call',
        ),
        ("\nn: -1\nvariants: naive", 2, "n is -1; accepted: 1 or more"),
        ('n: "1024"\nvariants: naive', 1, 'n is "1024"; accepted: a whole number'),
        ("n: true\nvariants: naive", 1, "n is true; accepted: a whole number"),
        ("n: 64.0\nvariants: naive", 1, "n is 64.0; accepted: a whole number"),
        ("n: 0100\nvariants: naive", 1, 'n is "0100"; accepted: a whole number'),
        ("n:\nvariants: naive", 1, "n is null; accepted: a whole number"),
        ("n: []\nvariants: naive", 1, "n is []; accepted: at least one value"),
        ("n: 3000000000\nvariants: naive", 1, "n is 3000000000; accepted: up to 2147483647"),
        ("n: 64\neps: 0\nvariants: naive", 2, "eps is 0; accepted: 1e-09 or more"),
        ("n: 64\neps: -0.5\nvariants: naive", 2, "eps is -0.5; "),
        ("n: 64\neps: 1e999\nvariants: naive", 2, "eps is inf; accepted: a finite number"),
        ("n: 64\neps: .nan\nvariants: naive", 2, 'eps is ".nan"; accepted: a finite number'),
        ("n: 64\nseed: -1\nvariants: naive", 2, "seed is -1; accepted: 0 or more"),
        ("n: 64\ndescription: 3\nvariants: naive", 2, "description is 3; accepted: a text"),
        ("n: 64\nflops_per_interaction: 0\nvariants: naive", 2, "flops_per_interaction is 0; accepted: more than 0"),
        ("n: 64\nmeasure: 3\nvariants: naive", 2, "measure is 3; accepted: keys and values"),
        ("n: 64\nmeasure: {half_width: 1}\nvariants: naive", 2, "measure.half_width is 1; accepted: less than 1"),
        ("n: 64\nmeasure:\n  min_samples: 0\nvariants: naive", 3, "measure.min_samples is 0; accepted: 1 or more"),
        (
            "n: 64\nmeasure:\n  budget_seconds: -1\nvariants: naive",
            3,
            "measure.budget_seconds is -1; accepted: more than 0",
        ),
        (
            "n: 64\nbodies: plumer\nvariants: naive",
            2,
            'bodies is "plumer", neither a file nor a generator; did you mean plummer?',
        ),
        ("n: 64\nbodies: .\nvariants: naive", 2, 'bodies is ".", a directory, neither a file nor'),
        ("n: 64\nbodies: [plummer,\n  no.tab]\nvariants: naive", 3, 'bodies is "no.tab", neither a file'),
        ("n: 64\nvariant_folders: mine\nvariants: naive", 2, 'variant_folders is "mine"; accepted: a list'),
        ("n: 64\nvariant_folders:\n - none\nvariants: naive", 3, 'variant_folders has "none", but '),
        ("seed: 1\nvariants: numpy_direct", 2, "n is missing, but plummer can make any number of bodies"),
        ("n: 64\nvariants: naive\nn: 32", 3, 'the key "n" occurs twice; accepted: once'),
        ("n: 64\nvariants:\n - variant: tiled\n   p: 64\n   p: 128", 5, 'the key "p" occurs twice'),
        ("n: 64\n3: 4\nvariants: naive", 2, "3 is not a key; accepted: text"),
        ("n: 64\n? [a]\n: 4\nvariants: naive", 2, "['a'] is not a key; accepted: text"),
        ("n: 64\nvariants: [naive", 2, "invalid YAML: "),
        ("n: 64\n\tvariants: naive", 2, "invalid YAML: "),
        ("n: 64\nvariants: \x07", 2, "invalid YAML: "),
        ("n: 64\nvariants: *all", 2, "invalid YAML: found undefined alias"),
        ("n: 64\n---\nvariants: naive", 2, "invalid YAML: but found another document"),
        ("n: !!python/object:os.system 64\nvariants: naive", 1, 'tag "tag:yaml.org,2002:python/object:os.system"'),
        ("n: 64\nvariants: &all [*all]", 2, "an alias inside its own anchor"),
        ("- naive", 1, "the file is ['naive']; accepted: keys and values"),
        ("naive", 1, 'the file is "naive"; accepted: keys and values'),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(write, text, line, words):
    path = write(text)
    message = refusal(path)
    assert message.startswith(f"{path}, line {line}: "), message
    assert words in message


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "null"])
def test_an_empty_file_is_refused(write, text):
    path = write(text)
    assert refusal(path).startswith(f"{path}: empty; accepted: keys and values")


def test_a_sweep_beyond_reason_is_refused(write):
    path = write("n: 64\nseed: [" + ", ".join(map(str, range(200))) + "]\nvariants: numpy_direct")
    assert f"{path}: 200000 combinations; accepted: up to " in refusal(path, ["n=1..1000+1"])


def test_the_documentation_has_the_same_limits_as_the_code():
    said = (ROOT / "docs" / "reference" / "limits.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([0-9,]+)[^|]* \|$", said, re.MULTILINE))
    assert {name: int(number.replace(",", "")) for name, number in rows.items()} == {
        "combinations in a run, before `when` removes any; values of one key": limits.MOST_CASES,
        "elements of `variants`": limits.MOST_ENTRIES,
        "values of one range": limits.MOST_RANGE,
        "size of a configuration file": limits.MOST_BYTES,
        "nesting of lists and mappings": limits.MOST_LEVELS,
        "keys and values in a file, with aliases expanded": limits.MOST_PARTS,
        "length of a `when` expression": limits.MOST_IN_CONDITION,
        "digits in an integer": limits.MOST_DIGITS,
        "each time in `measure`": limits.MOST_SECONDS,
        "length of an error message": MOST_CHARACTERS,
        "bodies in a file": bodies_readers.MOST_BODIES,
        "size of the file of a variant": files.MOST_TEXT,
        "time to import the file of a variant": importing.SECONDS,
        "files and folders in a folder of variants": importing.MOST_FILES,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n: 64\nvariants: naive\n#" + "x" * limits.MOST_BYTES, ": cannot be read: too large; accepted: up to 524288 "),
        ("n: " + "[" * 21 + "]" * 21, ", line 1: nested too deeply; accepted: up to 20 levels"),
        ("".join(f"k{i}: &k{i} [{f'*k{i - 1}' if i else 1}]\n" for i in range(25)), ", line 21: nested too deeply"),
        (
            "".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9) if i else 1}]\n" for i in range(10)),
            ", line 6: too many values with aliases expanded; accepted: up to 100000",
        ),
        ("n: [" + "1, " * 100_000 + "1]", ", line 1: too many values with aliases expanded; accepted: up to 100000"),
        ("n: 64\nvariants: [" + "naive, " * 1000 + "naive]", "accepted: up to 1000 values"),
        ("n: [" + "1, " * 20_000 + "1]\nvariants: naive", "accepted: up to 20000 values"),
        ("n: 64\nvariants: naive\nmeasure: {timeout_seconds: 1e8}", "measure.timeout_seconds is 100000000; accepted"),
        ("n: 64\nvariants: [{variant: naive, when: '" + "1" * 501 + "'}]", "has 501 characters; accepted: up to 500"),
        ("n: 64\nvariants: naive\nseed: " + "9" * 301, 'seed is "99999999999999999999999999999...9999'),
    ],
    ids=range(10),
)
def test_what_is_beyond_a_limit_is_refused_with_the_limit(write, text, words):
    message = refusal(write(text))
    assert words in message
    assert len(message) < MOST_CHARACTERS


def test_a_product_of_axes_is_refused_before_it_is_made(write, monkeypatch):
    monkeypatch.setattr(request, "cases_of", None)
    many = ", ".join(["64"] * 300)
    axes = f"p: [{many}], unroll: [{many}], dtype: [{', '.join(['float32'] * 300)}]"
    path = write(f"n: 64\nvariants: [{{variant: tiled, toolkit: cupy, {axes}}}]")
    assert "27000000 combinations; accepted: up to 20000" in refusal(path)
    # Nor is it where the command line leaves it nothing to run on.
    monkeypatch.setattr(request, "cases_of", lambda block, _: 1 / 0 if block.variant.name == "tiled" else [])
    path = write(f"n: 64\nvariants: [{{variant: tiled, {axes}}}, numpy_direct]")
    assert "no case is left" in refusal(path, toolkits=["cpu"])


def test_the_settings_for_all_entries_are_looked_up_once_however_many_entries_there_are(write, monkeypatch):
    asked = []
    monkeypatch.setattr(request.os.path, "isfile", lambda path: asked.append(path) or False)
    path = write("n: 8\nbodies: [plummer, no.tab]\nvariants: [" + "naive, " * 500 + "naive]")
    assert "no.tab" in refusal(path)
    assert len(asked) == 2


def test_a_sentence_has_a_bounded_number_of_printable_characters_and_keeps_its_ends():
    said = str(InputError("x.yaml: \x1b[31m\n\u202e\ud800" + "a" * 400_000 + "; accepted: less"))
    assert len(said) == MOST_CHARACTERS
    assert said.startswith(r"x.yaml: \x1b[31m\n\u202e\ud800aaa")
    assert said.endswith("aaa; accepted: less")
    assert str(InputError(said)) == said
    many = [f"variant_{number}" for number in range(1000)]
    first = ", ".join(many[:FIRST_NAMES])
    assert nearest("x" * 400_000, many) == f"accepted: {first} and 990 more"
    close = "did you mean variant_77? accepted: variant_77, variant_977, variant_877 and 997 more"
    assert nearest("variant_77_", many) == close
    assert nearest("variant_77_", many, "COMMAND") == f"{close}; COMMAND shows all of them"
    assert nearest("variant_77", many[:9]) == f"did you mean variant_7? accepted: {', '.join(many[:9])}"


def test_planning_asks_the_files_once_for_each_variant_and_not_for_every_case(write, tmp_path, monkeypatch):
    """20,000 cases are planned in seconds: what is read from the disk does not grow with their number."""
    (tmp_path / "a.tab").write_text("1 0 0 0 0 0 0\n" * 3)
    (tmp_path / "own.py").write_text(INTERACTION)
    axes = "variant: [tiled, naive], p: [64, 128]"
    path = write(f"bodies: [plummer, a.tab]\ninteraction: [gravity, own.py]\nvariants: [{{{axes}}}]")
    calls = Counter()
    for module, name in ((files, "stamp"), (environment, "fingerprint"), (bodies_readers, "read_table")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *words, real=real, name=name: calls.update([name]) or real(*words))

    def planned(numbers):
        calls.clear()
        sweep = load(path, ["n=" + ",".join(map(str, numbers))])
        plan(sweep, [Device("cpu", "a processor"), Device("cuda:0", "a GPU")], None)
        return len(sweep.cases), dict(calls)

    planned([8])  # everything has been read once
    few, calls_for_few = planned(range(1, 11))
    many, calls_for_many = planned(range(1, 201))
    assert many == 20 * few
    assert calls_for_many == calls_for_few
    assert calls_for_many["fingerprint"] <= 12


def test_twenty_thousand_cases_are_planned_in_seconds(write):
    path = write("n: 8\nvariants: numpy_direct\nseed: [" + ", ".join(map(str, range(20_000))) + "]")
    began = time.process_time()
    todo = plan(load(path), [Device("cpu", "a processor")], "there is none")
    assert len(todo.estimates) >= 20_000
    # 2.5 s where this was written.
    assert time.process_time() - began < 15


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"n: \xff\n")
    assert refusal(str(path)) == f"{path}: byte 3 is not UTF-8; accepted: a text file in UTF-8"


def test_nested_too_deeply_is_refused(write):
    assert "nested too deeply" in refusal(write("n: " + "[" * 5000))


def test_an_alias_is_not_expanded_into_a_message(write):
    levels = "\n".join(f" - &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 30))
    message = refusal(write(f"n:\n - &a0 [1]\n{levels}\nvariants: naive"))
    assert len(message) < 500


def test_an_axis_named_as_a_setting_is_refused(write, tmp_path):
    folder = tmp_path / "clash"
    folder.mkdir()
    text = OWN_VARIANT.replace("theta", "eps")
    (folder / "clashing.py").write_text(text)
    message = refusal(write("n: 64\nvariant_folders: [clash]\nvariants: clashing"))
    assert message == f"{folder / 'clashing.py'}: axis eps has the name of a setting; accepted: another name"


def test_only_one_list_of_subsets_is_kept():
    assert get_args(Subset) == SUBSETS


# Files of bodies


@pytest.fixture
def table(tmp_path):
    """Write a table of three bodies."""
    path = tmp_path / "three.tab"
    path.write_text("".join(f"1 {x} 0 0 0 0 0\n" for x in range(3)))
    return path


def test_a_file_of_bodies_is_found_beside_the_configuration(write, table):
    (case,) = cases(write("bodies: three.tab\nvariants: numpy_direct"))
    assert (case.bodies, case.n, case.subset) == (str(table), 3, "even")


def test_a_file_of_bodies_is_found_from_the_working_directory(write, table, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    table.rename(elsewhere / "three.tab")
    monkeypatch.chdir(elsewhere)
    assert grid(cases(write("bodies: three.tab\nvariants: numpy_direct")), "bodies", "n") == [("three.tab", 3)]


def test_more_bodies_than_a_file_has_are_left_to_the_runner(write, table):
    found = cases(write(f"n: [2, 4]\nbodies: {table}\nvariants: numpy_direct"))
    assert grid(found, "n") == [(2,), (4,)]


def test_a_setting_that_the_bodies_do_not_use_is_not_swept(write, table):
    text = f"n: 2\nbodies: [plummer, {table}]\nsubset: [even]\nseed: [5, 6]\nvariants: numpy_direct"
    assert grid(cases(write(text)), "bodies", "subset", "seed") == [
        ("plummer", "even", 5),
        ("plummer", "even", 6),
        (str(table), "even", 5),
    ]


def test_a_file_of_bodies_that_lacks_the_subset_is_named_with_the_line(write, table):
    for count in ("", "n: 2\n"):
        path = write(f"{count}bodies: {table}\nsubset: lee\nvariants:\n - numpy_direct")
        message = refusal(path)
        line = 1 + count.count("\n")
        assert message.startswith(f"{path}, line {line}: {table}: has 3 bodies, but subset lee ")


# Overrides


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("n=1024,4096", "n", [1024, 4096]),
        (" n = 1024 , 4096 ", "n", [1024, 4096]),
        ("p=64..512*2", "p", [64, 128, 256, 512]),
        ("p=64..500*2", "p", [64, 128, 256]),
        ("n=1000..5000+1000", "n", [1000, 2000, 3000, 4000, 5000]),
        ("n=8,16..32*2,100..102+1", "n", [8, 16, 32, 100, 101, 102]),
        ("n=64..64+1", "n", [64]),
        ("theta=0.2..1+0.2", "theta", [0.2, 0.4, 0.6, 0.8, 1.0]),
        ("eps=1e-3..0.1*10", "eps", [0.001, 0.01, 0.1]),
        ("dtype=float64", "dtype", ["float64"]),
        ("cached=true,false", "cached", [True, False]),
        ("bodies=../a.tab", "bodies", ["../a.tab"]),
        ("bodies=a..b.tab", "bodies", ["a..b.tab"]),
        ("order=a=b", "order", ["a=b"]),
    ],
)
def test_the_text_of_an_override(text, name, values):
    override = parse(text)
    assert (override.name, override.values) == (name, values)
    assert [type(value) for value in override.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    "text",
    [
        *("", "n", "n=", "=3", "n=1,,2"),
        *("n=1..2", "n=1..x*2", "n=1..8-1", "n=1..8*2*2", "n=1...3+1"),
        *("n=1..8*1", "n=1..8*0.5", "n=0..8*2", "n=-4..8*2", "n=1..8+0", "n=8..1+1"),
        *("n=1..9999+1", "n=1..1e999999999*10"),
    ],
)
def test_an_override_that_cannot_be_read_is_refused_with_what_can(text):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"-p {text}: ")
    assert "accepted: " in str(caught.value)


@pytest.fixture
def two(write):
    """Write a configuration of two entries."""
    return write(
        "n: 64\nvariants:\n - {variant: tiled, toolkit: [cupy, numba], p: 64}\n - {variant: numpy_direct, n: 32}"
    )


def test_an_override_replaces_what_every_entry_says(two):
    found = cases(two, ["n=8,16", "dtype=float64", "seed=1..2+1", "eps=1"])
    assert {case.n for case in found} == {8, 16}
    assert {case.variant for case in found} == {"tiled", "numpy_direct"}
    assert {(case.dtype, case.eps) for case in found} == {("float64", 1.0)}
    assert len(found) == 3 * 4


def test_an_override_of_an_axis_applies_to_the_variants_that_have_it(two):
    found = cases(two, ["p=64..256*2", "unroll=1"])
    given = [(case.axes["p"], case.axes["unroll"]) for case in found if case.toolkit == "cupy"]
    assert given == [(p, 1) for p in (64, 128, 256)]
    assert [case.axes for case in found if case.toolkit == "cpu"] == [{}]


def test_an_override_of_how_to_measure(two):
    sweep = load(two, ["measure.budget_seconds=1", "measure.min_samples=7", "flops_per_interaction=38"])
    assert sweep.measure == Measure(budget_seconds=1.0, min_samples=7)
    assert sweep.flops("gravity") == sweep.flops("hermite") == 38
    assert sweep.cases == cases(two)


def test_an_override_can_say_the_n_that_a_configuration_leaves_open(write):
    assert grid(cases(write("variants: numpy_direct"), ["n=8"]), "n") == [(8,)]


def test_an_override_may_leave_an_entry_nothing_to_do_but_not_the_sweep(write):
    path = write("n: 64\nvariants:\n - numba_parallel\n - {variant: numpy_direct, when: n <= 100}")
    assert grid(cases(path, ["n=1000"]), "variant") == [("numba_parallel",)]
    message = refusal(path, ["n=1000"], ["numpy_direct"])
    assert message == f"{path}: no case is left; every combination is removed by when: n <= 100 (1)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unrol=8", 'no axis or setting "unrol"; did you mean unroll? accepted: unroll and '),
        ("measure.budget=1", 'unknown key "budget"; did you mean budget_seconds? accepted: '),
        ("mesure.budget_seconds=1", "did you mean measure.budget_seconds?"),
        ("measure.budget_seconds=1,2", "measure.budget_seconds has 2 values; accepted: one"),
        ("measure.budget_seconds=0", "measure.budget_seconds is 0; accepted: more than 0"),
        ("measure.min_samples=1.5", "measure.min_samples is 1.5; accepted: a whole number"),
        ("flops_per_interaction=x", 'flops_per_interaction is "x"; accepted: a finite number'),
        ("p=1025", f"tiled has no p = 1025; accepted: {THREADS}"),
        ("n=0", "n is 0; accepted: 1 or more"),
        ("n=abc", 'n is "abc"; accepted: a whole number'),
        ("n=64.0", "n is 64.0; accepted: a whole number"),
        ("n=true", "n is true; accepted: a whole number"),
        ("eps=0", "eps is 0; accepted: 1e-09 or more"),
        ("dtype=float46", 'dtype is "float46"; did you mean float64? accepted: float32, float64'),
        ("bodies=plumer", 'bodies is "plumer", neither a file nor a generator; did you mean plummer?'),
        ("variants=tiled", 'no axis or setting "variants"'),
    ],
)
def test_a_mistake_in_an_override_is_named_with_its_text(two, text, words):
    message = refusal(two, [text])
    assert message.startswith(f"-p {text}: ")
    assert words in message


def test_an_override_said_twice_is_refused(two):
    assert refusal(two, ["n=8", "n=16"]) == "-p n=16: n is already set by -p n=8; accepted: once"
    assert refusal(two, ["bodies=plummer"], bodies="uniform").startswith("--bodies uniform: bodies is already set")


def test_an_axis_of_a_variant_that_is_not_selected_is_no_axis(two):
    assert cases(two, ["p=64"], ["tiled"])
    assert 'no axis or setting "p"' in refusal(two, ["p=64"], ["numpy_direct"])


# Selections


def test_variants_and_toolkits_select(two):
    assert grid(cases(two, variants=["numpy_direct"]), "variant") == [("numpy_direct",)]
    assert grid(cases(two, toolkits=["numba", "cpu"]), "toolkit") == [("numba",), ("cpu",)]
    assert grid(cases(two, variants=["tiled"], toolkits=["numba"]), "variant", "toolkit") == [("tiled", "numba")]


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({"variants": ["tilde"]}, "--variant tilde: not in {}; did you mean tiled? accepted: tiled, numpy_direct"),
        ({"variants": ["tiled", "naive"]}, "--variant naive: not in {}; accepted: tiled, numpy_direct"),
        ({"toolkits": ["cuppy"]}, "--toolkit cuppy: no such toolkit; did you mean cupy? accepted: cupy, pycuda, "),
        ({"toolkits": ["pycuda"]}, "--toolkit pycuda: no case of {} runs on it; accepted: cpu, cupy, numba"),
        (
            {"variants": ["tiled"], "toolkits": ["cpu"]},
            "--toolkit cpu: no case of {} runs on it; accepted: cupy, numba",
        ),
        (
            {"bodies": "plumer"},
            '--bodies plumer: bodies is "plumer", neither a file nor a generator; did you mean plummer?',
        ),
        ({"bodies": ""}, '--bodies : bodies is "", neither a file nor a generator'),
        ({"subset": "odd"}, '--subset odd: subset is "odd"; accepted: even, lee'),
    ],
)
def test_a_selection_that_cannot_be_is_refused(two, selection, words):
    assert words.format(two) in refusal(two, **selection)


def test_bodies_and_subset_replace_what_the_configuration_says(write, table):
    path = write("bodies: not_there.tab\nvariants: numpy_direct")
    assert grid(cases(path, bodies=str(table)), "bodies", "n") == [(str(table), 3)]
    assert "subset lee" in refusal(path, ["n=2"], bodies=str(table), subset="lee")
    assert "n is missing" in refusal(path, bodies="uniform")


# Finding a configuration, and the packaged ones


def test_a_configuration_is_found_by_stem_or_path(write, monkeypatch, tmp_path):
    path = write("n: 64\nvariants: naive")
    assert find(path) == Path(path)
    assert find("quick").name == "quick.yaml"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick").mkdir()
    assert find("quick").name == "quick.yaml"
    assert find("x.yaml") == Path("x.yaml")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("qick", f"qick: no such file, and not a packaged configuration; did you mean quick? accepted: {ALL_PACKAGED}"),
        ("configs/quik.yml", "configs/quik.yml: no such file, and not a packaged configuration; did you mean quick?"),
        (".", ".: a directory, and not a packaged configuration; accepted: "),
        ("", '"": no such file'),
        ("a\0b", ": no such file"),
        ("a" * 5000, ": cannot be read: File name too long"),
    ],
)
def test_a_configuration_that_is_not_there_is_refused(config, words):
    with pytest.raises(InputError) as caught:
        find(config)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", packaged())
def test_a_packaged_configuration_names_only_what_there_is(name):
    if lacking := missing_variants(name):
        pytest.skip(lacking)
    sweep = load(name)
    assert sweep.cases
    assert sweep.description
    known = discover()
    for case in sweep.cases:
        one = known[case.variant]
        assert case.toolkit in one.toolkits
        assert case.dtype in one.dtypes
        assert list(case.axes) == list(one.axes)
        assert all(one.find_value(axis, value) == value for axis, value in case.axes.items())


def usual_toolkits(variant):
    return [toolkit for toolkit in variant.toolkits if not catalogue()[toolkit].by_name]


BY_THEIR_SOURCE = ("numba_planar", "barnes_hut_insertion", "staggered")
"""What a source has on a CPU or in another order: measured by the path of that source alone."""


def test_quick_has_every_variant_on_every_toolkit_and_is_quick_without_a_gpu():
    sweep = load("quick")
    there = {(case.variant, case.toolkit, case.n) for case in sweep.cases}
    assert there == {
        (one.name, toolkit, n)
        for one in discover().values()
        if one.name not in (*BY_THEIR_SOURCE, "chamomile_call")
        for toolkit in usual_toolkits(one)
        for n in (1024, 4096)
    }
    assert all(case.axes == discover()[case.variant].defaults for case in sweep.cases)
    assert sum(estimate_seconds(case, sweep.measure) for case in sweep.cases if case.toolkit == "cpu") < 60


def test_ladder_has_every_variant_and_size_and_spares_the_cpu():
    sweep = load("ladder")
    sizes = {2**power for power in range(10, 19)}
    assert not {case.variant for case in sweep.cases} & {*BY_THEIR_SOURCE}
    for one in discover().values():
        for toolkit in usual_toolkits(one) if "gpus" not in one.axes and one.name not in BY_THEIR_SOURCE else ():
            found = {case.n for case in sweep.cases if (case.variant, case.toolkit) == (one.name, toolkit)}
            most = max(found) if toolkit == "cpu" else 65536 if one.name == "cupy_broadcast" else max(sizes)
            least = 65536 if one.name == "tensor_half" else 0
            elsewhere = ("chamomile_part", "chamomile_call", "barnes_hut_classic", "cute_tiles", "mojo_tiles")
            once = one.name.startswith("lee_") or one.name in elsewhere
            own = {4**power for power in range(5, 10)} if toolkit == "cpu" else sizes
            assert found == ({65536} if once else {n for n in own if least <= n <= most})
    serial = {case.n for case in sweep.cases if case.variant in ("numpy_direct", "numba_direct")}
    assert max(serial) == 16384
    swept = {
        (case.axes["p"], case.axes["unroll"]) for case in sweep.cases if case.variant == "tiled" and case.n == 65536
    }
    assert swept == {(p, unroll) for p in (128, 256, 512) for unroll in (1, 8, 32, 128)}


def test_an_estimate_grows_with_the_work_and_ends_at_the_timeout(write):
    small, large = cases(write("n: [64, 100000]\nvariants: numpy_direct"))
    measure = Measure(budget_seconds=1, warm_up_seconds=1, processes=1)
    assert estimate_seconds(small, measure) < estimate_seconds(small, Measure(budget_seconds=1, processes=2))
    assert 2 < estimate_seconds(small, measure) < 10 < estimate_seconds(large, measure)
    assert estimate_seconds(small, Measure(budget_seconds=8)) > estimate_seconds(small, measure) + 5
    assert estimate_seconds(large, Measure(timeout_seconds=3)) == 3
    patient, evaluation = Measure(timeout_seconds=1e6), large.interactions / CPU_INTERACTIONS_PER_SECOND
    assert estimate_seconds(large, patient) > (LAUNCHES_JUDGED + FEWEST_SAMPLES) * evaluation
    gpu = cases(write("n: 100000\nvariants: {variant: naive, toolkit: cupy}"))[0]
    assert estimate_seconds(gpu, measure) < estimate_seconds(large, measure)


# Any text at all

NAMES = st.sampled_from(["n", "p", "eps", "seed", "dtype", "bodies", "subset", "measure.half_width", "x"])
VALUES = st.text("0123456789.+*-,e truefals", max_size=25) | st.text(max_size=25)
WORDS = [*"np12+-*/%<()[],.", "toolkit", "2.5", "'a'", "//", "==", " in ", " and ", " or ", " not ", " if "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make one folder for all examples of a test."""
    return tmp_path_factory.mktemp("any")


def outcome(path, *arguments):
    """Return the cases, of which there is one at least, or the sentence that says why there are none."""
    try:
        found = cases(str(path), *arguments)
    except InputError as error:
        return str(error)
    assert found
    return found


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=40) | st.tuples(NAMES, VALUES).map("=".join))
@example("n=" + "9" * 5000)
@example("bodies=" + "a" * 5000)
@example("bodies=a\0")
@example("eps=1e-400,1e400")
@example("\ud800=\ud800")
def test_any_override_gives_cases_or_a_sentence(folder, text):
    path = folder / "x.yaml"
    path.write_text("n: 64\nvariants:\n - {variant: tiled, toolkit: cupy}")
    result = outcome(path, [text])
    assert isinstance(result, list) or (result.startswith("-p ") and "\n" not in result)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=60) | st.lists(st.sampled_from(WORDS)).map("".join))
def test_any_condition_gives_cases_or_a_sentence(folder, text):
    path = folder / "x.yaml"
    path.write_text("n: 64\nvariants:\n - {variant: tiled, toolkit: cupy, when: " + json.dumps(text) + "}")
    result = outcome(path)
    assert isinstance(result, list) or (result.startswith(f"{path}, line 3: ") and "\n" not in result)


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=60) | st.text("n: 64\n[]{}-&*!?|>'\"#%@,variants", max_size=60).map(str.encode))
def test_any_file_gives_cases_or_a_sentence(folder, content):
    path = folder / "x.yaml"
    path.write_bytes(content)
    result = outcome(path)
    if not isinstance(result, list):
        *lines, last = result.split("\n")
        assert all(line.startswith(str(path)) for line in lines)
        assert last.startswith((str(path), "and ") if lines else str(path))
