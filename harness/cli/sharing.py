"""The commands that pack a run for others, check what others packed, and show it: share, verify, site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli import completion
from gravbench.cli.folders import known_variants
from gravbench.cli.options import READ, AsJson, app, console, find_run, tell, tell_written, warn, working, writing
from gravbench.errors import InputError

OTHER_SIGNER = 3
"""The exit code of a consistent bundle that is not signed as it was asked for."""


@app.command(rich_help_panel=READ)
def share(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder or name of a run.", autocompletion=completion.runs)],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write this file (default: NAME.gravbench.zip).")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what would be shared, and write nothing.")] = False,
    sign: Annotated[
        bool,
        typer.Option("--sign", help="Sign it as yourself by Sigstore, whose public log keeps your address for ever."),
    ] = False,
) -> None:
    """Pack a run for others: records with all samples, environment, code as compiled, and hashes of binaries.

    Hosts, users, paths and the UUIDs of cards are left out or replaced. `gravbench verify` checks the file.
    """
    from gravbench.sharing import bundle, signing
    from gravbench.sharing.writing import files_of, summary

    if show and sign:
        raise InputError("--show and --sign cannot be combined; accepted: one of them")
    folder = find_run(run)
    with working(f"packing {folder}"):
        files = files_of(folder, known_variants(warn), warn)
    terminal = console()
    if show:
        for line in summary(files):
            tell(terminal, line)
        return
    if sign:
        files[bundle.SIGNATURE] = signing.signature_of(files)
    path = out or Path(f"{folder.resolve().name}{bundle.ENDING}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    root = bundle.write(path, files)
    tell_written(terminal, path, size=True)
    tell(terminal, f"root {root}")
    tell(terminal, f"Check it: gravbench verify {path}")


@app.command(rich_help_panel=READ)
def verify(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A file that `gravbench share` wrote.")],
    all_kernels: Annotated[
        bool, typer.Option("--all-kernels", help="Compile all kernels, not only 40 that are chosen at random.")
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Ask for a signature by this e-mail address or workflow; else exit code 3."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask that this service vouched for --identity.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a shared run without its GPU: hashes, arithmetic, plan, devices, samples, times, rates and code.

    Exit code 1 if any two statements contradict each other, 0 if none do; what cannot be checked is listed.

    A signature proves who, not whether. Exit code 3 if the bundle is consistent and has no signature by --identity.
    """
    from gravbench.sharing import bundle, checks, printed, signing

    if issuer is not None and identity is None:
        raise InputError("--issuer only works with --identity")
    read = bundle.read(file)
    with working("checking") as say:
        answer = checks.verify(read, all_kernels=all_kernels, say=say)
    other_signer = signing.other_than(answer.outcomes[signing.NAME], identity, issuer) if identity else ""
    if as_json:
        typer.echo(json.dumps(printed.as_json(answer, other_signer), indent=1))
    else:
        printed.show(answer, console(), other_signer)
    raise typer.Exit(1 if not answer.consistent else OTHER_SIGNER if other_signer else 0)


@app.command(rich_help_panel=READ)
def site(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE...", help="Files that `gravbench share` wrote, or folders of them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Write the site into this folder.")],
    all_kernels: Annotated[
        bool, typer.Option("--all-kernels", help="Compile all kernels of each bundle, not only 40 chosen at random.")
    ] = False,
) -> None:
    """Write a static site of shared runs: a page per card and variant, cards side by side, steps, crossover.

    Each bundle is checked first, as by `gravbench verify`. One that contradicts itself is listed with the reason, and
    none of its records is shown. The site needs no server and no network.
    """
    from gravbench.sharing.outcome import counted
    from gravbench.site import gathered, pages

    with working("checking bundles") as say:
        known = gathered.gather(gathered.files_of(bundles), all_kernels=all_kernels, say=say)
        say("writing pages")
        with writing(out):
            files = pages.write(known, known_variants(warn), out)
    terminal = console()
    for name, reasons in known.refused:
        tell(terminal, f"refused {name}: {reasons[0]}")
    found = f"{counted(len(known.bundles), 'bundle')}, {counted(len(files), 'page')}"
    terminal.print(found, markup=False, highlight=False)
    tell_written(terminal, files[0])
