"""One file of CUDA C that plain nvcc compiles: a variant's text with everything it includes, its constants defined.

It assumes nothing of its reader: no other file, and no option but the architecture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gravbench.errors import InputError
from gravbench.explain.recorded_kernels import asked_of
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Variant
from gravbench.toolkits.interface import FLAGS

SELECTOR = "SELECT"
"""The constant that says which kernel of the file is compiled, where it has several: its number, from 0 on."""
BODIES = 65536
"""For so many bodies, as a rule, a variant chooses what its axes leave to it."""
_PART = re.compile(r'^#line (\d+) "(.*)"\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel of a variant, by its name, and the constants that it is compiled with."""

    name: str
    constants: Mapping[str, int]


def built_of(variant: Variant, interaction: Interaction) -> list[Built]:
    """Return the float32 kernels that a variant asks for with the default of each axis, its main kernel first.

    Raises:
        InputError: the variant has no CUDA C.
    """
    if not variant.has_cuda_c:
        accepted = "a variant with a .cu file"
        raise InputError(f"--standalone: {variant.name} has no CUDA C; accepted: {accepted}")
    kernels = [
        Built(kernel.stem, dict(kernel.constants)) for kernel in asked_of(variant, {}, "float32", interaction, BODIES)
    ]
    # A variant for several GPUs launches the kernel of that for one, whose name its own begins with.
    main = next((kernel for kernel in kernels if variant.name.startswith(kernel.name)), kernels[0])
    return [main, *(kernel for kernel in kernels if kernel is not main)]


def standalone(variant: Variant, interaction: Interaction) -> str:
    """Return the text of a variant's CUDA C with all headers in it and its constants defined.

    Raises:
        InputError: the variant has no CUDA C.
    """
    kernels = built_of(variant, interaction)
    text = naming_parts(variant.cuda_source(interaction))
    return "\n".join([*_head(variant, kernels), *_definitions(kernels), "", text])


def _head(variant: Variant, kernels: Sequence[Built]) -> list[str]:
    """Say in comments how the file is compiled, and where its constants come from."""
    command = f"nvcc -c -arch=sm_90 {variant.name}.cu"
    commands = [command, *(f"{command} -D{SELECTOR}={number}" for number in range(1, len(kernels)))]
    widest = max(map(len, commands))
    return [
        f"// {variant.name}: {variant.summary}",
        "//",
        *(f"//     {command:<{widest}}    # {kernel.name}" for command, kernel in zip(commands, kernels, strict=True)),
        "//",
        f"// gravbench compiles with {' '.join(FLAGS)}.",
        f"// The constants are those of the default axes, for {BODIES:,} bodies in float32.",
    ]


def _definitions(kernels: Sequence[Built]) -> list[str]:
    """Define the constants: those of all kernels, then those that differ, for the kernel that is selected."""
    if len(kernels) == 1:
        return [f"#define {name} {value}" for name, value in kernels[0].constants.items()]
    shared = set.intersection(*(set(kernel.constants.items()) for kernel in kernels))
    lines = [f"#ifndef {SELECTOR}", f"#define {SELECTOR} 0", "#endif"]
    lines += [f"#define {name} {value}" for name, value in kernels[0].constants.items() if (name, value) in shared]
    for number, kernel in enumerate(kernels):
        lines.append(f"{'#elif' if number else '#if'} {SELECTOR} == {number}  // {kernel.name}")
        lines += [f"#define {name} {value}" for name, value in kernel.constants.items() if (name, value) not in shared]
    return [*lines, "#endif"]


def naming_parts(text: str) -> str:
    """Name the file of each part of a text in a comment, in the place of the ``#line`` that says it to a compiler."""
    file = ""

    def comment(line: re.Match[str]) -> str:
        nonlocal file
        begins, same = line[1] == "1", line[2] == file
        file = line[2]
        return "" if same else f"// ---- {file}{'' if begins else ', continued'} ----\n"

    return _PART.sub(comment, text)
