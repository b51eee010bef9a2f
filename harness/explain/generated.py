"""Machine code of kernels in any language, made by its compiler without a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from gravbench.errors import InputError, listed, shortened
from gravbench.explain.assembling import Compiled, compiled, linked, listing, naming
from gravbench.explain.recorded_kernels import asked_of
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import PACKAGE, catalogue, check_offered
from gravbench.model.variant import Axes, Variant
from gravbench.toolkits.interface import cuda_options
from gravbench.toolkits.jobs import Image, Job
from gravbench.toolkits.recording import RecordingToolkit

BODIES = 64
"""For which a kernel is asked for; no constant of one depends on more."""
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
"""That all of the compilers know; one of them ends the process when it is asked for another."""
Compiler = Callable[[Job, str], Image]


def machine_code(variant: Variant, interaction: Interaction, architecture: str, by: str | None = None) -> str:
    """Print the instructions of a variant's float32 kernels with the default of each axis, as nvdisasm does.

    ``by`` is the toolkit, otherwise one that compiles CUDA C, or the first of the variant's that has a compiler.

    Raises:
        InputError: a kernel cannot be compiled or read here.
    """
    if by is not None:
        check_offered(by, variant.name, variant.toolkits)
    if not variant.has_cuda_c or (by is not None and not catalogue()[by].cuda_c):
        return listing(generated(variant, {}, architecture, by)[0])
    source = variant.cuda_source(interaction)
    combinations = dict.fromkeys(kernel.constants for kernel in asked_of(variant, {}, "float32", interaction))
    with naming(variant.path):
        return "".join(
            listing(compiled(source, architecture, cuda_options(dict(constants), "float32")))
            for constants in combinations
        )


def compilers() -> Mapping[str, Compiler]:
    """Return what compiles a kernel of a toolkit without a GPU, beside NVRTC for CUDA C."""
    modules = {name: importlib.import_module(f"{PACKAGE}.{name}") for name in catalogue()}
    return {name: module.image for name, module in modules.items() if hasattr(module, "image")}


def generated(variant: Variant, axes: Axes, architecture: str, by: str | None = None) -> tuple[Compiled, str]:
    """Compile the float32 kernel of a variant for an architecture such as ``sm_90``; returns it and its name.

    ``by`` is the toolkit, otherwise the first of the variant's that has a compiler.

    Raises:
        InputError: no compiler of its languages works without a GPU, the one that does is not installed, or it refuses
            the kernel.
    """
    known = compilers()
    toolkit = next((name for name in variant.toolkits if name in known and by in (None, name)), None)
    if toolkit is None:
        accepted = listed(["CUDA C", *(catalogue()[name].title for name in known)])
        refusal = f"{variant.name} has no machine code {f'by {by} ' if by else ''}without a GPU"
        raise InputError(f"{refusal}; accepted: variants in {accepted}")
    if missing := catalogue()[toolkit].missing:
        raise InputError(missing)
    if architecture not in ARCHITECTURES:
        raise InputError(f"--arch {shortened(architecture)}: no such architecture; accepted: {listed(ARCHITECTURES)}")
    try:
        image = known[toolkit](job_of(variant, axes), architecture)
    except Exception as error:  # compilers have no common kind
        title = catalogue()[toolkit].title
        raise InputError(f"{title} does not compile {variant.name} for {architecture}: {error}") from error
    return Compiled(architecture, linked(image.code, architecture), ""), image.kernel


def job_of(variant: Variant, axes: Axes) -> Job:
    """Return what a variant asks a compiler for with these axes: its one kernel, and the launch of it."""
    toolkit = RecordingToolkit("float32", find(GRAVITY))
    prepared = variant.prepare(toolkit, generators.plummer(BODIES, 1, 0.025), **variant.complete(axes))
    prepared.launch()
    (kernel,) = toolkit.kernels
    return kernel.job(variant, toolkit.real, toolkit.interaction)
