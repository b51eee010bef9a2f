"""What stands beside tuned CUDA C for readers: it computes the same, by as many instructions, and is not what ran."""

import re
from collections import Counter

import numpy as np
import pytest

from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench.explain import assembling
from gravbench.explain.recorded_kernels import asked_of
from gravbench.model import generators
from gravbench.model.identity import PLAIN, cuda_tokens
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits.interface import cuda_options
from gravbench.verifying import comparing

SYMMETRIC = discover()["symmetric"]
GRAVITATION = find(GRAVITY)
CODE = "int before;\n#ifdef PLAIN\n#if R\nint a;\n#else\nint b;\n#endif\n{}#endif\n#if R\nint after;\n#endif\n"


class Plain(Emulator):
    """Compiles the form for readers."""

    def compile(self, stem, /, **constants):
        """Define what selects it."""
        return super().compile(stem, **{PLAIN: 1}, **constants)


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("axes", [{}, {"equal_mass": 1}], ids=["masses", "equal masses"])
def test_the_plain_pair_of_symmetric_computes_what_the_tuned_one_does(libraries, axes):
    bodies = generators.plummer(97, 3, 0.05)
    chosen = SYMMETRIC.complete({"p": 32, "r": 2, "unroll": 8, **axes})
    prepared = SYMMETRIC.prepare(Plain(SYMMETRIC, "float32", libraries), bodies, **chosen)
    prepared.launch()
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    errors = comparing.compare(prepared.accelerations[:, :3], expected)
    assert comparing.objection_to(errors, SYMMETRIC.accepted("float32", chosen)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_plain_pair_of_symmetric_takes_as_many_instructions_of_each_kind(dtype):
    if reason := assembling.missing():
        pytest.skip(reason)
    kernel = asked_of(SYMMETRIC, {}, dtype, GRAVITATION)[0]
    options = cuda_options(dict(kernel.constants), dtype)
    source = SYMMETRIC.cuda_source(GRAVITATION)

    def kinds(*more):
        text = assembling.listing(assembling.compiled(source, "sm_90", [*options, *more]))
        return Counter(re.findall(r"/\*[0-9a-f]{4,5}\*/ +(?:@!?\w+ +)?(\w+)", text))

    tuned, plain = kinds(), kinds(f"-D{PLAIN}")
    for kind in ("FADD", "FFMA", "FMUL", "DADD", "DFMA", "DMUL", "MUFU", "LDS", "SHFL"):
        assert plain[kind] == tuned[kind]
    assert tuned["MUFU"] > 64


def test_what_no_toolkit_compiles_is_not_part_of_what_identifies_a_measurement():
    behind = "#if R\nint after;\n#endif\n"
    tuned = [*cuda_tokens(f"int before; int tuned;\n{behind}")]
    assert [*cuda_tokens(CODE.format("#else\nint tuned;\n"))] == tuned
    assert [*cuda_tokens(CODE.format("int c;\n#else\nint tuned;\n"))] == tuned
    assert [*cuda_tokens(CODE.format(""))] == [*cuda_tokens(f"int before;\n{behind}")]
    assert [*cuda_tokens(CODE.format("#else\nint other;\n"))] != tuned


@pytest.mark.parametrize("name", [name for name, variant in discover().items() if variant.has_cuda_c])
def test_no_variant_defines_it(name):
    kernels = asked_of(discover()[name], {}, "float32", GRAVITATION, 97)
    assert PLAIN not in {constant for kernel in kernels for constant, _ in kernel.constants}
