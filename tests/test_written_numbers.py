"""Numbers as people write them, in -p and in a file, and the values of axes that they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gravbench.config.load import load
from gravbench.config.numbers import number
from gravbench.config.override import parse
from gravbench.errors import InputError

NUMBERS = {
    "1024": 1024,
    "10k": 10_000,
    "10K": 10_000,
    "1.5k": 1500,
    "4M": 4_000_000,
    "1G": 10**9,
    "1e6": 10**6,
    "2.5E3": 2500,
    "2^20": 2**20,
    "2**20": 2**20,
    "6/2": 3,
    "1/3": 1 / 3,
    "2^-3": 0.125,
    "1e-3": 0.001,
    "0.35": 0.35,
    "64.0": 64.0,
    "1e400": float("inf"),
}
NONE = [
    "",
    "k",
    "10kk",
    "10 k",
    "1e3k",
    "10q",
    "1_000",
    "2^",
    "^2",
    "2^2^2",
    "2^9999",
    "1/0",
    "0x10",
    "1d",
    "16x16",
    "²k",
]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_means_what_people_mean(text):
    found = number(text)
    assert found == NUMBERS[text]
    assert type(found) is type(NUMBERS[text])


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_number_is_none(text):
    assert number(text) is None


@given(some.text("0123456789.eEkKMG^*/+-", max_size=12))
def test_any_text_is_a_number_or_none(text):
    assert number(text) is None or isinstance(number(text), int | float)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n=1k..1M*10", [1000, 10_000, 100_000, 1_000_000]),
        ("n=2^10..2^12*2", [1024, 2048, 4096]),
        ("n=2**10..2**12*2", [1024, 2048, 4096]),
        ("n=1e3..1e5*10", [1000, 10_000, 100_000]),
        ("n=1k..2k+0.5k", [1000, 1500, 2000]),
        ("theta=1/4..1*2", [0.25, 0.5, 1.0]),
    ],
)
def test_ranges_of_such_numbers(text, values):
    found = parse(text).values
    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@pytest.fixture
def write(tmp_path):
    """Write a configuration, given as text, and return its path."""

    def writing(text):
        path = tmp_path / "x.yaml"
        path.write_text(text, "utf-8")
        return str(path)

    return writing


def test_a_case_has_the_plain_number_however_it_was_written(write):
    plain = load(write("n: [10000, 1048576]\nvariants: numpy_direct")).cases
    assert load(write("n: [10k, 2^20]\nvariants: numpy_direct")).cases == plain
    assert load(write("n: 1\nvariants: numpy_direct"), ["n=1e4,2**20"]).cases == plain
    assert [case.key for case in load(write("variants: numpy_direct"), ["n=10K,1048.576k"]).cases] == [
        case.key for case in plain
    ]
    assert "n=10000" in plain[0].label


def test_settings_and_limits_take_such_numbers_and_texts_stay_texts(write):
    sweep = load(write("description: 10k\nn: 64\neps: 1/8\nmeasure: {budget_seconds: 1e1}\nvariants: numpy_direct"))
    assert (sweep.description, sweep.cases[0].eps, sweep.measure.budget_seconds) == ("10k", 0.125, 10.0)


@pytest.mark.parametrize("text", ["n=10q", "n=1.0005k", "n=1/3", "n=2^-3", "n=10k..x", "n=4G", "p=2^11", "p=1/3"])
def test_a_number_that_does_not_fit_is_one_sentence(write, text):
    path = write("n: 64\nvariants: {variant: tiled, toolkit: cupy}")
    with pytest.raises(InputError) as caught:
        load(path, [text])
    assert str(caught.value).startswith(f"-p {text}: ")
    assert "accepted: " in str(caught.value)


# Values of axes beside those that are listed


@pytest.mark.parametrize(
    ("variant", "axis", "text", "value"),
    [
        ("barnes_hut_cpu", "theta", "0.35", 0.35),
        ("barnes_hut_cpu", "theta", "1", 1.0),
        ("barnes_hut_cpu", "theta", "0", 0),
        ("barnes_hut_cpu", "theta", "0.0", 0),
        ("barnes_hut_cpu", "leaf_size", "1k", 1000),
        ("tiled", "p", "96", 96),
        ("tiled", "p", "2^7", 128),
        ("approximate_tiled", "fraction", "1/3", 1 / 3),
        ("approximate_tiled", "fraction", "1.0", 1),
        ("symmetric", "r", "3", 3),
        ("cupy_broadcast", "rows", "5k", 5000),
    ],
)
def test_an_axis_takes_a_number_that_is_not_listed(write, variant, axis, text, value):
    case = load(write(f"n: 64\nvariants: {variant}"), [f"{axis}={text}"]).cases[0]
    assert case.axes[axis] == value
    assert type(case.axes[axis]) is type(value)


@pytest.mark.parametrize(
    ("variant", "text", "said"),
    [
        ("tiled", "p=1025", "p = 1025; accepted: whole numbers from 1 to 1,024 (at most 1,024 threads per block)"),
        ("tiled", "p=96.0", "p = 96.0; accepted: whole numbers from 1 to 1,024 ("),
        ("shuffle", "p=48", "p = 48; accepted: multiples of 32 from 32 to 1,024 (whole warps, whose threads"),
        ("shuffle", "unroll=3", "unroll = 3; accepted: 1, 2, 4, 8, 16, 32"),
        ("barnes_hut", "theta=0.01", "theta = 0.01; accepted: 0 and numbers from 0.05 to 1.4 (below, the tolerance"),
        ("barnes_hut", "theta=-1", "theta = -1; accepted: 0 and numbers from"),
        ("approximate_tiled", "fraction=0.7", "accepted: 1 divided by a whole number up to 1,024, such as 1/3 ("),
        ("tensor", "r=3", "r = 3; accepted: 0 and multiples of 2 from 2 to 20 (64 bodies meet at a time"),
    ],
)
def test_a_number_out_of_the_range_is_refused_with_the_range_and_the_reason(write, variant, text, said):
    with pytest.raises(InputError) as caught:
        load(write(f"n: 64\nvariants: {{variant: {variant}, toolkit: cupy}}"), [text])
    assert str(caught.value).startswith(f"-p {text}: {variant} has no ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_swept_list_keeps_the_combinations_that_can_run(write):
    path = write("n: 64\nvariants: {variant: tiled, toolkit: [cupy, numba]}")
    found = load(path, ["p=64,96", "unroll=3,32"]).cases
    assert [(case.toolkit, case.axes["p"], case.axes["unroll"]) for case in found] == [
        ("cupy", 64, 32),
        ("cupy", 96, 3),
        ("cupy", 96, 32),
        ("numba", 64, 32),
        ("numba", 96, 32),
    ]


@pytest.mark.parametrize(
    ("variant", "toolkit", "overrides", "needed"),
    [
        ("tiled", "cupy", ["p=64", "unroll=3"], "p % unroll == 0"),
        ("tiled", "numba", ["p=96", "unroll=3"], 'toolkit not in ["numba", "mlir"] or 128 % unroll == 0'),
        ("lee_global", "cupy", ["p=96", "block_shape=16x16"], 'block_shape == "1d" or p == 256'),
        ("split", "cupy", ["p=96", "q=16"], "p * q <= 1024"),
        ("barnes_hut_classic", "cupy", ["top_levels=5"], "top_levels <= 4 or dim == 2"),
        ("barnes_hut_cpu", "cpu", ["theta=1.3"], "theta <= 1.2 or dim == 2"),
    ],
)
def test_one_impossible_combination_is_an_error_that_says_what_is_needed(write, variant, toolkit, overrides, needed):
    path = write(f"n: 64\nvariants: {{variant: {variant}, toolkit: {toolkit}}}")
    with pytest.raises(InputError) as caught:
        load(path, overrides)
    said = str(caught.value)
    assert f"every combination is removed by {variant}, which needs {needed} (1); " in said
    assert f", because {variant} needs {needed}; the nearest " in said
