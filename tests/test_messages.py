"""What is said to a person who made a mistake: whole sentences, as they stand on the terminal and in a pipe."""

import json
import math
import re
import sys

import pytest

from conftest import invoke
from gravbench.cli.completion import variants
from gravbench.cli.main import main
from gravbench.config import fitting
from gravbench.config.load import load, packaged
from gravbench.errors import InputError
from gravbench.model.compiler_log import sentences
from gravbench.model.device import Device
from gravbench.model.stem_code import SHARED
from gravbench.model.variant import _at, discover
from gravbench.toolkits import devices
from gravbench.toolkits.devices import processor_name


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Be in an empty folder, with a memory of one's own and without a GPU."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)


def refused(*words):
    """Return the lines that a command ends with."""
    done = invoke(*words)
    assert isinstance(done.exception, InputError), (done.output, done.exception)
    return str(done.exception).splitlines()


@pytest.fixture
def mine(tmp_path):
    """Make a variant of one's own; the function changes one of its files and returns the path."""
    assert invoke("new", "mine").exit_code == 0

    def change(suffix, *pairs):
        path = tmp_path / "mine" / f"mine{suffix}"
        text = path.read_text("utf-8")
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text, "utf-8")
        return path

    return change


# Kernels that explain compiles


def test_a_kernel_of_another_name_is_named_with_those_that_the_file_has(mine):
    path = mine(".cu", ("    mine(const Body", "    mein(const Body"))
    accepted = 'accepted: extern "C" __global__ void mine(...)'
    assert refused("explain", "ledger", "mine") == [f"{path}: no kernel mine; it has mein; {accepted}"]


def test_what_does_not_compile_is_said_with_the_file_and_the_line_of_each_error(mine):
    path = mine(".cu", ("thread = threadIdx.x;", "thread = threadIdx.x"), ("const Body self", "const Bodi self"))
    lines = path.read_text("utf-8").splitlines()
    after, wrong = (next(i for i, line in enumerate(lines, 1) if word in line) for word in ("blockIdx.x", "Bodi"))
    said = [
        f'{path}, line {after}: expected a ";"',
        f'{path}, line {wrong}: identifier "Bodi" is undefined',
        f'{path}, line {wrong}: identifier "i" is undefined',
    ]
    assert refused("explain", "ledger", "mine") == said
    assert refused("explain", "compare", "tiled", "mine") == said
    assert refused("source", "mine", "--machine-code") == said


def test_what_the_assembler_refuses_is_said_with_the_file_and_without_its_remarks(mine):
    path = mine(".cu", ("tile[P]", "tile[1000 * P]"))
    assert refused("explain", "ledger", "mine") == [
        f"{path}: it does not compile for sm_90: ptxas error   : Entry function 'mine' uses too much shared data "
        "(0x3e8000 bytes, 0xc000 max)"
    ]


def test_errors_of_a_compiler_are_read_from_its_lines_and_from_the_reason_of_a_record():
    stem = discover()["tiled"].path
    lines = [
        'tiled.cu(3): error: expected a ";"',
        "  int a",
        "body.cuh(4): warning #1: odd",
        "body.cuh(5): error: no T",
    ]
    said = [f'{stem.with_suffix(".cu")}, line 3: expected a ";"', f"{SHARED / 'body.cuh'}, line 5: no T"]
    assert sentences("\n".join(lines), stem) == sentences("; ".join(lines), stem) == said
    assert sentences('gravity(7): catastrophic error: no "x"\n' * 2, stem) == ['gravity, line 7: no "x"']
    assert sentences("ptxas error   : too much", stem) == []


# Files that declare no variant


def test_a_file_whose_decorator_is_misspelt_is_named_wherever_its_variant_is_asked_for(mine):
    path = mine(".py", ("@variant(", "@varient("))
    line = path.read_text("utf-8").splitlines().index("@varient(") + 1
    said = (
        f"{path}, line {line}: no @variant(...) but @varient, so that the file declares no variant; "
        "accepted: @variant(...) above prepare"
    )
    for command in ("run", "check", "selftest"):
        assert refused(command, "mine/mine.yaml") == [f'mine/mine.yaml, line 6: no variant "mine"; {said}']
    assert refused("explain", "ledger", "mine") == [f'VARIANT "mine": no such variant; {said}']
    assert refused("explain", "compare", "tiled", "mine") == [f'OTHER "mine": no such variant; {said}']
    assert refused("source", "mine") == [f"there is no variant mine; {said}"]
    assert refused("list", "mine") == [f"mine is neither a variant nor an interaction; {said}"]
    assert refused("movie", "mine") == [f"VARIANT mine: no such variant; {said}"]


def test_a_file_without_a_decorator_is_named_too_and_one_of_another_name_is_not(mine):
    path = mine(".py", ("@variant(", "dict("))
    assert refused("list", "mine")[0].startswith(
        f"mine is neither a variant nor an interaction; {path}: no @variant(...), so that the file declares no variant"
    )
    assert "declares no variant" not in refused("list", "mein")[0]


def test_a_blank_behind_the_name_of_the_decorator_is_no_mistake(mine):
    path = mine(".py", ("@variant(", "@variant ("))
    discover.cache_clear()  # other tests have a folder of this name
    assert invoke("list", "mine").exit_code == 0
    assert invoke("run", "mine/mine.yaml", "--dry-run").exit_code == 0
    assert variants("mi") == ["mine"]
    assert _at(discover((path.parent,))["mine"]).endswith(
        f"line {path.read_text().splitlines().index('@variant (') + 1}"
    )


# What a dry run prints


def test_a_dry_run_counts_the_cases_that_it_would_skip_by_their_reasons(monkeypatch):
    reason = "no NVIDIA GPU: none in this test"
    monkeypatch.setattr(devices, "gpus", lambda: ([], reason))
    words = ("run", "quick", "-p", "n=64,128", "--variant", "naive", "--variant", "numpy_direct", "--toolkit", "numba")
    lines = invoke(*words, "--toolkit", "cpu", "--dry-run").stdout.splitlines()
    assert lines[0] == f"naive numba n=64 float32 p=256 (skipped: {reason})"
    assert all(line.startswith("numpy_direct cpu n=") for line in lines[1:-2])
    assert lines[-2:] == [
        f"2 cases skipped: {reason}",
        f"{len(lines) - 3} measurements, up to about 7 s; nothing was measured",
    ]
    lines = invoke("run", "ladder", "--dry-run").stdout.splitlines()
    assert sum("(skipped: " in line for line in lines) == 1
    assert lines[-2].endswith(f" cases skipped: {reason}")


# Names that are nearly right

NO_GPU = "no NVIDIA GPU: none in this test"
TWO = [Device(f"cuda:{number}", "NVIDIA H200", f"GPU-{number}", "580") for number in (0, 1)]
KEYS = (
    "flops_per_interaction, measure, search, bodies, subset, seed, eps, dtype, interaction, timed, integrator, dt, n, "
    "description, published, variant_folders, variants"
)
OF_AN_ENTRY = "bodies, subset, seed, eps, dtype, interaction, timed, integrator, dt, n, variant, toolkit, when"
GENERATED = "plummer, uniform, collision, cube, cusp, thin_disk, clumps, line, coincident, filament"
OF_TILED = "p, unroll"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("gpu", "cuda:0"), ("GPU:1", "cuda:1"), ("cuda", "cuda:0"), ("1", "cuda:1"), ("CPU", "cpu"), ("cuda:7", "")],
)
def test_a_wrong_device_is_answered_with_those_there_are_and_how_they_are_named(monkeypatch, word, meant):
    monkeypatch.setattr(devices, "gpus", lambda: (TWO, None))
    monkeypatch.setattr(devices, "_of_other_families", lambda _: [])
    question = f"did you mean {meant}? " if meant else ""
    accepted = f"accepted: cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200), cpu ({processor_name()})"
    assert refused("run", "quick", "--device", word) == [f"--device {word}: no such device; {question}{accepted}"]
    monkeypatch.setattr(devices, "gpus", lambda: ([], NO_GPU))
    question = question if word == "CPU" else ""
    accepted = f"accepted: cpu ({processor_name()}); GPUs are named cuda:0, cuda:1 and so on (here: {NO_GPU})"
    assert refused("check", "quick", "--device", word) == [f"--device {word}: no such device; {question}{accepted}"]


def test_capitals_and_plurals_are_seen_through(tmp_path):
    config = tmp_path / "x.yaml"
    of_quick = '-p N=1024: no axis or setting "N"; did you mean n? accepted: n and 79 more'
    assert refused("run", "quick", "-p", "N=1024") == [of_quick]
    for text, said in {
        "n: 64\nvariant: tiled": f'line 2: unknown key "variant"; did you mean variants? accepted: {KEYS}',
        "N: 64\nvariants: tiled": f'line 1: unknown key "N"; did you mean n? accepted: {KEYS}',
        "n: 64\nvariants: [{Variants: tiled}]": (
            f'line 2: unknown key "Variants"; did you mean variant? accepted: {OF_AN_ENTRY}'
        ),
        "n: 64\nvariants: [{variant: tiled, P: 64}]": (
            f'line 2: tiled has no axis "P"; did you mean p? accepted: {OF_TILED}, {OF_AN_ENTRY}'
        ),
    }.items():
        config.write_text(text)
        assert refused("run", "x.yaml") == [f"x.yaml, {said}"]


# Everything that is wrong with a configuration

WRONG = """\
eps: -1
n: [64, abc]
measure: {half_width: 2, foo: 1}
variants:
 - {variant: tiled, dtype: float16}
 - {toolkit: cupy}
seeds: 1
"""


def test_all_mistakes_in_a_file_are_said_in_its_order(tmp_path, capsys, monkeypatch):
    (tmp_path / "x.yaml").write_text(WRONG)
    measure = (
        "half_width, min_samples, budget_seconds, warm_up_seconds, sample_seconds, timeout_seconds, memory_gigabytes, "
        "log_megabytes, anchor_every, order_seed, verify, processes"
    )
    said = [
        "x.yaml, line 1: eps is -1; accepted: 1e-09 or more",
        'x.yaml, line 2: n is "abc"; accepted: a whole number, such as 1024, 10k, 1e6 or 2^20',
        "x.yaml, line 3: measure.half_width is 2; accepted: less than 1",
        f'x.yaml, line 3: unknown key "foo"; accepted: {measure}',
        'x.yaml, line 5: dtype is "float16"; did you mean float64? accepted: float32, float64',
        "x.yaml, line 6: the key variant is missing",
        f'x.yaml, line 7: unknown key "seeds"; did you mean seed? accepted: {KEYS}',
    ]
    assert refused("run", "x.yaml") == said
    # As a shell shows it: every line says by whom.
    monkeypatch.setattr(sys, "argv", ["gravbench", "run", "x.yaml"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == "".join(f"gravbench: {line}\n" for line in said)


def test_all_names_that_nobody_knows_are_said_in_the_order_of_the_file(tmp_path):
    (tmp_path / "x.yaml").write_text(
        "variants:\n"
        "- naiv\n"
        "- {variant: tiled, p: 5000, toolkit: cpuy}\n"
        "- {variant: naive, q: 2, when: p >, bodies: no.tab}\n"
        "n: 64\n"
        "bodies: [plummer, none.tab]\n"
        "published: gems\n"
    )
    toolkits = ", ".join(discover()["tiled"].toolkits)
    lines = refused("run", "x.yaml")
    assert lines[:1] + lines[2:] == [
        'x.yaml, line 2: no variant "naiv"; did you mean naive? accepted: naive and 47 more; gravbench list shows all '
        "of them",
        f'x.yaml, line 3: no toolkit "cpuy"; did you mean cupy? accepted: {toolkits}',
        f'x.yaml, line 4: naive has no axis "q"; accepted: p, {OF_AN_ENTRY}',
        'x.yaml, line 4: when "p >" is not an expression; accepted: names, numbers, texts, and, or, not, in, '
        "comparisons and + - * / // %",
        f'x.yaml, line 4: bodies is "no.tab", neither a file nor a generator; accepted: {GENERATED}',
        f'x.yaml, line 6: bodies is "none.tab", neither a file nor a generator; accepted: {GENERATED}',
        "x.yaml, line 7: published is gems, which is not a source with published numbers; did you mean gems3? "
        "accepted: 3dgep, bodin2026, bodin2026_direct, chamomile, gems3, lee2008",
    ]
    assert lines[1].startswith("x.yaml, line 3: tiled has no p = 5000; ")


def test_of_many_mistakes_the_first_are_said_and_the_others_are_counted(tmp_path):
    (tmp_path / "x.yaml").write_text(f"n: [{', '.join(map(str, range(-30, 0)))}]\nvariants: tiled")
    said = [f"x.yaml, line 1: n is {n}; accepted: 1 or more" for n in range(-30, -20)]
    assert refused("run", "x.yaml") == [*said, "and 20 more mistakes"]
    (tmp_path / "x.yaml").write_text(f"n: 64\nvariants: [{', '.join(f'no{i}' for i in range(11))}]")
    lines = refused("run", "x.yaml")
    assert len(lines) == 11
    assert lines[-1] == "and 1 more mistake"


def test_mistakes_of_all_kinds_are_said_at_once_those_of_the_command_line_last(tmp_path):
    (tmp_path / "x.yaml").write_text(
        "measure: {foo: 1}\n"
        "n: 64\n"
        "seed: 1\n"
        "variants:\n"
        "- nope\n"
        "- {p: 64}\n"
        "- {variant: tiled, dtype: float16, p: 5000}\n"
        "n: 32\n"
        "seed: !!int 2\n"
        "3: 4\n"
        "variant_folders: [none]\n"
        "bodies: no.tab\n"
        "published: gems\n"
    )
    lines = refused(
        *("run", "x.yaml", "-p", "eps=-1", "-p", "n=3", "-p", "measure.foo=1", "-p", "n=4", "-p", "="),
        *("--toolkit", "cpuy"),
    )
    assert [re.split(r"[;(]", line)[0] for line in lines] == [
        'x.yaml, line 1: unknown key "foo"',
        "x.yaml, line 6: the key variant is missing",
        'x.yaml, line 7: dtype is "float16"',
        "x.yaml, line 7: tiled has no p = 5000",
        'x.yaml, line 8: the key "n" occurs twice',
        'x.yaml, line 9: the key "seed" occurs twice',
        "x.yaml, line 10: 3 is not a key",
        'x.yaml, line 11: variant_folders has "none", but none is not a folder',
        'x.yaml, line 12: bodies is "no.tab", neither a file nor a generator',
        "x.yaml, line 13: published is gems, which is not a source with published numbers",
        "and 5 more mistakes",
    ]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            "measure: {foo: 1}\nvariants: [{variant: nope}]\nn: 64",
            (),
            ['x.yaml, line 1: unknown key "foo"', 'x.yaml, line 2: no variant "nope"'],
        ),
        (
            "n: 64\nn: 32\nseed: 1\nseed: 2\nvariants: naive",
            (),
            ['x.yaml, line 2: the key "n" occurs twice', 'x.yaml, line 4: the key "seed" occurs twice'],
        ),
        # Of a folder that is missing, nobody knows which variants it has.
        (
            "n: 64\nvariant_folders: [nope]\nvariants: [naive, mine]\nmeasure: {foo: 1}",
            (),
            [
                'x.yaml, line 2: variant_folders has "nope", but nope is not a folder',
                'x.yaml, line 4: unknown key "foo"',
            ],
        ),
        (
            "n: 64\nvariants: naive",
            ("-p", "N=3", "-p", "foo=2", "-p", "eps=-1", "-p", "p=2000", "--variant", "naive"),
            [
                '-p N=3: no axis or setting "N"',
                '-p foo=2: no axis or setting "foo"',
                "-p eps=-1: eps is -1",
                "-p p=2000: naive has no p = 2000",
            ],
        ),
        # What follows from one mistake is none: the axes of a variant that is not known, n that is wrong.
        ("n: -1\nvariants: [nope, numpy_direct]", ("-p", "p=64"), [
            "x.yaml, line 1: n is -1", 'x.yaml, line 2: no variant "nope"',
        ]),
        ("n: 64\nvariants: tiled", ("-p", "unroll=8", "--variant", "tilde"), ["--variant tilde: not in x.yaml"]),
        # What several entries share is said of the first.
        (
            "variants:\n- numpy_direct\n- numba_direct\n- {variant: naive, n: 64, when: n < 3}",
            (),
            [
                "x.yaml, line 2: n is missing, but plummer can make any number of bodies",
                "x.yaml, line 4: no case is left",
            ],
        ),
    ],
)  # fmt: skip
def test_a_mistake_hides_no_other_one(text, options, said, tmp_path):
    (tmp_path / "x.yaml").write_text(text)
    assert [line.partition("; ")[0] for line in refused("run", "x.yaml", *options)] == said


def test_an_override_that_names_what_an_option_chooses_is_answered_with_the_option():
    for command in ("run", "check"):
        assert refused(command, "quick", "-p", "variant=tiled,naive", "-p", "toolkit=cupy", "-p", "device=cpu") == [
            '-p variant=tiled,naive: no axis or setting "variant"; accepted: --variant tiled --variant naive',
            '-p toolkit=cupy: no axis or setting "toolkit"; accepted: --toolkit cupy',
            '-p device=cpu: no axis or setting "device"; accepted: --device cpu',
        ]


# Values of axes that do not go together


def test_a_value_that_does_not_go_with_another_axis_is_said_with_that_one_and_the_nearest_that_does(tmp_path):
    misfit = "p = 100 does not go with unroll = 32, because tiled needs p % unroll == 0; the nearest p that does is 96"
    removed = "no case is left; every combination is removed by tiled, which needs p % unroll == 0 (1)"
    (tmp_path / "x.yaml").write_text("n: 64\nvariants:\n - {variant: tiled, toolkit: cupy, p: 100}")
    assert refused("run", "x.yaml") == [f"x.yaml, line 3: {removed}; {misfit}"]
    assert refused("run", "x.yaml", "-p", "p=100") == [f"x.yaml: {removed}; {misfit}"]
    assert refused("explain", "ledger", "tiled", "-p", "p=100") == [f"-p p=100: {misfit}"]
    # What was set is what is changed, and words are compared as words.
    assert refused("explain", "ledger", "tiled", "-p", "unroll=48") == [
        "-p unroll=48: unroll = 48 does not go with p = 256, because tiled needs p % unroll == 0; the nearest unroll "
        "that does is 32"
    ]
    assert refused("explain", "ledger", "lee_tiled", "-p", "block_shape=16x16", "-p", "p=128") == [
        '-p block_shape=16x16 -p p=128: p = 128 does not go with block_shape = "16x16", because lee_tiled needs '
        'block_shape == "1d" or p == 256; the nearest p that does is 256'
    ]


MISFIT = (
    "no case of tiled has p = 100: p = 100 does not go with unroll = 32, because tiled needs p % unroll == 0; "
    "the nearest p that does is 96"
)


@pytest.mark.parametrize(
    ("variants", "options", "said"),
    [
        ("[{variant: tiled, p: [64, 100]}]", (), [f"x.yaml, line 2: {MISFIT}"]),
        ("[tiled, naive]", ("-p", "p=100"), [f"-p p=100: {MISFIT}"]),
        ("[{variant: tiled, p: [64, 100]}, {variant: tiled, n: 32, p: [64, 100]}]", (), [f"x.yaml, line 2: {MISFIT}"]),
        ("[{variant: tiled, p: [64, 100]}, {variant: tiled, p: 100, unroll: 4}]", (), []),
        ("[{variant: tiled, p: [64, 100], unroll: [4, 32]}]", (), []),
        ("[{variant: tiled, p: [64, 100], when: p < 100}, {variant: tiled, p: 100, unroll: 10}]", (), []),
        # What a choice of a toolkit leaves out is meant to be left out.
        ("[{variant: split_j, warps: [0, 4]}]", ("--toolkit", "numba"), []),
    ],
)
def test_a_value_without_a_case_is_said_once_where_other_cases_are_left(variants, options, said, tmp_path):
    (tmp_path / "x.yaml").write_text(f"n: 64\nvariants: {variants}")
    done = invoke("run", "x.yaml", *options, "--dry-run")
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stderr.splitlines() == said


def test_no_packaged_sweep_has_a_value_without_a_case():
    assert {name: load(name).misfits for name in packaged()} == dict.fromkeys(packaged(), ())


@pytest.mark.parametrize(
    ("name", "axis", "value", "near"),
    [
        ("tiled", "p", 1e300, 1024),
        ("tiled", "p", -1e300, 1),
        ("tiled", "p", 10**400, 1024),
        ("barnes_hut", "theta", math.inf, 1.4),
        ("barnes_hut", "theta", 1e300, 1.4),
        ("barnes_hut", "theta", -math.inf, 0.0),
    ],
)
def test_the_nearest_value_of_a_number_far_beyond_a_range_is_its_end(name, axis, value, near):
    assert fitting.nearest_value(discover()[name], axis, value) == near


def test_a_value_beyond_its_range_is_said_with_the_nearest():
    accepted = "accepted: whole numbers from 1 to 1,024 (at most 1,024 threads per block); the nearest is 1024"
    assert refused("run", "quick", "--variant", "tiled", "-p", "p=5000") == [
        f"-p p=5000: tiled has no p = 5000; {accepted}"
    ]


@pytest.mark.slow
def test_a_misfit_of_any_variant_names_a_value_with_which_it_runs():
    found = 0
    for variant in discover().values():
        for axis, values in variant.axes.items():
            for value in values:
                axes = {**variant.complete({}), axis: value}
                for toolkit in variant.toolkits:
                    said = fitting.misfit(variant, toolkit, axes)
                    assert (said is None) == fitting.needed_by(variant).holds({"toolkit": toolkit, **axes})
                    if said and "the nearest" in said:
                        name, nearest = re.search(r"the nearest (\w+) that does is (.+)$", said).groups()
                        assert fitting.needed_by(variant).holds({"toolkit": toolkit, **axes, name: json.loads(nearest)})
                        found += 1
    assert found > 20
