"""What an interaction is written out to means what its file says, operator by operator.

Kernels and the judge that verifies them are written by one generator, so a mistake of it would be made twice and agree
with itself. Here the file's own text is evaluated by Python, which has no part in the generator, and compared with the
Python for Numba, the lines of the judge and the CUDA C.
"""

import builtins
import ctypes
import keyword
import math
import re
import subprocess
import tempfile
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from emulator import COMPILER, HEADERS, SHIM
from gravbench.errors import InputError
from gravbench.model import interaction_files
from gravbench.model.bodies import Bodies
from gravbench.model.identity import cuda_tokens
from gravbench.model.interaction import BODY, COMPARISONS, FUNCTIONS, MATH, OPERATORS, inverse_sqrt
from gravbench.model.interaction_files import ENDING, packaged, parse
from gravbench.model.interaction_text import SUMS
from gravbench.model.stem_code import SHARED
from gravbench.model.variant import discover
from gravbench.toolkits import cuda_sums
from gravbench.verifying import direct_sums as judge
from gravbench.verifying.direct_sums import direct_sums

# Said here once more, for a table that is wrong must not choose its own examples.
SIGNS = ("+", "-", "*", "/")
ORDERS = ("<", "<=", ">", ">=")
CONSTANTS = {"FACTOR": 0.75, "BELOW": -1.5}
TEXT = '''"""Evaluate expressions."""

FACTOR = 0.75
BELOW = -1.5


def interact(sums, i, j, eps2):
    """Add each expression to a sum of its own."""
{}
'''
# No two are equal, nor are their sums and products: an operand in another's place changes every value.
OWN = dict(zip(BODY, (0.31, 1.27, -0.83, 2.9, 0.57, -1.9, 3.7), strict=True))
OTHER = dict(zip(BODY, (1.93, -0.47, 2.21, 0.61, 1.1, 0.29, -2.3), strict=True))
BOTH = (OWN, OTHER)
EPS2 = 0.09


def interaction_of(lines):
    return parse(TEXT.format("\n".join(f"    {line}" for line in lines)), "own", "own.py")


def sums_of(expressions):
    return interaction_of([f"sums.s{number} += {one}" for number, one in enumerate(expressions)])


class Place:
    """A body, by the names of its numbers."""

    def __init__(self, numbers):
        vars(self).update(numbers)


def by_python(expression, **local):
    """Evaluate the text of an expression as it stands."""
    names = {**MATH, **CONSTANTS, "inverse_sqrt": inverse_sqrt, "i": Place(OWN), "j": Place(OTHER), "eps2": EPS2}
    return eval(expression, {}, names | local)


def by_the_python_for_numba(interaction):
    interact = interaction.python(float, lambda value: 1 / math.sqrt(value))
    rows = [tuple(body[name] for name in interaction.body) for body in BOTH]
    return np.array(interact((0.0,) * len(interaction.sums), *rows, EPS2))


def by_the_lines_of_the_judge(interaction):
    numbers = {f"{whose}_{name}": value for whose, body in (("i", OWN), ("j", OTHER)) for name, value in body.items()}
    names = {**numbers, "eps2": EPS2, "inverse_sqrt": inverse_sqrt, **MATH}
    names |= {f"sums_{name}": 0.0 for name in interaction.sums}
    exec("\n".join(interaction.python_lines(repr)), {}, names)
    return np.array([names[f"sums_{name}"] for name in interaction.sums])


def by_the_cuda_c(interaction, folder):
    """Compile the function in double by g++, with the header that kernels have."""
    header = (SHARED / "body.cuh").read_text()
    count, numbers = len(interaction.sums), range(len(interaction.body))
    rows = [", ".join(f"{whose}[{k}]" for k in numbers) for whose in "ij"]
    places = list(enumerate(interaction.sums))
    results = [f"found[{k}] = sums.{name}; found[{count + k}] = twice.{name};" for k, name in places]
    entry = f"""
    extern "C" void entry(const double* i, const double* j, double eps2, double* found) {{
        Sums sums = {{}};
        interact(sums, Body{{{rows[0]}}}, Body{{{rows[1]}}}, eps2);
        Sums twice = sums;
        add(twice, sums);
        {"".join(results)}
    }}
    """
    source, library = folder / "own.cpp", folder / "own.so"
    source.write_text(HEADERS + SHIM + header + interaction.cuda_source() + entry)
    options = ["-std=c++20", "-O0", "-w", "-DFLOAT64=1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([COMPILER, *options, "-o", library, source], check=True)
    found = np.empty((2, count))
    pointers = [np.array([body[name] for name in interaction.body]).ctypes.data_as(ctypes.c_void_p) for body in BOTH]
    function = ctypes.CDLL(str(library)).entry
    function.restype = None
    function(*pointers, ctypes.c_double(EPS2), found.ctypes.data_as(ctypes.c_void_p))
    assert_allclose(found[1], 2 * found[0], rtol=0)
    return found[0]


def pairs_of_operators():
    """Every operator inside of every other, on both sides, with a change of sign at every place."""
    a, b, c = "i.x", "j.y", "i.mass"
    for outer, inner in product(SIGNS, repeat=2):
        left, right = f"({a} {inner} {b})", f"({b} {inner} {c})"
        yield from (f"{a} {outer} {right}", f"{left} {outer} {c}", f"{a} {outer} {b} {inner} {c}")
        yield from (f"-{left} {outer} {c}", f"-({left} {outer} {c})", f"{a} {outer} -{right}")
        yield from (f"{a} {outer} (-{b} {inner} {c})", f"(-{a} {inner} {b}) {outer} -{c}")
        yield from (
            f"{left} {outer} {right}",
            f"({left} {outer} {c}) {inner} {a}",
            f"{a} {inner} ({b} {outer} {right})",
        )


def other_expressions():
    """Functions, constants, signs of signs, choices, and the numbers of a body."""
    yield from (f"{body}.{name}" for body, name in product("ij", BODY))
    yield from ("2", "0.1", "1e-3", "FACTOR", "-FACTOR", "BELOW", "-BELOW", "i.x - BELOW", "i.x - -1.5", "--i.x")
    yield from ("eps2", "-(-i.x)", "-(-(i.x - j.x))", "FACTOR * BELOW / 7", "i.x * FACTOR - 2 * j.y")
    for function in FUNCTIONS:
        yield from (f"{function}(i.mass)", f"-{function}(i.mass + eps2)", f"j.x / {function}(i.mass * 2) - 1")
    yield "fabs(i.z) + fabs(-i.mass)"
    for comparison in ORDERS:
        for left, right in (("i.x", "j.x"), ("j.x", "i.x"), ("i.x", "i.x"), ("-i.x", "BELOW * 2"), ("i.x - j.x", "-1")):
            yield f"i.y if {left} {comparison} {right} else j.z"
        yield f"2 * (i.y if i.x {comparison} j.x else j.z) - 1"
        yield f"-(i.y - 1 if i.x {comparison} j.x else j.z)"
        yield f"i.y if i.x {comparison} j.x else (j.z if j.y {comparison} i.y else i.mass)"
        yield f"(i.y if i.x {comparison} j.x else j.z) if j.y {comparison} i.y else i.mass - 1"


EXPRESSIONS = list(dict.fromkeys([*pairs_of_operators(), *other_expressions()]))


@pytest.fixture(scope="module")
def every_expression():
    """Evaluate every expression in a way, as many of them at a time as one interaction may have sums."""
    parts = [sums_of(EXPRESSIONS[first : first + SUMS]) for first in range(0, len(EXPRESSIONS), SUMS)]
    expected = [by_python(one) for one in EXPRESSIONS]

    def check(way):
        assert_same(np.concatenate([way(part) for part in parts]), expected)

    return check


def assert_same(found, expected, expressions=EXPRESSIONS):
    wrong = {
        text: (one, other)
        for text, one, other in zip(expressions, found, expected, strict=True)
        if not math.isclose(one, other, rel_tol=1e-14, abs_tol=1e-15)
    }
    assert wrong == {}


def test_the_expressions_can_tell_one_order_of_operations_from_another():
    assert len(EXPRESSIONS) > 200
    assert (len(OPERATORS), len(COMPARISONS)) == (len(SIGNS), len(ORDERS))
    for one, other in (
        ("-(i.x + j.y)", "-i.x + j.y"),
        ("i.x - (j.y - 1)", "i.x - j.y - 1"),
        ("2 / (3 * i.x)", "2 / 3 * i.x"),
    ):
        assert by_python(one) != pytest.approx(by_python(other))


def test_the_python_for_numba_means_what_the_file_says(every_expression):
    every_expression(by_the_python_for_numba)


def test_the_lines_of_the_judge_mean_what_the_file_says(every_expression):
    every_expression(by_the_lines_of_the_judge)


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
def test_the_cuda_c_means_what_the_file_says(every_expression, tmp_path):
    every_expression(lambda interaction: by_the_cuda_c(interaction, Path(tempfile.mkdtemp(dir=tmp_path))))


LINES = [
    "near = j.x - i.x",
    "far = -(near - 2) * FACTOR",
    "sums.first += near / far",
    "sums.first -= near - far",
    "sums.second -= -(near + far)",
    "sums.first += far if near < far else -near",
]


def test_lines_are_written_in_their_order_and_sums_with_their_signs(tmp_path):
    near = OTHER["x"] - OWN["x"]
    far = -(near - 2) * CONSTANTS["FACTOR"]
    expected = [near / far - (near - far) + (far if near < far else -near), near + far]
    interaction = interaction_of(LINES)
    ways = [by_the_python_for_numba, by_the_lines_of_the_judge]
    ways += [lambda one: by_the_cuda_c(one, tmp_path)] if COMPILER else []
    for way in ways:
        assert_same(way(interaction), expected, interaction.sums)


def test_the_judge_adds_up_what_the_file_says_for_every_pair():
    """The compiled loop around the lines: which body is i, which j, and which sum is which."""
    expressions = ["i.x - 2 * j.y", "j.vx * -(i.mass + eps2)", "inverse_sqrt(j.mass) if i.z < j.z else FACTOR"]
    numbers = np.array([list(OWN.values()), list(OTHER.values())])
    bodies = Bodies(numbers[:, 3], numbers[:, :3], numbers[:, 4:], math.sqrt(EPS2))
    found = direct_sums(sums_of(expressions), bodies, np.arange(2), "float64").exact
    for row, i in enumerate(BOTH):
        of_pairs = [[by_python(one, i=Place(i), j=Place(j), eps2=bodies.eps**2) for one in expressions] for j in BOTH]
        assert_allclose(found[row], np.sum(of_pairs, axis=0), rtol=1e-14)


LEAVES = st.sampled_from(["i.x", "j.y", "i.vz", "eps2", "FACTOR", "BELOW", "2", "0.3"])


def grown(inner):
    """Make an expression of smaller ones, parentheses wherever they may stand."""
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(SIGNS), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(SIGNS), inner),
        st.builds("-{}".format, inner),
        st.builds("-({})".format, inner),
        st.builds("sqrt(fabs({}))".format, inner),
        st.builds("({} if {} {} {} else {})".format, inner, inner, st.sampled_from(ORDERS), inner, inner),
    )


@given(st.recursive(LEAVES, grown, max_leaves=12))
def test_any_expression_is_written_with_the_parentheses_it_needs(expression):
    try:
        expected = by_python(expression)
    except (ZeroDivisionError, OverflowError):
        return
    for way in (by_the_python_for_numba, by_the_lines_of_the_judge):
        (found,) = way(sums_of([expression]))
        assert found == expected, expression
    # C has the same order of operations, so that its text, read as Python's, is as right.
    (line,) = re.findall(r"sums\.s0 \+= (.*);", sums_of([expression]).cuda_source())[:1]
    if "?" not in line:
        assert by_python(line, real=float) == expected, line


WORD = re.compile(r"[A-Za-z_]\w*")
# Words that compilers know and that no text of ours may have today.
OTHERS = """
asm bool char double float4 goto int linux long max min nullptr restrict signed static struct switch typeof union unix
unsigned void volatile warpsize numpy cuda libdevice cls rows out bodies eps j_mass i_x sums_ax sums_s total_ax lost_ax
""".split()  # noqa: SIM905

TEXTS = judge.ROW, judge.TERMS, judge.ON_CPU, cuda_sums.KERNEL, judge.ADD, judge.ADD_EXACTLY, judge.ADD_PLAINLY
JUDGE = "\n".join(TEXTS)


def words_of(*texts):
    return {word for text in texts for word in WORD.findall("\n".join(cuda_tokens(text)))}


@pytest.fixture(scope="module")
def words():
    """Every word in the texts around an interaction, and of the languages they are in: the judge's, then the rest."""
    gravity = interaction_files.find("gravity")
    python = words_of(JUDGE, gravity.python_source(), *gravity.python_lines(repr))
    kernels = words_of(*(one.cuda_source(gravity) for one in discover().values() if one.has_cuda_c))
    languages = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *interaction_files.RESERVED, *OTHERS}
    return list(dict.fromkeys([*OTHERS, *sorted(python), *sorted(kernels | languages)]))


def accepted(words, line):
    """Return the words that a line of a file may name; the others are refused."""
    found = []
    for word in words:
        with suppress(InputError):
            interaction_of([line.format(word), "sums.last += 1"])
            found.append(word)
    return found


@pytest.mark.slow
def test_a_value_of_any_name_is_computed_as_with_a_name_that_means_nothing(words, tmp_path):
    names = accepted(words, "{} = j.x")
    assert set(OTHERS) <= {*names}
    assert {"sums", "i", "j", "eps2", "sqrt", "lambda", "UNROLL", "P", "__name__"} <= {*words} - {*names}
    assert len(names) > 400

    def of(names):
        lines = [f"{name} = {number + 1} * j.x" for number, name in enumerate(names)]
        lines += [f"sums.{'sa'[number % 2]}x += {name}" for number, name in enumerate(names)]
        return interaction_of([*lines, "sums.ax += i.mass * j.mass"])

    def judged(interaction):
        numbers = np.array([list(OWN.values()), list(OTHER.values())])
        bodies = Bodies(numbers[:, 3], numbers[:, :3], numbers[:, 4:], math.sqrt(EPS2))
        return direct_sums(interaction, bodies, np.arange(2), "float64").exact

    def expected(names):
        """Return what the sums are with names that mean nothing, for each of the two bodies: its pairs with both."""
        neutral = of([f"neutral{number}" for number in range(len(names))])
        interact = neutral.python(float, inverse_sqrt)
        first, second = (tuple(body[name] for name in neutral.body) for body in BOTH)
        zero = (0.0,) * len(neutral.sums)
        return [[interact(zero, i, j, EPS2) for j in (first, second)] for i in (first, second)]

    ways = [by_the_python_for_numba, by_the_lines_of_the_judge]
    ways += [lambda one: by_the_cuda_c(one, Path(tempfile.mkdtemp(dir=tmp_path)))] if COMPILER else []
    for first in range(0, len(names), 200):
        part = names[first : first + 200]
        for way in ways:
            assert_allclose(way(of(part)), expected(part)[0][1], rtol=1e-13)
    # Compiling takes longer, and every word of the judge is among the first.
    assert words_of(JUDGE) & {*names} <= {*names[:120]}
    assert_allclose(judged(of(names[:120])), np.sum(expected(names[:120]), axis=1), rtol=1e-13)


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
def test_a_sum_of_any_accepted_name_compiles(words, tmp_path):
    names = accepted(words, "sums.{} += i.x")
    assert {"float", "nullptr", "linux", "filler0", "real"} <= {*words} - {*names}
    parts = [sums_named(names[first : first + SUMS]) for first in range(0, len(names), SUMS)]
    text = "".join(f"namespace part{number} {{\n{part.cuda_source()}}}\n" for number, part in enumerate(parts))
    source = tmp_path / "own.cpp"
    source.write_text(HEADERS + SHIM + (SHARED / "body.cuh").read_text() + text)
    subprocess.run([COMPILER, "-std=gnu++20", "-fsyntax-only", "-w", source], check=True)
    for part in parts:
        assert_same(by_the_python_for_numba(part), np.arange(1, len(part.sums) + 1) * OWN["x"], part.sums)


def sums_named(names):
    return interaction_of([f"sums.{name} += {number + 1} * i.x" for number, name in enumerate(names)])


@pytest.mark.parametrize("name", sorted(packaged()))
def test_the_names_in_a_packaged_interaction_are_free_without_an_ending(name):
    """They are written as they stand, so that records keep the hash of what ran."""
    path = packaged()[name]
    plain, ended = interaction_files.find(name), parse(path.read_text(), name, str(path))
    own = {line.target for line in plain.lines if not line.adds}
    assert {line.target for line in ended.lines if not line.adds} == {f"{one}{ENDING}" for one in own}
    header = (SHARED / "body.cuh").read_text()
    around = words_of(header, ended.cuda_source(), ended.python_source(), *ended.python_lines(repr))
    assert own.isdisjoint(around | words_of(JUDGE))
    assert own.isdisjoint({*keyword.kwlist, *dir(builtins), *interaction_files.RESERVED, "unix", "linux"})
