"""Commands about searches, which need no GPU: replay."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.folders import known_variants
from gravbench.cli.options import READ, AsJson, RunsArgument, ThresholdOption, app, console, read_runs, warn, writing
from gravbench.config.search import STRATEGIES
from gravbench.errors import InputError

StrategyOption = StrEnum("StrategyOption", list(STRATEGIES))  # type: ignore[misc]
"""What ``--strategy`` takes."""


@app.command(rich_help_panel=READ)
def replay(
    run_names: RunsArgument,
    strategy: Annotated[
        list[StrategyOption] | None,
        typer.Option(help="Use only this strategy; repeat for more (default: all that are installed)."),
    ] = None,
    repeat: Annotated[
        int, typer.Option(help="Number of searches per strategy, each with its own seed.", min=1, max=10_000)
    ] = 100,
    within: Annotated[
        str, typer.Option(help="A case counts as found if it is at most this much slower than the fastest.")
    ] = "1%",
    threshold: ThresholdOption = "2%",
    kernel_tuner: Annotated[
        bool, typer.Option("--kernel-tuner", help="Also search with the strategies of Kernel Tuner.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a figure to this file: .svg or .html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay searches on the records of a full sweep: how many measurements each strategy would have needed."""
    import json

    from gravbench.search import figure as drawing
    from gravbench.search import kernel_tuner as tuner
    from gravbench.search.printed import render_searches
    from gravbench.search.recorded import recorded
    from gravbench.search.replay import replay as search_again
    from gravbench.search.sampled import missing
    from gravbench.search.strategies import of_names
    from gravbench.search.summary import Searched, searches_json
    from gravbench.verdicts import compare

    close = _part("--within", within)
    limit = compare.threshold(threshold)
    if figure:
        drawing.check(figure)
    variants = known_variants(warn)
    boards, left_out = recorded([record for one in read_runs(run_names) for record in one.records], variants)
    chosen = of_names([one.value for one in strategy or []], limit)
    if not strategy and (why := missing()):
        warn(why)
    if kernel_tuner and (why := tuner.missing()):
        warn(why)
    searched = []
    for board in boards:
        found = [search_again(board, search, variants, repeat=repeat, within=close) for search in chosen]
        if kernel_tuner and not tuner.missing():
            try:
                found += tuner.simulate(board, seed=1, repeat=repeat, within=close)
            except InputError as error:
                warn(str(error))
        searched.append(Searched(board, found))
    if as_json:
        typer.echo(json.dumps(searches_json(searched, left_out, repeat, close, limit), indent=2))
    else:
        render_searches(searched, console(), left_out, repeat, close, limit)
    if figure:
        with writing(figure):
            figure.parent.mkdir(parents=True, exist_ok=True)
            drawing.write(searched, figure, close)
        console(stderr=as_json).print(f"wrote {figure}", markup=False, soft_wrap=True)


def _part(option: str, text: str) -> float:
    """Read a part as ``--threshold`` is read.

    Raises:
        InputError: it is none.
    """
    from gravbench.verdicts import compare

    try:
        return compare.threshold(text)
    except InputError as error:
        raise InputError(str(error).replace("--threshold", option, 1)) from None
