"""Commands about searches, which need no GPU: replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravbench.cli.folders import known_variants
from gravbench.cli.options import READ, AsJson, RunsArgument, ThresholdOption, app, console, read_runs, warn, writing
from gravbench.config.search import STRATEGIES
from gravbench.errors import InputError

if TYPE_CHECKING:
    from gravbench.config.search import Search
    from gravbench.model.variant import Variant
    from gravbench.search.recorded import Recorded
    from gravbench.search.replay import Effort

StrategyOption = StrEnum("StrategyOption", list(STRATEGIES))  # type: ignore[misc]
"""What ``--strategy`` takes."""


Strategies = Annotated[
    list[StrategyOption] | None,
    typer.Option("--strategy", help="Use only this strategy; repeat for more (default: all that are installed)."),
]
Repetitions = Annotated[
    int,
    typer.Option("--repeat", help="Number of searches per strategy, each with its own seed.", min=1, max=10_000),
]
Within = Annotated[
    str,
    typer.Option("--within", help="A case counts as found if it is at most this much slower than the fastest."),
]
WithKernelTuner = Annotated[
    bool, typer.Option("--kernel-tuner", help="Also search with the strategies of Kernel Tuner.")
]
FigureFile = Annotated[
    Path | None,
    typer.Option("--figure", metavar="FILE", help="Also draw a figure to this file: .svg or .html."),
]


@app.command(rich_help_panel=READ)
def replay(
    run_names: RunsArgument,
    strategy: Strategies = None,
    repeat: Repetitions = 100,
    within: Within = "1%",
    threshold: ThresholdOption = "2%",
    kernel_tuner: WithKernelTuner = False,
    figure: FigureFile = None,
    as_json: AsJson = False,
) -> None:
    """Replay searches on the records of a full sweep: how many measurements each strategy would have needed."""
    import json

    from gravbench.search import figure as drawing
    from gravbench.search import kernel_tuner as tuner
    from gravbench.search.printed import render_searches
    from gravbench.search.recorded import recorded
    from gravbench.search.sampled import missing
    from gravbench.search.strategies import of_names
    from gravbench.search.summary import Searched, searches_json
    from gravbench.verdicts import compare

    close = compare.threshold(within, "--within")
    limit = compare.threshold(threshold)
    if figure:
        drawing.check(figure)
    variants = known_variants(warn)
    contests, left_out = recorded([record for run in read_runs(run_names) for record in run.records], variants)
    searches = of_names([name.value for name in strategy or []], limit)
    if not strategy and (why := missing()):
        warn(why)
    if kernel_tuner and (why := tuner.missing()):
        warn(why)
        kernel_tuner = False
    searched = [
        Searched(contest, _efforts(contest, searches, variants, repeat, close, kernel_tuner=kernel_tuner))
        for contest in contests
    ]
    if as_json:
        typer.echo(json.dumps(searches_json(searched, left_out, repeat, close, limit), indent=2))
    else:
        render_searches(searched, console(), left_out, repeat, close, limit)
    if figure:
        with writing(figure):
            figure.parent.mkdir(parents=True, exist_ok=True)
            drawing.write(searched, figure, close)
        console(stderr=as_json).print(f"wrote {figure}", markup=False, soft_wrap=True)


def _efforts(
    contest: Recorded,
    searches: Sequence[Search],
    variants: Mapping[str, Variant],
    repeat: int,
    close: float,
    *,
    kernel_tuner: bool,
) -> list[Effort]:
    """Search a contest by each strategy, and by those of Kernel Tuner, which not every contest suits."""
    from gravbench.search import kernel_tuner as tuner
    from gravbench.search.replay import replay as search_again

    efforts = [search_again(contest, search, variants, repeat=repeat, within=close) for search in searches]
    if kernel_tuner:
        try:
            efforts += tuner.simulate(contest, seed=1, repeat=repeat, within=close)
        except InputError as error:
            warn(str(error))
    return efforts
