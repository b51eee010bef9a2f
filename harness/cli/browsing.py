"""The command that writes a page which measures in a browser: live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.options import MEASURE, app, console, tell, tell_written, writing


@app.command(rich_help_panel=MEASURE)
def live(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Write this HTML file.")] = Path("ladder.html"),
) -> None:
    """Write a page that runs the ladder in a browser, on any GPU with WebGPU: one file that works offline.

    Its kernels can be edited there and run again, and are judged by the same rules. It has a button that downloads the
    records.
    """
    from gravbench.live.page import page

    text = page()
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, "utf-8")
    terminal = console()
    tell_written(terminal, out, size=True)
    tell(terminal, f"Open it in a browser: {out.resolve().as_uri()}")
