"""Commands that show what there is, and need no GPU: list, source, schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.cli.folders import known_variants, unknown
from gravbench.cli.options import LOOK, OWN, AsJson, app, console, paged, tell_written, warn, writing
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.model.interaction import Interaction
    from gravbench.model.variant import Variant


@app.command("list", rich_help_panel=LOOK)
def list_variants(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Describe this variant or interaction in full.", autocompletion=completion.variants
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the variants and interactions, one line each; with NAME, describe one in full."""
    import json

    from gravbench.model.interaction_files import find, packaged
    from gravbench.report.terminal import inventory

    variants = known_variants(warn)
    interactions = {interaction: find(interaction) for interaction in packaged()}
    if name is not None and name not in variants and name not in interactions:
        known = unknown(name, [*variants, *interactions])
        raise InputError(f"{name} is neither a variant nor an interaction; {known}")
    if as_json:
        chosen = {key: entry for key, entry in variants.items() if name in (None, key)}
        others = [entry for key, entry in interactions.items() if name in (None, key)]
        typer.echo(json.dumps(inventory.inventory_json(chosen, others), indent=2))
    elif name is None:
        inventory.show_variants(variants, console())
        inventory.show_interactions(list(interactions.values()), console())
    elif name in variants:
        with paged() as terminal:
            inventory.show_variant(variants[name], variants, terminal)
    else:
        takers = [key for key, entry in variants.items() if entry.any_interaction]
        inventory.show_interaction(interactions[name], takers, console())


@app.command(rich_help_panel=LOOK)
def source(
    variant: Annotated[
        str, typer.Argument(metavar="VARIANT", help="The name of a variant.", autocompletion=completion.variants)
    ],
    interaction: Annotated[str, typer.Option(help="The name of an interaction, or a file.")] = "gravity",
    python: Annotated[
        bool, typer.Option("--python", help="Print the Python file instead: axes, launch code and the Numba kernel.")
    ] = False,
    machine_code: Annotated[
        bool, typer.Option("--machine-code", help="Print the compiled machine code of its float32 kernels instead.")
    ] = False,
    arch: Annotated[
        str | None, typer.Option(help="Architecture for --machine-code, such as sm_80 (default: sm_90).")
    ] = None,
    toolkit: Annotated[
        str | None,
        typer.Option(help="Toolkit whose kernel is printed (default: one that compiles the CUDA C, if there is any)."),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Print one file of CUDA C that plain nvcc compiles instead.")
    ] = False,
    entry: Annotated[
        bool, typer.Option("--entry", help="Print it as an entry instead: one file that `gravbench judge` takes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the file of --standalone or --entry here instead of printing it."),
    ] = None,
) -> None:
    """Print the source of a variant: the CUDA C as it is compiled, the file in another language, or the Python.

    With --toolkit wgpu, print the WGSL as it is compiled, with the default of each axis.

    With --standalone, everything that the CUDA C includes is in it and its constants are defined, with the default of
    each axis: `nvcc -c -arch=sm_90 FILE` compiles it.

    With --entry, a head says how it is launched for any n, with the default of each axis, or what is chosen for 65,536
    bodies.

    With --machine-code, print the instructions of its compiled kernels, with the default of each axis. This needs the
    compiler and nvdisasm, but no GPU.
    """
    kinds = {"--machine-code": machine_code, "--python": python, "--standalone": standalone, "--entry": entry}
    _check_options(kinds, {"--arch": arch}, "--machine-code")
    _check_options(kinds, {"--out": out}, "--standalone", "--entry")
    for option in ("--python", "--standalone", "--entry"):
        if toolkit is not None and kinds[option]:
            raise InputError(f"--toolkit and {option} cannot be combined; accepted: one of them")
    chosen, computed = _found(variant, interaction)
    text, language = TEXTS[next((name for name, wanted in kinds.items() if wanted), None)](
        chosen, computed, toolkit, arch or "sm_90"
    )
    if out is None:
        _show(text, language)
    else:
        _write(text, out)


def _write(text: str, path: Path) -> None:
    from gravbench.model.regular import check_unchanged

    check_unchanged(path, text)
    with writing(path):
        path.write_text(text, "utf-8")
    tell_written(console(), path)


def _machine_code(variant: Variant, interaction: Interaction, toolkit: str | None, arch: str) -> tuple[str, str]:
    from gravbench.explain.generated import machine_code

    return machine_code(variant, interaction, arch, toolkit), "text"


def _python(variant: Variant, *_: object) -> tuple[str, str]:
    from gravbench.model import files

    return files.text(variant.path), "python"


def _standalone(variant: Variant, interaction: Interaction, *_: object) -> tuple[str, str]:
    from gravbench.explain.standalone import standalone

    return standalone(variant, interaction), "cuda"


def _entry(variant: Variant, interaction: Interaction, *_: object) -> tuple[str, str]:
    from gravbench.judging.export import exported
    from gravbench.model.interaction import GRAVITY

    if interaction.name != GRAVITY:
        raise InputError(f"--entry: an entry computes {GRAVITY}, not {interaction.name}; accepted: {GRAVITY}")
    return exported(variant), "cuda"


def _kernel(variant: Variant, interaction: Interaction, toolkit: str | None, _: str) -> tuple[str, str]:
    """Return what a toolkit compiles of a variant; where none is named, the first that the variant has a kernel for."""
    from gravbench.model import files, wgsl
    from gravbench.model.toolkits import catalogue, check_offered
    from gravbench.toolkits.wgsl_texts import texts

    if toolkit is not None:
        check_offered(toolkit, variant.name, variant.toolkits)
    entry = catalogue()[toolkit or variant.toolkits[0]]
    file = variant.path.with_suffix(entry.suffix)
    if variant.has_cuda_c and (toolkit is None or entry.cuda_c):
        return variant.cuda_source(interaction), "cuda"
    if entry.suffix == wgsl.SUFFIX:
        return "\n".join(made.text for made in texts(variant, {}, interaction)), "rust"
    return files.text(file if entry.suffix and file.exists() else variant.path), "python"


TEXTS: Mapping[str | None, Callable[[Variant, Interaction, str | None, str], tuple[str, str]]] = {
    "--machine-code": _machine_code,
    "--python": _python,
    "--standalone": _standalone,
    "--entry": _entry,
    None: _kernel,
}
"""What ``source`` prints by its option, and the language, given variant, interaction, toolkit and architecture."""


def _check_options(kinds: Mapping[str, bool], options: Mapping[str, object], *suitable: str) -> None:
    """Refuse two kinds of source at once, and options that only work with ``suitable`` kinds without one of these."""
    chosen = [name for name, value in kinds.items() if value]
    if len(chosen) > 1:
        raise InputError(f"{chosen[0]} and {chosen[1]} cannot be combined; accepted: one of them")
    for option, value in options.items():
        if value is not None and not set(suitable) & set(chosen):
            raise InputError(f"{option} only works with {' or '.join(suitable)}")


def _found(variant: str, interaction: str) -> tuple[Variant, Interaction]:
    """Return the variant and the interaction of these names.

    Raises:
        InputError: there is no such variant or interaction, or the variant computes gravity alone.
    """
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find

    known = known_variants(warn)
    if variant not in known:
        raise InputError(f"there is no variant {variant}; {unknown(variant, list(known))}")
    computed = find(interaction)
    if computed.name != GRAVITY and not known[variant].any_interaction:
        takers = ", ".join(name for name, other in known.items() if other.any_interaction)
        raise InputError(f"--interaction {interaction}: {variant} computes gravity; accepted: with {takers}")
    return known[variant], computed


def _show(text: str, language: str) -> None:
    """Print a source: a terminal may colour it; what is piped is the text alone, for a compiler."""
    with paged() as terminal:
        if terminal.is_terminal:
            from rich.syntax import Syntax

            terminal.print(Syntax(text.expandtabs(4), language, background_color="default", word_wrap=True))
        else:
            typer.echo(text, nl=False)


@app.command(rich_help_panel=OWN)
def schema() -> None:
    """Print the JSON Schema of configuration files, so that editors can complete and check them.

    Save it with `gravbench schema > gravbench.schema.json`. For the YAML language server, begin a configuration with
    `# yaml-language-server: $schema=gravbench.schema.json`.
    """
    import json

    from gravbench.config.schema import config_schema

    typer.echo(json.dumps(config_schema(), indent=2))
