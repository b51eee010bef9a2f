"""What a stem's files may say, and that a Numba kernel runs what its record will claim."""

import ast
import inspect
from itertools import combinations

import numpy as np
import pytest

from gravbench.errors import InputError
from gravbench.explain.source_lines import places
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import SHARED, cuda_source
from gravbench.model.variant import discover
from gravbench.toolkits.recording import RecordingToolkit
from nvrtc import compile_cuda
from recorder import possible

STEM = '''"""Compute nothing."""

from gravbench.model.variant import variant


def {kernel}(cuda, real, interaction):
    """Make a kernel."""


@variant(parent="naive", source="a test")
def prepare(gpu, bodies):
    """Prepare nothing."""
{below}'''


@pytest.fixture
def stem(tmp_path):
    """Return a function that writes a stem of one's own and finds it."""

    def write(name, kernel="numba_kernel", below="", cuda_c=None):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / f"{name}.py"
        path.write_text(STEM.format(kernel=kernel, below=below))
        if cuda_c is not None:
            path.with_suffix(".cu").write_text(cuda_c)
        return discover((folder,))[name]

    return write


def test_the_toolkits_are_read_off_the_kernels_of_the_stem(stem):
    assert stem("own_both", cuda_c="").toolkits == ("cupy", "pycuda", "numba")
    assert stem("own_triton", "triton_kernel").toolkits == ("triton",)
    assert stem("own_helper", "_helper_kernel").toolkits == ("cpu",)


@pytest.mark.parametrize("cuda_c", [None, ""], ids=["alone", "beside CUDA C"])
def test_a_kernel_for_no_toolkit_is_refused(stem, cuda_c):
    name = f"own_misspelt_{cuda_c is None}"
    with pytest.raises(InputError) as caught:
        stem(name, "numbaa_kernel", cuda_c=cuda_c)
    assert f"{name}.py: numbaa_kernel is not a kernel for any toolkit; did you mean numba_kernel? accepted: " in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


def test_a_kernel_that_prepare_cannot_see_is_refused(stem):
    with pytest.raises(InputError, match=r"own_below\.py: jax_kernel stands below prepare; accepted: above it$"):
        stem("own_below", below="\n\ndef jax_kernel(jax, real):\n    pass\n")


INCLUDING = """// Call what families share.
#include "begin_of.cuh"
extern "C" __global__ void own(int* found) {
    found[0] = begin_of(found[0], found[1], found[2]);
    MISTAKE
}
"""


def test_a_shared_file_stands_in_the_place_of_the_line_that_includes_it(stem):
    path = stem("own_including", cuda_c=INCLUDING).path.with_suffix(".cu")
    text = cuda_source(path, find(GRAVITY))
    shared = (SHARED / "begin_of.cuh").read_text()
    assert text.count(shared) == 1
    assert text.index("typedef float real") < text.index("void interact(") < text.index(shared) < text.index("void own")
    compile_cuda(text, "sm_90", ["-DMISTAKE="])
    # An error is told by the file and the line where it stands.
    with pytest.raises(AssertionError, match=r"own_including\.cu\(5\)"):
        compile_cuda(text, "sm_90", [])


CONDITIONAL = """// Which line this is, whether a compiler reads the header or not.
#ifdef ASKED
#include "begin_of.cuh"
static_assert(__LINE__ == 4);
#ifdef ASKED_MORE
static_assert(__LINE__ == 6);
#endif
#else
static_assert(__LINE__ == 9);
#if 0
#include "begin_of.cuh"
#elif 1 \\
    && 1
static_assert(__LINE__ == 14);
#endif
static_assert(__LINE__ == 16);
/* Of
#if and
*/ #endif /* these
are no others:
#endif
*/
static_assert(__LINE__ == 23);
"""


@pytest.mark.parametrize("options", [[], ["-DASKED"], ["-DASKED", "-DASKED_MORE"]])
def test_lines_keep_their_numbers_behind_a_header_that_is_left_out(tmp_path, options):
    path = tmp_path / "own.cu"
    path.write_text(CONDITIONAL)
    compile_cuda(cuda_source(path, find(GRAVITY)), "compute_90", options)
    path.write_text(CONDITIONAL.replace("== 23", "== 24"))
    with pytest.raises(AssertionError, match=r"own\.cu\(23\)"):
        compile_cuda(cuda_source(path, find(GRAVITY)), "compute_90", options)


@pytest.mark.parametrize("ending", ["\n", ""])
def test_lines_are_those_that_end_as_a_compiler_ends_them(tmp_path, ending):
    (tmp_path / "own.cu").write_text(f"// A\f\nstatic_assert(__LINE__ == 2);{ending}")
    (tmp_path / "around.cu").write_text('// A\u2028\n#include "own.cu"\nMISTAKE')
    text = cuda_source(tmp_path / "around.cu", find(GRAVITY))
    compile_cuda(text, "compute_90", ["-DMISTAKE="])
    assert {("own.cu", 2), ("around.cu", 3)} <= places(text).lines.keys()
    with pytest.raises(AssertionError, match=r"around\.cu\(3\)"):
        compile_cuda(text, "compute_90", [])


def test_a_shared_file_that_is_not_included_is_not_there():
    assert "begin_of" not in discover()["tiled"].cuda_source(find(GRAVITY))


def test_a_shared_file_that_does_not_exist_is_one_sentence(stem):
    variant = stem("own_lost", cuda_c='// Lost.\n#include "begins.cuh"\n')
    with pytest.raises(InputError, match=r"own_lost\.cu, line 2: no shared file begins\.cuh; .*accepted: .*begin_of"):
        variant.cuda_source(find(GRAVITY))


@pytest.mark.parametrize("line", ['#include "own.h"', ' # include"own.h" // A', '#include "/usr/include/own.h"'])
@pytest.mark.parametrize("file", ["own.cu", "body.cuh"])
def test_a_file_is_part_of_the_text_or_is_not_included(tmp_path, file, line):
    """What a compiler reads beside the text stands neither in the hash of the code nor in that of what is kept."""
    for name in ("own.cu", "body.cuh"):
        (tmp_path / name).write_text(f"// A\n{line}\n" if name == file else "")
    with pytest.raises(InputError, match=rf"{file}, line 2: no shared file \S*own\.h; .*begin_of"):
        cuda_source(tmp_path / "own.cu", find(GRAVITY))


def test_a_stem_that_includes_another_has_its_text_with_the_headers_of_that(tmp_path):
    for name, text in {
        "own": INCLUDING,
        "around": '// A\n#include "own.cu"\nMISTAKE\n',
        "far": '#include "around.cu"\n',
    }.items():
        (tmp_path / f"{name}.cu").write_text(text)
    text = cuda_source(tmp_path / "around.cu", find(GRAVITY))
    assert text.count((SHARED / "begin_of.cuh").read_text()) == text.count("void own") == 1
    with pytest.raises(AssertionError, match=r"around\.cu\(3\)"):
        compile_cuda(text.replace("    MISTAKE", ""), "sm_90", [])
    with pytest.raises(InputError, match=r"around\.cu, line 2: no other file own\.cu; .*begin_of"):
        cuda_source(tmp_path / "far.cu", find(GRAVITY))


TWINS = [
    name
    for name, variant in discover().items()
    if variant.has_cuda_c and "numba" in variant.toolkits and "theta" not in variant.axes
]


def runs(variant, axes):
    """Return what decides what a launch of a twin does: the constants that its source uses, and its arguments."""
    recorder = RecordingToolkit("float32", find(GRAVITY))
    variant.prepare(recorder, generators.plummer(2000, 3, 0.05), **axes).launch()
    source = ast.parse(inspect.getsource(variant.module.numba_kernel)).body[0]
    used = {node.id for statement in source.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    constants = [(name, value) for kernel in recorder.kernels for name, value in kernel.constants if name in used]
    given = [one for _, arguments in recorder.launched for one in arguments]
    return constants, [one.shape if isinstance(one, np.ndarray) else str(one) for one in given]


@pytest.mark.parametrize("name", TWINS)
def test_every_value_of_an_axis_that_a_twin_takes_changes_what_it_runs(name):
    """A kernel that ignores an axis has to say in ``when`` which one value it stands for."""
    variant = discover()[name]
    for axis, values in variant.axes.items():
        if axis in ("parts", "memory"):  # 0 stands for one of the others; a kernel does not see the host's memory
            continue
        axes = [variant.complete({axis: value}) for value in values]
        able = [one for one in axes if possible(variant, one, "numba")]
        for one, other in combinations(able, 2):
            assert runs(variant, one) != runs(variant, other), (axis, one[axis], other[axis])
