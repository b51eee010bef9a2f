"""Files of interactions, spoilt at random: each is refused in a sentence, or computed as its lines say.

What the lines mean is worked out here by an evaluator of their syntax tree, which shares nothing with the generator.
"""

import ast
import ctypes
import math
import random
import re
import subprocess
import warnings
from itertools import product

import numpy as np
import pytest

from conftest import saying
from emulator import COMPILER, HEADERS, SHIM
from gravbench.errors import InputError
from gravbench.model import interaction_files
from gravbench.model.interaction import BODY
from gravbench.model.stem_code import SHARED

FILES = 300
OWN = '''"""Every kind of line that is accepted."""

from gravbench.model.interaction import inverse_sqrt
from math import exp, log

REST = 0.7
STIFFNESS = -2
TOLERANCE = 4


def interact(sums, i, j, eps2):
    """Add what j does to i."""
    dx = j.x - i.x
    r2 = dx * dx + (j.y - i.y) * (j.y - i.y) + eps2
    length = 1 / inverse_sqrt(r2)
    pull = STIFFNESS * (length - REST) if length < 3 else -(0.5 - exp(-r2)) / REST
    near = sqrt(length) if i.mass >= j.mass else (fabs(i.vx) if r2 > 1 else log(r2) * 2e-1)
    sums.fx += pull * dx
    sums.fy -= near - pull
    sums.heat -= -(j.vz - i.vz) * near / (1 + length)
    sums.fx += near
'''
NUMBERS, NAMES, SIGNS = map(
    str.split,
    (
        "0 1 -1 0.0 1e39 1e-46 1e400 1e-30 10**400 0x10 1_000 1j True 3.4e38 2e38 1.2e-38 .5 5. 1e1 9e99",
        "dx r2 sums i j eps2 REST TOLERANCE sqrt exp log fabs inverse_sqrt x j_mass i_x sums_fx sums_ax real rows out "
        "numba bodies lambda_ if print float4 threadIdx P UNROLL min linux y row total_fx _ a__b interact sin pull ax",
        "+ - * / ** // % < <= > >= == != ( ) , . : = += -= @ ~ not and or if else",
    ),
)
SCRAPS = [
    "\0",
    "\t",
    "\\",
    '"""',
    "#",
    "# 3",
    "\ufeff",
    "é",
    "\u2028",
    "\f",
    "\r",
    ";",
    "    ",
    "pass",
    "return",
    "2/0",
]
SCRAPS += [
    "(" * 120,
    "-" * 900,
    "9" * 5000,
    " + i.x" * 300,
    "sqrt(" * 60,
    "lambda: ",
    "[]",
    "'a'",
    "f'{1}'",
    "1 if 2 else 3",
]
LEAVES = ["i.x", "j.y", "i.mass", "j.vz", "eps2", "REST", "STIFFNESS", "2", "0.3", "dx", "r2", "0"]
WORD = re.compile(r"[A-Za-z_]\w*")
NUMBER = re.compile(r"\b\d[\w.]*")
SIGN = re.compile(r"\+=|-=|<=|>=|[-+*/<>=().:,]")


def expression(draw, depth=0):
    """Write a random expression, most of them accepted."""
    kind = draw.random() if depth < 5 else 0
    if kind < 0.3:
        return draw.choice(LEAVES)
    one, two = (expression(draw, depth + 1) for _ in range(2))
    if kind < 0.7:
        return draw.choice(["({} {} {})", "{} {} {}"]).format(one, draw.choice("+-*/"), two)
    if kind < 0.8:
        return draw.choice(["-{}", "-({})", "--{}"]).format(one)
    if kind < 0.9:
        return f"{draw.choice(['sqrt', 'inverse_sqrt', 'fabs', 'exp', 'log'])}({one})"
    three = expression(draw, depth + 1)
    return f"({one} if {two} {draw.choice(['<', '<=', '>', '>='])} {three} else {one} - {two})"


def replaced(draw, text, pattern, words):
    """Put a random word in the place of one that the pattern finds."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    one = draw.choice(found)
    return text[: one.start()] + draw.choice(words) + text[one.end() :]


def renamed(draw, text):
    """Give a value another name, wherever it stands."""
    values = re.findall(r"^    (\w+) =", text, re.MULTILINE)
    return re.sub(rf"\b{draw.choice(values)}\b", draw.choice(NAMES), text) if values else text


def moved(draw, text):
    """Take a line out, or put it elsewhere, or twice."""
    lines = text.splitlines(keepends=True)
    line = draw.choice(lines)
    if draw.random() < 0.7:
        lines.remove(line)
    if draw.random() < 0.7:
        lines.insert(draw.randrange(len(lines) + 1), line)
    return "".join(lines)


def another_value(draw, text):
    """Put a random expression in the place of a line's."""
    lines = text.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if re.match(r"    (\w|\.)+ [+-]?= ", line)]
    if not places:
        return text
    place = draw.choice(places)
    lines[place] = f"{lines[place].partition('= ')[0]}= {expression(draw)}\n"
    return "".join(lines)


def scrap(draw, text):
    """Put something in that belongs nowhere."""
    place = draw.randrange(len(text) + 1)
    return text[:place] + draw.choice(SCRAPS) + text[place:]


def cut(draw, text):
    """Leave a stretch out."""
    first = draw.randrange(len(text) + 1)
    return text[:first] + text[first + draw.choice([1, 1, 3, 20, 400]) :]


MUTATIONS = [
    *[renamed, another_value] * 5,
    *[lambda draw, text: replaced(draw, text, NUMBER, NUMBERS)] * 3,
    *[lambda draw, text: replaced(draw, text, SIGN, SIGNS)] * 2,
    *[lambda draw, text: replaced(draw, text, WORD, NAMES)] * 2,
    *[moved, moved, scrap, cut],
]


def spoilt(draw, texts):
    text = draw.choice(texts)
    for _ in range(draw.choice([1, 1, 2, 3, 6])):
        text = draw.choice(MUTATIONS)(draw, text)
    return text.encode("utf-8", "surrogatepass") + (b"\xff" if draw.random() < 0.02 else b"")


def guarded(function, otherwise):
    def call(value):
        try:
            return np.float64(function(value))
        except (ValueError, OverflowError):
            return np.float64(otherwise(value))

    return call


# As in C: no exception, but infinity or NaN.
CALLS = {
    "sqrt": guarded(math.sqrt, lambda _: math.nan),
    "exp": guarded(math.exp, lambda _: math.inf),
    "log": guarded(math.log, lambda value: -math.inf if value == 0 else math.nan),
    "fabs": np.fabs,
}
CALLS["inverse_sqrt"] = lambda value: np.float64(1) / CALLS["sqrt"](value)


def meant(text, i, j, eps2):
    """Compute what the lines of a file mean: the sums by name, in their order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a spoilt docstring
        module = ast.parse(text)
    known = {}
    sums = {}

    def value(node):
        match node:
            case ast.Constant(value=number):
                return np.float64(number)
            case ast.Name(id=name):
                return known[name]
            case ast.Attribute(value=ast.Name(id=body), attr=name):
                return {"i": i, "j": j}[body][name]
            case ast.UnaryOp(op=ast.USub(), operand=one):
                return -value(one)
            case ast.Call(func=ast.Name(id=name), args=[one]):
                return CALLS[name](value(one))
            case ast.BinOp(left, ast.Add(), right):
                return value(left) + value(right)
            case ast.BinOp(left, ast.Sub(), right):
                return value(left) - value(right)
            case ast.BinOp(left, ast.Mult(), right):
                return value(left) * value(right)
            case ast.BinOp(left, ast.Div(), right):
                return value(left) / value(right)
            case ast.IfExp(test=ast.Compare(left=left, ops=[sign], comparators=[right])):
                one, other = value(left), value(right)
                kind = type(sign)
                true = {ast.Lt: one < other, ast.LtE: one <= other, ast.Gt: one > other, ast.GtE: one >= other}[kind]
                return value(node.body if true else node.orelse)
        raise AssertionError(ast.dump(node))

    # A constant may stand behind the function: what it is then counts where the function is called.
    statements = [one for one in module.body if isinstance(one, ast.Assign)]
    (function,) = (one for one in module.body if isinstance(one, ast.FunctionDef))
    with np.errstate(all="ignore"):
        for one in [*statements, None, *function.body]:
            match one:
                case None:
                    known["eps2"] = np.float64(eps2)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    known[name] = value(one.value)
                case ast.AugAssign(target=ast.Attribute(attr=name), op=ast.Add()):
                    sums[name] = sums.get(name, 0.0) + value(one.value)
                case ast.AugAssign(target=ast.Attribute(attr=name), op=ast.Sub()):
                    sums[name] = sums.get(name, 0.0) - value(one.value)
    return sums


def by_generated_python(interaction, i, j, eps2):
    """Run the text for Numba, and the lines of the judge, in numbers that know infinity."""
    rows = [tuple(body[name] for name in interaction.body) for body in (i, j)]
    with np.errstate(all="ignore"):
        made = {**CALLS, "real": np.float64}
        exec(interaction.interact_source(), made)
        numba = made["interact"]((np.float64(0),) * len(interaction.sums), *rows, np.float64(eps2))
        lines = {**CALLS, "real": np.float64, "eps2": np.float64(eps2)}
        lines |= {f"{whose}_{name}": number for whose, body in (("i", i), ("j", j)) for name, number in body.items()}
        lines |= {f"sums_{name}": np.float64(0) for name in interaction.sums}
        exec("\n".join(interaction.python_lines(lambda number: f"real({number!r})")), lines)
    return list(numba), [lines[f"sums_{name}"] for name in interaction.sums]


NUMBERS_OF_BODIES = (
    (0.31, 1.27, -0.83, 2.9, 0.57, -1.9, 3.7),
    (1.93, -0.47, 2.21, 0.61, 1.1, 0.29, -2.3),
    (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
)
PLACES = [dict(zip(BODY, map(np.float64, row), strict=True)) for row in NUMBERS_OF_BODIES]
PAIRS = list(product(PLACES, repeat=2))
EPS2 = 0.09


def by_cuda_c(interactions, folder):
    """Compile the CUDA C of all in double by g++, and compute every pair with each."""
    parts, entries = [], []
    for number, one in enumerate(interactions):
        rows = [", ".join(f"{whose}[{BODY.index(name)}]" for name in one.body) for whose in "ij"]
        results = "".join(f"found[{place}] = sums.{name};" for place, name in enumerate(one.sums))
        parts.append(
            f"namespace part{number} {{\n{one.cuda_source()}}}\n"
            f'extern "C" void entry{number}(const double* i, const double* j, double eps2, double* found) {{\n'
            f"    part{number}::Sums sums = {{}};\n"
            f"    interact(sums, part{number}::Body{{{rows[0]}}}, part{number}::Body{{{rows[1]}}}, eps2);\n"
            f"    {results}\n}}\n"
        )
    source, library = folder / "own.cpp", folder / "own.so"
    source.write_text(HEADERS + SHIM + (SHARED / "body.cuh").read_text() + "".join(parts))
    options = ["-std=c++20", "-O0", "-w", "-DFLOAT64=1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([COMPILER, *options, "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    for number, one in enumerate(interactions):
        entry = getattr(loaded, f"entry{number}")
        entry.restype = None
        found = np.empty((len(PAIRS), len(one.sums)))
        for row, pair in zip(found, PAIRS, strict=True):
            numbers = [np.array([body[name] for name in BODY]) for body in pair]
            pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*numbers, row)]
            entry(*pointers[:2], ctypes.c_double(EPS2), pointers[2])
        entries.append(found)
    return entries


def same(found, expected):
    """Tell whether two lists of numbers are equal but for the last digits, infinities and NaN included."""
    return np.allclose(found, expected, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.slow
def test_a_spoilt_file_is_refused_in_a_sentence_or_computed_as_it_says(tmp_path, attacks):
    draw = random.Random("interactions")
    texts = [OWN, OWN, *(path.read_text() for path in interaction_files.packaged().values())]
    accepted = []
    for number in range(FILES * attacks):
        content = spoilt(draw, texts)
        path = tmp_path / f"own{number}.py"
        path.write_bytes(content)
        with saying(f"the file is {content!r}"):
            try:
                interaction = interaction_files.find(str(path))
            except InputError as error:
                sentence = str(error)
                assert sentence.startswith(str(path))
                assert len(sentence) < len(str(path)) + 400
                assert sentence.isprintable()
                continue
            assert interaction_files.code_sha256(str(path))
            expected = [meant(path.read_text("utf-8"), *pair, EPS2) for pair in PAIRS]
            assert list(expected[0]) == list(interaction.sums)
            expected = [list(sums.values()) for sums in expected]
            for row, pair in zip(expected, PAIRS, strict=True):
                for found in by_generated_python(interaction, *pair, EPS2):
                    assert same(found, row)
            accepted.append((interaction, content, expected))
    assert FILES * attacks // 4 < len(accepted) < FILES * attacks * 3 // 4
    if COMPILER:
        found = by_cuda_c([one for one, _, _ in accepted], tmp_path)
        for (_, content, expected), own in zip(accepted, found, strict=True):
            with saying(f"the file is {content!r}"):
                assert same(own, expected)
