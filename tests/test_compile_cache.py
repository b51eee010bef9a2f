"""What Numba compiles for the host is found again on the disk, and never in place of something else."""

import math
import subprocess
import sys
from collections import namedtuple
from textwrap import dedent

import numba
import numpy as np
import pytest
from numba.extending import intrinsic, overload

from gravbench.model import interaction_files
from gravbench.toolkits import compile_cache

OURS = "gravbench.model"
FACTOR = 3
OPTIONS = {"fastmath": {"nsz", "arcp", "contract", "afn", "reassoc"}, "error_model": "numpy"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep what is compiled in a folder of its own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compile_cache.keep()
    return tmp_path / "gravbench"


def made(constant=1.0, inner=lambda x: x, options=OPTIONS, body="a = 2", **known):
    """Compile a function of ours for float64: it calls another, and refers to constants."""
    inner.__module__ = OURS
    within = numba.njit(inner)
    text = f"def outer(x):\n    {body}\n    return within(x) * constant + FACTOR + a"
    namespace = {"__name__": OURS, "within": within, "constant": constant, "FACTOR": FACTOR, **known}
    exec(text, namespace)
    found = numba.njit(**options)(namespace["outer"])
    found.compile((numba.float64,))
    return found


def loaded(function):
    return sum(function.stats.cache_hits.values())


def test_a_function_is_compiled_once_and_then_found(folder):
    first, second = made(), made()
    assert (loaded(first), loaded(second)) == (0, 1)
    assert first(2.0) == second(2.0) == 7.0
    assert len(list(folder.iterdir())) == 2, "it, and what it calls"


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({"constant": 2.0}, 9.0),
        ({"inner": lambda x: x + 1}, 8.0),
        ({"FACTOR": 4}, 8.0),
        ({"body": "a = 3"}, 8.0),
        ({"options": {"fastmath": {"nsz"}}}, 7.0),
        ({"options": {**OPTIONS, "parallel": True}}, 7.0),
    ],
    ids=["constant", "what it calls", "a global name", "its text", "fastmath", "parallel"],
)
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
def test_what_differs_in_anything_is_compiled_itself(changes, result):
    made()
    other = made(**changes)
    assert (loaded(other), other(2.0)) == (0, result)


def test_what_another_version_compiled_is_compiled_again(monkeypatch):
    made()
    monkeypatch.setattr(compile_cache, "_surroundings", lambda: ("numba 999",))
    assert loaded(made()) == 0


def test_argument_types_and_the_processor_tell_functions_apart(monkeypatch):
    function = made()
    function.compile((numba.float32,))
    assert loaded(function) == 0
    monkeypatch.setattr(type(function.targetctx.codegen()), "magic_tuple", lambda _: ("another processor",))
    assert loaded(made()) == 0


def test_versions_and_settings_of_numba_tell_functions_apart(monkeypatch, tmp_path):
    before = compile_cache._surroundings.__wrapped__()
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    assert compile_cache._surroundings.__wrapped__() == before
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert compile_cache._surroundings.__wrapped__() != before
    monkeypatch.delenv("NUMBA_OPT")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".numba_config.yaml").write_text("boundscheck: 1")
    assert compile_cache._surroundings.__wrapped__() != before
    (tmp_path / ".numba_config.yaml").unlink()
    monkeypatch.setattr(compile_cache, "versions", lambda _: ["another"])
    assert compile_cache._surroundings.__wrapped__() != before


@pytest.mark.slow
def test_another_process_finds_it_whatever_the_order_of_its_sets(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        dedent(
            """
            import numba
            from gravbench.toolkits import compile_cache

            compile_cache.keep()
            __name__ = "gravbench.model"

            @numba.njit(parallel=True, fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})
            def total(x):
                found = 0.0
                for i in numba.prange(x):
                    found += i in {1, 2, 3}
                return found

            print(total(10), sum(total.stats.cache_hits.values()))
            """
        )
    )
    env = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    said = [
        subprocess.run(
            [sys.executable, script], env=env | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert said == [["3.0", "0"], ["3.0", "1"]]


def test_what_refers_to_something_unknown_is_compiled_and_not_kept():
    unknown = numba.typed.List([1.0])
    with pytest.raises(compile_cache.UnknownContentError, match="List"):
        compile_cache.content(unknown)
    with pytest.raises(compile_cache.UnknownContentError, match="module"):
        compile_cache.content(sys.modules[__name__])


def test_what_calls_a_function_that_is_overloaded_is_not_kept():
    """Compiled code calls the overload, of which the function that it replaces says nothing."""

    def strength(x):
        raise NotImplementedError

    @overload(strength)
    def _strength(x):  # noqa: ARG001
        return lambda x: 2.0 * x

    strength.__module__ = OURS
    assert made(body="a = strength(x)", strength=strength)(2.0) == 9.0
    assert loaded(made(body="a = strength(x)", strength=strength)) == 0
    with pytest.raises(compile_cache.UnknownContentError, match="strength, which is not compiled itself"):
        compile_cache.content(made(body="a = strength(x)", strength=strength))


def test_functions_that_generate_code_of_the_compiler_and_types_are_known_by_their_content():
    def described(constant):
        @intrinsic
        def generates(typing_context, x):  # noqa: ARG001
            return numba.float64(x), lambda *_: constant

        return compile_cache.content(generates)

    assert described(1) == described(1) != described(2)
    assert (
        compile_cache.content(numba.int32) == compile_cache.content(numba.int32) != compile_cache.content(numba.int64)
    )


def test_a_function_of_no_module_is_known_by_its_code():
    def described(text):
        namespace = {}
        exec(text, namespace)
        return compile_cache.content(namespace["f"])

    assert described("def f(x): return x + 1") == described("def f(x): return x + 1")
    assert described("def f(x): return x + 1") != described("def f(x): return x * 1")
    assert described("def f(x): return x + 1") != described("def f(x): return x + 2")


def test_no_interaction_is_taken_for_another():
    def described(interaction):
        return tuple(compile_cache.content(interaction.python(np.float32, math.sqrt)))

    texts = {name: path.read_text() for name, path in interaction_files.packaged().items()}
    texts["changed"] = texts["lennard_jones"].replace("SIGMA = 0.04", "SIGMA = 0.05")
    assert len({described(interaction_files.parse(text, name, name)) for name, text in texts.items()}) == len(texts)


def calling(*signature):
    """A function that calls one which was compiled for a signature, or is compiled for whatever it is given."""
    return function("def f(x): return h(x)", h=numba.njit(*signature)(function("def f(x): return x * x")))


def function(text, **known):
    namespace = {"__name__": OURS, **known}
    exec(text, namespace)
    return namespace["f"]


def number(value):
    """A class of text that has no module."""
    namespace = {}
    exec(f"from enum import IntEnum\nclass Number(IntEnum): ONE = {value}", namespace)
    return namespace["Number"]


def with_local(**options):
    text = "def f(x):\n    fastmath = x\n    return fastmath"
    return numba.njit(locals={"fastmath": numba.float32}, **options)(function(text))


DIFFERENT = {
    "signature": (lambda: calling("float64(float64)"), lambda: calling("float32(float32)"), calling),
    "fields": [lambda order=order: namedtuple("Place", order)(1, 2) for order in ("x y", "y x")],
    "digits of a default": [
        lambda more=more: function("def f(x=d): pass", d=np.array([1 + more])) for more in (0.0, 1e-12)
    ],
    "middle of a default": [lambda at=at: function("def f(x=d): pass", d=np.arange(2000) == at) for at in (1000, 1001)],
    "option called as a variable": (with_local, lambda: with_local(fastmath=True)),
}


@pytest.mark.parametrize("different", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_has_another_content(different):
    for first, one in enumerate(different):
        for second, other in enumerate(different):
            assert (compile_cache.content(one()) == compile_cache.content(other())) == (first == second)


@pytest.mark.parametrize("value", [number(1), np.frompyfunc(abs, 1, 1)], ids=["class", "ufunc"])
def test_what_only_looks_like_a_part_of_a_library_is_unknown(value):
    assert compile_cache.content(np.sqrt)
    assert compile_cache.content(int)
    with pytest.raises(compile_cache.UnknownContentError):
        compile_cache.content(value)


def test_a_function_that_is_passed_functions_is_not_kept(folder):
    """Only their addresses are printed, and another process may have another function there."""
    passed = numba.njit(function("def f(x): return x + 1"))
    assert numba.njit(function("def f(h, x): return h(x)"))(passed, 1.0) == 2.0
    assert len(list(folder.iterdir())) == 1, "what is passed"


def test_functions_of_others_are_left_alone(folder):
    """Whoever calls ``gravbench.force`` may compile functions as well; so does Numba itself."""

    @numba.njit
    def function(x):
        return max(x, 1.0)

    assert function(2.0) == 2.0
    assert not folder.exists()


def test_a_damaged_file_is_compiled_anew_and_replaced(folder):
    made()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    function = made()
    assert (loaded(function), function(2.0)) == (0, 7.0)
    assert loaded(made()) == 1


def test_without_a_folder_functions_are_compiled(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    compile_cache.keep()
    assert made()(2.0) == 7.0


def test_names_in_machine_code_do_not_repeat_between_processes():
    script = (
        "from gravbench.toolkits.compile_cache import keep; keep()\n"
        "from numba.core.bytecode import FunctionIdentity\n"
        "print(FunctionIdentity.from_function(lambda: 0).unique_id)"
    )
    numbers = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert numbers[0] != numbers[1]
