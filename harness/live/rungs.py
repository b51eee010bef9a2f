"""The rungs of the page: the variants with a kernel in WGSL that sum directly, and what each dispatches at each n."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Any

from gravbench.config.fitting import misfit
from gravbench.errors import InputError
from gravbench.live.recorder import BufferRecorder
from gravbench.model import files, generators, interaction_files, wgsl
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.variant import Axes, AxisValue, Prepared, Variant, discover, parents
from gravbench.toolkits.wgsl_texts import TOOLKIT
from gravbench.verdicts.ranking import ladder_order

SIZES = (1024, 4096, 16384, 65536)
"""Numbers of bodies to choose from."""
SEED, EPS = 1, 0.025
MOST_THREADS = 256
"""Threads of a block that every device of WebGPU has."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an evaluation dispatches, as JSON for the page. ``texts`` are those of its kernels, each once.

    Of ``kernels`` each has the place of its text and its entry points, of ``dispatches`` each the place of its kernel.
    ``result`` names the buffers with the accelerations, and how many numbers of each belong to a body.
    """

    texts: tuple[str, ...]
    kernels: tuple[dict[str, Any], ...]
    buffers: tuple[dict[str, Any], ...]
    dispatches: tuple[dict[str, Any], ...]
    result: dict[str, Any]
    threads: int


@dataclass(frozen=True, slots=True)
class Rung:
    """A variant on the page, with the values of its axes and its plans by n."""

    variant: Variant
    axes: dict[str, AxisValue]
    plans: Mapping[int, Plan]


@cache
def sphere(n: int) -> Bodies:
    """Make the bodies of all rungs with n of them."""
    return generators.plummer(n, SEED, EPS)


@cache
def gravity() -> Interaction:
    """Return the interaction that all rungs compute."""
    return interaction_files.find(GRAVITY)


@cache
def rungs() -> list[Rung]:
    """Return all rungs, in the order of the ladder.

    Raises:
        InputError: a variant with a kernel in WGSL cannot be put on the page.
    """
    variants = discover()
    direct = [name for name, variant in variants.items() if TOOLKIT in variant.toolkits and not variant.approximates]
    return [_rung(variants[name]) for name in ladder_order(direct, parents(variants))]


def _rung(variant: Variant) -> Rung:
    axes = portable_axes(variant)
    return Rung(variant, axes, {n: plan_of(variant, axes, n) for n in SIZES})


def portable_axes(variant: Variant) -> dict[str, AxisValue]:
    """Return the defaults of a variant, or the nearest values whose blocks every device of WebGPU can run.

    Raises:
        InputError: there are none.
    """
    for axes in _candidates(variant):
        if not misfit(variant, TOOLKIT, axes) and plan_of(variant, axes, SIZES[0]).threads <= MOST_THREADS:
            return axes
    raise InputError(f"{variant.name}: no values of its axes make blocks of at most {MOST_THREADS} threads")


def _candidates(variant: Variant) -> Iterator[dict[str, AxisValue]]:
    """Give the defaults, and then those with one axis lowered, step by step; the last axes first."""
    axes = variant.adapted(variant.complete({}), TOOLKIT, ())
    yield axes
    for name in reversed(axes):
        usual = axes[name]
        if isinstance(usual, int):
            lower = [value for value in variant.axes[name] if isinstance(value, int) and value < usual]
            yield from ({**axes, name: value} for value in reversed(lower))


def plan_of(variant: Variant, axes: Axes, n: int) -> Plan:
    """Record what a variant dispatches for n bodies.

    Raises:
        InputError: it fills a buffer with what the page cannot make, or needs several evaluations to count all pairs.
    """
    recorder = BufferRecorder(sphere(n), gravity())
    try:
        prepared = variant.prepare(recorder, sphere(n), **axes)
    except InputError as error:
        raise InputError(
            f"{variant.name}: {error}; accepted: these alone, for a kernel that the page can run"
        ) from error
    if prepared.cycle != 1:
        raise InputError(f"{variant.name}: {prepared.cycle} evaluations count all pairs; accepted: one")
    prepared.launch()
    return _plan(recorder, prepared, variant)


def _plan(recorder: BufferRecorder, prepared: Prepared, variant: Variant) -> Plan:
    """Put together what was recorded: a kernel that is launched with blocks of two sizes is compiled twice."""
    path = variant.path.with_suffix(wgsl.SUFFIX)
    texts: dict[str, int] = {}
    kernels: dict[tuple[int, int], dict[str, Any]] = {}
    for dispatch in recorder.dispatches:
        recorded = recorder.kernels[dispatch.kernel]
        constants = {**dict(recorded.constants), wgsl.THREADS: dispatch.threads}
        text = written(path.name, files.text(path), constants)
        kernel = {"text": texts.setdefault(text, len(texts)), "entries": wgsl.entry_points(text, recorded.stem)}
        kernels.setdefault((dispatch.kernel, dispatch.threads), kernel)
    places = list(kernels)
    return Plan(
        texts=tuple(texts),
        kernels=tuple(kernels.values()),
        buffers=tuple(map(asdict, recorder.buffers)),
        dispatches=tuple(
            {**asdict(dispatch), "kernel": places.index((dispatch.kernel, dispatch.threads))}
            for dispatch in recorder.dispatches
        ),
        result=_result(recorder, prepared.accelerations),
        threads=max(dispatch.threads for dispatch in recorder.dispatches),
    )


def _result(recorder: BufferRecorder, accelerations: Any) -> dict[str, Any]:
    arrays = accelerations if isinstance(accelerations, tuple) else (accelerations,)
    width = 1 if arrays[0].ndim == 1 else arrays[0].shape[1]
    return {"buffers": [recorder.place_of(array) for array in arrays], "width": width}


def written(name: str, stem: str, constants: Mapping[str, int]) -> str:
    """Return the text of a kernel as a person edits it: whole, but for the loops that the page writes out.

    The page does so as ``gravbench.model.wgsl`` does, by the constants that stand in the text.
    """
    head, body = wgsl.divided(stem, constants)
    return f"{head}\n// {name}\n{body}\n{gravity().wgsl_source()}"


def changed_lines(text: str, before: str) -> list[int]:
    """Return which lines of a text, counted from 0, another one lacks."""
    lines, others = text.splitlines(), before.splitlines()
    blocks = SequenceMatcher(None, others, lines, autojunk=False).get_matching_blocks()
    kept = {place for block in blocks for place in range(block.b, block.b + block.size)}
    return [place for place, line in enumerate(lines) if place not in kept and line.strip()]


def above(rung: Rung, known: Sequence[Rung]) -> Rung | None:
    """Return the rung that one is derived from: its nearest ancestor that is on the page."""
    by_name, variants = {other.variant.name: other for other in known}, discover()
    name = rung.variant.parent
    while name is not None and name not in by_name:
        name = variants[name].parent
    return None if name is None else by_name[name]
