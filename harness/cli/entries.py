"""The command that judges an entry: a file of device code that declares how it is launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli import completion
from gravbench.cli.folders import known_variants, unknown
from gravbench.cli.options import MEASURE, AsJson, app, console, warn, working, writing
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.model.variant import Variant


@app.command("judge", rich_help_panel=MEASURE)
def judge_entry(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An entry: CUDA C whose head says how it is launched.")],
    emulate: Annotated[
        bool, typer.Option("--emulate", help="Run it on the processor, thread by thread; needs g++ and no GPU.")
    ] = False,
    n: Annotated[
        str | None,
        typer.Option("--n", metavar="N,N", help="Numbers of bodies (default: four, by the size of a block)."),
    ] = None,
    rung: Annotated[
        str | None,
        typer.Option(metavar="VARIANT", help="Set it against this variant.", autocompletion=completion.variants),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the bodies, to repeat a judgement (default: drawn).")
    ] = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page to this file, too.")] = None,
) -> None:
    """Judge an entry: say whether it is right, which bodies are wrong and why, and what an interaction costs.

    Exit code 1 if it is wrong. `gravbench source VARIANT --entry` writes a variant as an entry.
    """
    from gravbench.judging import judgement
    from gravbench.judging.emulating import EmulatedLauncher
    from gravbench.judging.entry import read
    from gravbench.judging.judged import Judged, costed, costed_rung, page, sections
    from gravbench.judging.judged import as_json as whole
    from gravbench.report.terminal.sections import render_sections
    from gravbench.sandbox.confined import protections

    if not emulate:
        raise InputError(f"judge runs an entry on the processor alone; accepted: gravbench judge {file} --emulate")
    entry = read(file)
    against = _rung(rung or entry.head.rung, "--rung" if rung else f"{file}: rung")
    sizes = _sizes(n) if n is not None else judgement.usual_sizes(entry)
    for sentence in protections().missing:
        warn(sentence)
    with working(f"emulating {file.name}"):
        judged = judgement.judge(entry, EmulatedLauncher(), sizes, against, seed)
        costs = [costed(file.name, entry), *([costed_rung(against)] if against else [])]
    result = Judged(judged, EmulatedLauncher.description, tuple(costs))
    if html is not None:
        with writing(html):
            html.write_text(page(result), "utf-8")
    if as_json:
        typer.echo(json.dumps(whole(result), indent=2))
    else:
        render_sections(sections(result), console())
    raise typer.Exit(0 if result.right else 1)


def _rung(name: str | None, where: str) -> Variant | None:
    variants = known_variants(warn)
    if name is not None and name not in variants:
        raise InputError(f"{where} {name} is not a variant; {unknown(name, list(variants))}")
    return variants[name] if name else None


def _sizes(text: str) -> list[int]:
    """Read numbers of bodies, in ascending order."""
    from gravbench.config.override import parse
    from gravbench.judging.judgement import check_sizes

    values = parse(f"n={text}").values
    for value in values:
        if type(value) is not int:
            raise InputError(f"--n {text}: {value} is no whole number; accepted: whole numbers, such as 1,129,1000")
    sizes = sorted({value for value in values if isinstance(value, int)})
    check_sizes(sizes)
    return sizes
