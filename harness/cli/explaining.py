"""The command that explains the speed of a kernel: explain. It needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli.axes import axes_of
from gravbench.cli.folders import known_variants, unknown
from gravbench.cli.options import LOOK, AsJson, app, console, find_run, read_records, warn, writing
from gravbench.errors import InputError, listed

if TYPE_CHECKING:
    from gravbench.explain.explained import Asked
    from gravbench.model.variant import Variant

MOST_BODIES = 1 << 24
NOT_READ = ("power_watts", "temperature_celsius")
"""Readings of a record by which no time is explained."""
OF_A_LEDGER = ("parameter", "n", "dtype", "arch", "against", "multiprocessors", "mhz")
"""Options that say what to compile, and for which card."""
TOOLKIT = "cupy"
"""By whose rules a value of an axis is accepted."""


@app.command(rich_help_panel=LOOK)
def explain(
    context: typer.Context,
    variant: Annotated[str | None, typer.Argument(metavar="VARIANT", help="A variant with a CUDA C kernel.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="AXIS=VALUE", help="Set an axis, e.g. p=128."),
    ] = None,
    n: Annotated[
        str, typer.Option("--n", help="Number of bodies; the launch shape of some variants depends on it.")
    ] = "65536",
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    arch: Annotated[
        str, typer.Option(metavar="A,B", help="Architectures from sm_75 to sm_120, such as sm_80,sm_90.")
    ] = "sm_90",
    against: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Compare with this variant, at its defaults.")
    ] = None,
    multiprocessors: Annotated[
        int, typer.Option(help="Multiprocessors of the card that the bound is for.", min=1, max=1024)
    ] = 132,
    mhz: Annotated[float, typer.Option(help="Clock of that card.", min=1, max=10_000)] = 1980,
    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Also divide up the time that this run measured for the case."),
    ] = None,
    ceilings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder whose ceilings.json --run uses (default: that of the run)."),
    ] = None,
    records: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Instead: compare the model with the records of this run; repeat for more."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --records: write a figure and its numbers to this folder."),
    ] = None,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Instead: save, in the folder of this run, what limits each record, for gravbench report.",
        ),
    ] = None,
    knock_outs: Annotated[
        bool,
        typer.Option("--knock-outs", help="Instead: change one thing in the kernel at a time and measure the effect."),
    ] = False,
    device: Annotated[str | None, typer.Option(help="GPU for --knock-outs (default: the first).")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="With --knock-outs: write to this folder (default: reports/knock-outs-DATE-TIME)."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", help="With --knock-outs: measure nothing; print those in this folder."
        ),
    ] = None,
    as_json: AsJson = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write an HTML page instead: one file that works offline."),
    ] = None,
) -> None:
    """Count the instructions that a kernel spends on an interaction, by pipe and by source line. Needs no GPU.

    --run divides the measured time of the case among its causes, using the limits that `gravbench ceilings` measures.
    --knock-outs, on a GPU, measures the effect of changes to the kernel and compares it with the prediction.
    """
    import json

    from gravbench.cli import proving
    from gravbench.config.numbers import number
    from gravbench.explain import explained, page, printed
    from gravbench.explain.bars import bars as divided
    from gravbench.model.run_names import present

    given = {"--device": device, "--out": out, "--from": source}
    for name in (name for name, value in given.items() if value and not knock_outs):
        raise InputError(f"{name} only works with --knock-outs")
    if source and (device or out or ceilings):
        raise InputError("--from measures nothing; it cannot be combined with --device, --out or --ceilings")
    if sum(map(bool, (records, limits, knock_outs, run))) > 1:
        raise InputError("--records, --limits, --knock-outs and --run cannot be combined; accepted: one of them")
    if ceilings and not (run or records or limits or knock_outs):
        raise InputError("--ceilings needs --run, --records, --limits or --knock-outs")
    if html and (records or limits or knock_outs):
        raise InputError("--html shows the ledger; it cannot be combined with --records, --limits or --knock-outs")
    instead = {"--records": records, "--limits": limits, "--from": source}
    for name in (name for name, value in instead.items() if value):
        if unused := next((one for one in OF_A_LEDGER if _is_given(context, one)), None):
            raise InputError(f"--{unused} describes a kernel to compile; it cannot be combined with {name}")
    if limits and (variant or as_json):
        raise InputError(
            f"--limits covers a whole run; it cannot be combined with {'VARIANT' if variant else '--json'}"
        )
    if figures and not records:
        raise InputError("--figures needs --records")
    ceilings = ceilings and present("--ceilings", ceilings)
    source = source and present("--from", source)
    if records:
        proving.show_errors(records, variant, ceilings, figures, as_json=as_json)
        return
    if limits:
        proving.keep_limits(limits, ceilings)
        return
    if source:
        proving.show_kept(source, variant, as_json=as_json)
        return
    if variant is None:
        raise InputError("explain needs a VARIANT, or --records RUN; see gravbench explain --help")
    if as_json and html:
        raise InputError("--json and --html cannot be combined; accepted: one of them")
    bodies = number(n)
    if not isinstance(bodies, int):
        raise InputError(f"--n {n}: not a whole number; accepted: 2 to {MOST_BODIES:,}")
    architectures = list(dict.fromkeys(word.strip() for word in arch.split(",")))
    variants = known_variants(warn)
    asked = [asked_for(variants, variant, parameter or [], bodies, dtype)]
    if against is not None:
        asked.append(asked_for(variants, against, [], bodies, dtype, "--against"))
    if knock_outs:
        first = asked[0]
        proving.knock_out(first.variant, dict(first.axes), first.n, first.dtype, device, ceilings, out, as_json=as_json)
        return
    folder = find_run(run) if run else None
    found = explained.explain(asked, architectures, multiprocessors, mhz)
    bars = divided(found, read_records(folder, without=NOT_READ), folder, ceilings) if folder else []
    if as_json:
        typer.echo(json.dumps(printed.as_json(found, bars), indent=2))
    elif html:
        with writing(html):
            html.parent.mkdir(parents=True, exist_ok=True)
            html.write_text(page.page(found, bars), "utf-8")
        console().print(f"wrote {html}, {html.stat().st_size / 1e3:.0f} kB", markup=False, soft_wrap=True)
    else:
        printed.render(found, console(), bars)


def _is_given(context: typer.Context, option: str) -> bool:
    """Tell whether an option is on the command line, and not at its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def asked_for(
    variants: Mapping[str, Variant], name: str, parameters: Sequence[str], n: int, dtype: str, option: str = "VARIANT"
) -> Asked:
    """Look up a variant and the values of its axes; ``option`` names the one that the variant was given by.

    Raises:
        InputError: there is no such variant or value, or it has no CUDA C.
    """
    from gravbench.config.document import shown
    from gravbench.explain.explained import Asked

    if name not in variants:
        raise InputError(f"{option} {shown(name)}: no such variant; {unknown(name, list(variants))}")
    variant = variants[name]
    if not variant.has_cuda_c:
        with_it = listed(name for name, one in variants.items() if one.has_cuda_c)
        made_by = " and ".join(variant.toolkits)
        raise InputError(f"{option} {name} has no CUDA C, only a kernel for {made_by}; accepted: {with_it}")
    if dtype not in variant.dtypes:
        raise InputError(f"--dtype {shown(dtype)}: {name} does not support it; accepted: {' or '.join(variant.dtypes)}")
    if not 2 <= n <= MOST_BODIES:
        raise InputError(f"--n {n}: accepted: 2 to {MOST_BODIES:,}")
    return Asked(variant, axes_of(variant, parameters, TOOLKIT), n, "float64" if dtype == "float64" else "float32")
