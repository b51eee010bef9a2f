"""One page of one or several runs: a single file that asks the network for nothing, whatever is in it.

Its markup is the template page.html beside this module. The style and the script, page.css and page.js, are written
into the page, as are Vega, which draws the figures, and the records, without their samples.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from gravbench.config.published import Source
from gravbench.model.bottlenecks import NONE as UNEXPLAINED
from gravbench.model.bottlenecks import Limits
from gravbench.model.case import CONDITIONS, stated
from gravbench.model.record import Record
from gravbench.model.runs import config_of, latest
from gravbench.model.variant import BUILT_IN, Variant, parents, summaries
from gravbench.report import arenas, device_spread, names, published, remarks, winning
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.report.names import count, joined
from gravbench.report.numbers import UNBOUNDED, number, percent, relative_error
from gravbench.report.page import charts, columns, figures, kinds, packed, sources
from gravbench.report.page.answer import answers
from gravbench.report.page.colours import Palette, coloured, palette
from gravbench.report.page.kinds import DriftsOf, Figure
from gravbench.report.page.packed import Texts
from gravbench.report.page.reproduce import CONFIG, command
from gravbench.report.provenance import NARROW, NOWHERE, Here, signs
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import card_of, differences, together
from gravbench.verdicts.question import USUAL, Question
from gravbench.verdicts.ranking import Drift
from gravbench.verdicts.uncertainty import Uncertainties
from gravbench.verdicts.winners import winners, with_wins

HERE = Path(__file__).parent
MOST_RECORDS = 10_000
"""Rows of the table of records; a browser would be slow with many more."""
MOST_ANSWERS = 3
"""Headlines of one device that the page begins with; the others of the device are below them, folded."""
# Nothing may be fetched, and only the scripts with these hashes run. Vega compiles the expressions of charts, in which
# there is no word from a record, hence eval.
POLICY = (
    "default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Run:
    """A run's name, its records, what was noted at its starts, and the source it is set beside, by its name.

    ``skipped`` has a sentence about the lines of its file that are no records, where there are any. ``others`` are the
    runs beside it that claims of the source name.
    """

    name: str
    records: list[Record]
    environment: list[dict[str, Any]]
    source_name: str = ""
    source: Source | None = None
    skipped: Sequence[str] = ()
    others: published.Others = field(default_factory=dict)

    @cached_property
    def cases(self) -> list[Record]:
        """One record per case."""
        return latest(self.records)

    @cached_property
    def drifts(self) -> list[Drift]:
        """Those of its anchors that are beyond the limit."""
        return ranking.drifted(self.records)

    @cached_property
    def decisions(self) -> list[published.Decision]:
        """What the records say of each claim of the source."""
        return published.decisions(self.source, self.records, self.others) if self.source else []

    def figures(self) -> list[Figure]:
        """Make the figures of the source beside the run."""
        return figures.of_source(self.source_name, self.source, self.cases, self.drifts) if self.source else []


def page(
    runs: Sequence[Run],
    variants: Mapping[str, Variant],
    limits: Limits = UNEXPLAINED,
    chosen: Chosen = EVERYTHING,
    question: Question = USUAL,
) -> str:
    """Return the whole page; ``variants`` are those there are here, whose sources it shows.

    ``limits`` say what most of the time of a record goes to. ``runs`` are whole, for what is printed after ±; what is
    ``chosen`` of them alone is shown. What is fastest answers the ``question``.
    """
    read, runs = runs, _together(runs)
    comparable = latest(chosen.comparable(record for run in runs for record in run.records))
    cases, rows = chosen.shown(comparable), chosen.shown(record for run in runs for record in run.records)
    records = len(rows)
    left_out = []
    if records > MOST_RECORDS:
        left_out.append(
            f"The table has the last {MOST_RECORDS:,} of {records:,} records; "
            "gravbench export RUN --to FILE.csv writes all of them."
        )
    tasks = len({ranking.conditions(record) for record in cases if ranking.is_ranked(record)})
    if tasks > figures.MOST_GROUPS:
        left_out.append(
            f"Of {tasks:,} sets of conditions, figures are drawn for the {figures.MOST_GROUPS} with the most "
            f"variants; of arenas, stages and errors for each θ, the first {figures.MOST_GROUPS} are drawn. A page "
            "with fewer runs shows the others."
        )
    here = Here(variants, rows)
    drifts, texts, ladder = _drifts(runs), Texts(), parents(variants)
    known = Uncertainties([run.records for run in runs])
    order = ranking.ladder_order({record.variant for record in cases}, ladder)
    fields = with_wins(winners([run.records for run in runs], ladder, question), chosen.has)
    colours = palette(fields, order, ladder)
    finish = _finish(cases, colours)
    groups = [
        replace(
            group,
            title=_plain(group.title, cases),
            ladder=finish(group.ladder) if group.ladder else None,
            figures=list(map(finish, group.figures)),
        )
        for group in figures.groups(comparable, ladder, summaries(variants), here, drifts, known, chosen)
    ]
    scripts = [_vega(), (HERE / "page.js").read_text("utf-8")]
    return _template().render(
        title=_title(runs, cases),
        policy=POLICY.format(hashes=" ".join(map(_hash, scripts))),
        style=(HERE / "page.css").read_text("utf-8"),
        scripts=scripts,
        summary=_summary(rows, cases, len(runs)),
        conditions=_conditions(cases),
        answers=ranking.grouped(answers(fields, colours, here, drifts), lambda answer: answer.device),
        most_answers=MOST_ANSWERS,
        first_label=partial(winning.first_label_of, parents=ladder),
        colours=colours,
        runs=runs,
        variants=variants,
        of_variant=ranking.grouped(cases, lambda record: record.variant),
        groups=groups,
        limits=limits,
        # Of the GPUs' conditions and of the CPUs', those with most variants.
        main=[next(alike) for _, alike in groupby(groups, lambda group: group.shared.cpu)],
        order=order,
        of_arenas=[(finish(figure), arena) for figure, arena in figures.of_arenas(cases, drifts, here, known)],
        of_stages=list(map(finish, figures.of_stages(cases, drifts, known))),
        half_width=partial(_half_width, known),
        specs={},
        texts=texts,
        config=charts.dressed({})["config"],
        here=here,
        table=_table(read, here, texts, chosen),
        left_out=left_out,
        notes=columns.notes(rows, here, known),
    )


def every_figure(runs: Sequence[Run], variants: Mapping[str, Variant], chosen: Chosen = EVERYTHING) -> list[Figure]:
    """Return the figures of the page of these runs, in its order."""
    runs = _together(runs)
    comparable = latest(chosen.comparable(record for run in runs for record in run.records))
    cases = chosen.shown(comparable)
    drifts, known = _drifts(runs), Uncertainties([run.records for run in runs])
    ladder = parents(variants)
    groups = figures.groups(comparable, ladder, summaries(variants), Here(variants, cases), drifts, known, chosen)
    order = ranking.ladder_order({record.variant for record in cases}, ladder)
    colours = palette(with_wins(winners([run.records for run in runs], ladder), chosen.has), order, ladder)
    found = [
        *(group.ladder for group in groups if group.ladder),
        *(figure for group in groups for figure in group.figures),
        *(figure for figure, _ in figures.of_arenas(cases, drifts, known=known)),
        *figures.of_stages(cases, drifts, known),
        *(figure for run in runs for figure in run.figures()),
    ]
    return [coloured(figure, colours) for figure in found]


def _title(runs: Sequence[Run], cases: Sequence[Record]) -> str:
    """Name the page by its run, or by the devices of several."""
    if len(runs) == 1:
        return f"gravbench: {runs[0].name}"
    devices = dict.fromkeys(card_of(case)[0] for case in cases if case.device and case.driver)
    return f"gravbench: {', '.join([*devices][:3] or ['CPU'])}"


def _finish(cases: Sequence[Record], colours: Palette) -> Callable[[Figure], Figure]:
    """Return a function that gives a figure its colours and a title without UUIDs."""

    def finish(figure: Figure) -> Figure:
        return replace(coloured(figure, colours), about=_plain(figure.about, cases))

    return finish


def _plain(text: str, cases: Sequence[Record]) -> str:
    """Number the cards of one name instead of telling them by their UUIDs, which stand at the end of the page."""
    for name, uuids in cards(cases).items():
        one = "|".join(map(re.escape, uuids))
        whole = rf"({re.escape(name)}) \(((?:{one})(?:, (?:{one}))*)\)"
        text = re.sub(whole, lambda found, known=uuids: _numbered(found[1], found[2].split(", "), known), text)  # type: ignore[misc]
    return text


def _numbered(name: str, uuids: Sequence[str], known: Sequence[str]) -> str:
    places = [str(known.index(uuid) + 1) for uuid in uuids]
    return f"{name}, card{'s' if len(places) > 1 else ''} {' and '.join(places)}"


def cards(cases: Sequence[Record]) -> dict[str, list[str]]:
    """Return the UUIDs of the cards of each name, those with most cases first."""
    found: dict[str, list[str]] = {}
    for (name, uuid), _ in Counter((case.device, case.device_uuid) for case in cases).most_common():
        if name and uuid:
            found.setdefault(name, []).extend(uuid.split(", "))  # of cards that share cases, all
    return found


def _together(runs: Sequence[Run]) -> list[Run]:
    """Let cards that share cases be one device."""
    both = zip(runs, together([run.records for run in runs]), strict=True)
    return [replace(run, records=records) for run, records in both]


def _drifts(runs: Sequence[Run]) -> DriftsOf:
    """Return a function that knows the runs by their records themselves: equal ones may stand in two."""
    place = {id(record): i for i, run in enumerate(runs) for record in run.records}

    def drifts(records: Sequence[Record]) -> list[Drift]:
        own = {place[id(record)] for record in records}
        return [drift for i, run in enumerate(runs) if i in own for drift in run.drifts]

    return drifts


def _summary(records: Sequence[Record], cases: Sequence[Record], runs: int) -> Iterator[tuple[str, str]]:
    found = Counter(case.status for case in cases)
    times = [record.started for record in records]
    days = [min(times)[:10], max(times)[:10]] if times else []
    yield "measured on", joined(" with driver ".join(filter(None, [case.device, case.driver])) for case in cases)
    yield "days", " to ".join(dict.fromkeys(days))
    statuses = ", ".join(f"{found[status]:,} {status}" for status in ("ok", "invalid", "skipped", "failed"))
    yield "cases", f"{count(len(cases), 'case')}: {statuses}; {len(times):,} records in {count(runs, 'run')}"


def _conditions(cases: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Say what the end of the page has: everything that only who measures again needs to know."""
    yield "gravbench", joined(case.harness_version for case in cases)
    yield "commits", joined(case.commit for case in cases)
    for name, uuids in cards(cases).items():
        yield name, ", ".join(f"card {place}: {uuid}" for place, uuid in enumerate(uuids, 1))
    yield "softening length", joined(f"{case.eps:g}" for case in cases)
    yield "seeds", joined(str(case.seed) for case in cases)


def _table(
    runs: Sequence[Run], here: Here = NOWHERE, texts: Texts | None = None, chosen: Chosen = EVERYTHING
) -> dict[str, Any]:
    known = Uncertainties([run.records for run in runs])
    built_in = {path.stem for path in BUILT_IN.rglob("*.py")}
    rows = [(run, record) for run in runs for record in chosen.shown(run.records)][-MOST_RECORDS:]
    commands = [command(record, CONFIG if record.variant in built_in else _config(run)) for run, record in rows]
    made = columns.columns([record for _, record in rows], [run.name for run, _ in rows], commands, here, texts, known)
    return {
        "count": len(rows),
        "shown": {name: heading for name, heading in columns.SHOWN.items() if name in made},
        "columns": made,
        # What pointing at the row of a record shows: its whole configuration.
        "hints": ["configuration", *(name for name in stated() if name in CONDITIONS), "device"],
    }


def _config(run: Run) -> str:
    """Name the configuration that the run was started with: it has the variants of one's own."""
    entry = run.environment[-1] if run.environment else {}
    return str(entry.get("config") or config_of(str(entry.get("command", ""))) or CONFIG)


# What the template calls


@cache
def _template() -> Template:
    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(number=number, error=relative_error, json=_json, flat=_flat)
    made.globals.update(charts=charts, names=names, published=published, ranking=ranking, remarks=remarks)
    made.globals.update(rate=kinds.rate, winning=winning)
    made.globals.update(
        arenas=arenas, sources=sources, place=_place, signs=signs, differences=differences, device_spread=device_spread
    )
    return made.get_template("page.html")


def _place(figure: Figure, specs: dict[str, charts.Spec], texts: Texts) -> str:
    """Add the chart of a figure to ``specs``, which the script draws; returns its name there."""
    name = figure.name
    while name in specs:
        name += "-"
    spec = charts.dressed(figure.spec) | {"description": f"{figure.whole_title}. {figure.caption}"}
    del spec["config"]  # once for all
    specs[name] = spec | {"datasets": packed.rows(spec["datasets"][charts.ROWS], texts)}
    return name


def _half_width(known: Uncertainties, record: Record) -> str:
    half = known.half_width(record)
    return UNBOUNDED if half is None else percent(half) + NARROW * known.may_be_narrow(record)


def _vega() -> str:
    import vl_convert

    made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # A script ends at the first thing that looks like its end, and a browser reads all ends of lines as one.
    return made.replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def _hash(script: str) -> str:
    """Name a script in the policy by what it says, to the last character between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(content: Any) -> str:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return "" if value is None else str(value)
