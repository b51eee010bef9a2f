"""The command that begins a variant of one's own: new."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli import completion, templates
from gravbench.cli.folders import remember
from gravbench.cli.options import OWN, app, console, tell, tell_written, writing
from gravbench.errors import LISTING, InputError, nearest

NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


@app.command(rich_help_panel=OWN)
def new(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Name of the variant and its kernel: lower-case letters, digits and _."),
    ],
    folder: Annotated[Path | None, typer.Option(help="Write to this folder (default: NAME).")] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            help="The variant to compare it with (default: float4, or numba_direct with --cpu).",
            autocompletion=completion.variants,
        ),
    ] = None,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="Write a CPU variant: one Python file, compiled by Numba.")
    ] = False,
) -> None:
    """Start a variant of your own: a working kernel, its axes, and a sweep that measures it.

    Writes NAME.cu (CUDA C for CuPy and PyCUDA), NAME.py (axes, launch code, the same kernel for Numba) and NAME.yaml.
    """
    from gravbench.model.interaction_files import RESERVED
    from gravbench.model.neighbours import PACKAGE
    from gravbench.model.variant import discover

    if not NAME.fullmatch(name) or keyword.iskeyword(name) or name in (*RESERVED, PACKAGE):
        raise InputError(
            f"{name}: not a valid name; accepted: up to 60 lower-case letters, digits and _, "
            "no keyword of Python or C++"
        )
    known = discover()
    if name in known:
        raise InputError(f"{name}: this variant exists already, in {known[name].path}; accepted: another name")
    above = parent or ("numba_direct" if cpu else "float4")
    if above not in known:
        raise InputError(f"--parent {above}: no such variant; {nearest(above, list(known), LISTING)}")
    place = folder or Path(name)
    made = {
        f"{name}.py": templates.CPU_PYTHON if cpu else templates.PYTHON,
        **({} if cpu else {f"{name}.cu": templates.CUDA}),
        f"{name}.yaml": templates.SWEEP,
    }
    for file in made:
        if (place / file).exists():
            raise InputError(f"{place / file}: exists already; accepted: another name, or another --folder")
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        for file, text in made.items():
            (place / file).write_text(text.replace("NAME", name).replace("PARENT", above), "utf-8")
    remember([place])
    terminal = console()
    for file in made:
        tell_written(terminal, place / file)
    tell(terminal, f"Verify it: gravbench check {place / f'{name}.yaml'}")
    tell(terminal, f"Measure it: gravbench run {place / f'{name}.yaml'}")
