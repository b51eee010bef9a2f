"""One page of one or several runs: a single file that asks the network for nothing, whatever is in it.

Its markup is the template page.html beside this module. The style and the script, page.css and page.js, are written
into the page, as are, compressed, Vega, which draws the figures, the figures, and the records without their samples.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from gravbench.model.runs import config_of
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.variant import Variant, parents, summaries
from gravbench.report import names, published, remarks, winning
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.report.names import count, joined
from gravbench.report.numbers import number, relative_error
from gravbench.report.page import charts, columns, figures, kinds, sources
from gravbench.report.page.answer import answers
from gravbench.report.page.colours import Palette, coloured, palette
from gravbench.report.page.figures import Group
from gravbench.report.page.kinds import Figure
from gravbench.report.page.reproduce import CONFIG, command
from gravbench.report.provenance import Here, signs
from gravbench.report.section import Part
from gravbench.report.sections import ladder
from gravbench.report.sections import run as run_of
from gravbench.report.sections.arena import arena
from gravbench.report.sections.content import Content
from gravbench.report.sections.every import SECTIONS
from gravbench.report.sections.fastest import fastest, nothing
from gravbench.report.sections.published import values_and_claims
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import card_of, together
from gravbench.verdicts.question import USUAL, Question
from gravbench.verdicts.uncertainty import Uncertainties

HERE = Path(__file__).parent
MOST_RECORDS = 10_000
"""Rows of the table of records; a browser would be slow with many more."""
ELSEWHERE = (run_of.conditions, fastest, ladder.ladder, run_of.anchors, run_of.cards, arena, values_and_claims)
"""Sections of which the page shows all in a place of their own; it has the others folded."""
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
    def content(self) -> Content:
        """What is said of this run alone, beside its source."""
        return Content([self.records], {}, source=self.source, others=self.others)

    @cached_property
    def decisions(self) -> list[published.Decision]:
        """What the records say of each claim of the source."""
        return published.decisions(self.source, self.records, self.others) if self.source else []

    def figures(self) -> list[Figure]:
        """Make the figures of the source beside the run."""
        return figures.of_source(self.source_name, self.content) if self.source else []


@dataclass(frozen=True)
class Drawn:
    """The figures of a page: of each set of conditions, of arenas with their tables, of stages, and of sources."""

    content: Content
    colours: Palette
    groups: list[Group]
    arenas: list[tuple[Figure, Part]]
    stages: list[Figure]
    sources: list[list[Figure]]

    @classmethod
    def of(cls, content: Content, runs: Sequence[Run]) -> Drawn:
        """Draw them, one colour for each variant."""
        order = ranking.ladder_order({record.variant for record in content.cases}, content.parents)
        colours = palette(content.fields, order, content.parents)
        groups = [
            replace(
                group,
                ladder=group.ladder and coloured(group.ladder, colours),
                figures=[coloured(figure, colours) for figure in group.figures],
            )
            for group in figures.groups(content)
        ]
        return cls(
            content,
            colours,
            groups,
            [(coloured(figure, colours), part) for figure, part in figures.of_arenas(content)],
            [coloured(figure, colours) for figure in figures.of_stages(content)],
            [run.figures() for run in runs],
        )

    @property
    def figures(self) -> list[Figure]:
        """All of them, in the order of the page."""
        return [
            *(group.ladder for group in self.groups if group.ladder),
            *(figure for group in self.groups for figure in group.figures),
            *(figure for figure, _ in self.arenas),
            *self.stages,
            *(figure for drawn in self.sources for figure in drawn),
        ]


@dataclass(frozen=True)
class Page:
    """The page of ``runs``; ``variants`` are those there are here, whose sources it shows.

    ``limits`` say what most of the time of a record goes to. The runs are whole, for what is printed after ±; what is
    ``chosen`` of them alone is shown. What is fastest answers the ``question``.
    """

    runs: Sequence[Run]
    variants: Mapping[str, Variant]
    limits: Limits = UNEXPLAINED
    chosen: Chosen = EVERYTHING
    question: Question = USUAL

    @cached_property
    def _together(self) -> list[Run]:
        """The runs, in which cards that share cases are one device."""
        both = zip(self.runs, together([run.records for run in self.runs]), strict=True)
        return [replace(run, records=records) for run, records in both]

    @cached_property
    def _content(self) -> Content:
        records = [run.records for run in self._together]
        variants, chosen = self.variants, self.chosen
        here = Here(variants, chosen.shown(record for run in records for record in run))
        known = parents(variants), here, chosen, self.limits, summaries(variants)
        return Content(records, *known, question=self.question)

    @cached_property
    def _drawn(self) -> Drawn:
        return Drawn.of(self._content, self._together)

    def figures(self) -> list[Figure]:
        """Return its figures, in its order."""
        return self._drawn.figures

    def text(self) -> str:
        """Return the whole page."""
        runs, content = self._together, self._content
        cases, rows, here = content.cases, self.chosen.shown(content.records), content.here
        drawn = self._drawn
        vega, script = _vega(), (HERE / "page.js").read_text("utf-8")
        return _template().render(
            title=_title(runs, cases),
            policy=POLICY.format(hashes=" ".join(map(_hash, (script, vega)))),
            style=(HERE / "page.css").read_text("utf-8"),
            vega=vega,
            script=script,
            summary=_summary(rows, cases, len(runs)),
            conditions=_conditions(cases),
            answers=ranking.grouped(answers(content, drawn.colours), lambda answer: answer.device),
            most_answers=MOST_ANSWERS,
            nothing=nothing(content),
            content=content,
            drawn=drawn,
            first_label=partial(winning.first_label_of, parents=content.parents),
            runs=runs,
            variants=self.variants,
            of_variant=ranking.grouped(cases, lambda record: record.variant),
            # Of the GPUs' conditions and of the CPUs', those with most variants.
            main=[next(alike) for _, alike in groupby(drawn.groups, lambda group: group.shared.cpu)],
            order=ranking.ladder_order({record.variant for record in cases}, content.parents),
            tables=[section for build in SECTIONS if build not in ELSEWHERE and (section := build(content))],
            specs={},
            config=charts.dressed({})["config"],
            here=here,
            records=_table(self.runs, content, self.variants),
            left_out=list(_left_out(content, len(rows))),
            notes=columns.notes(rows, here, content.known),
        )


def _left_out(content: Content, records: int) -> Iterator[str]:
    """Say what the page has no room for."""
    if records > MOST_RECORDS:
        yield (
            f"The table has the last {MOST_RECORDS:,} of {records:,} records; "
            "gravbench export RUN --to FILE.csv writes all of them."
        )
    tasks = len({ranking.conditions(record) for record in content.competitors if ranking.is_ranked(record)})
    if tasks > figures.MOST_GROUPS:
        yield (
            f"Of {tasks:,} sets of conditions, figures are drawn for the {figures.MOST_GROUPS} with the most "
            f"variants; of arenas, stages and errors for each θ, the first {figures.MOST_GROUPS} are drawn. A page "
            "with fewer runs shows the others."
        )


def _title(runs: Sequence[Run], cases: Sequence[Record]) -> str:
    """Name the page by its run, or by the devices of several."""
    if len(runs) == 1:
        return f"gravbench: {runs[0].name}"
    devices = dict.fromkeys(card_of(case)[0] for case in cases if case.device and case.driver)
    return f"gravbench: {', '.join([*devices][:3] or ['CPU'])}"


def _summary(records: Sequence[Record], cases: Sequence[Record], runs: int) -> Iterator[tuple[str, str]]:
    counts = Counter(case.status for case in cases)
    times = [record.started for record in records]
    days = [min(times)[:10], max(times)[:10]] if times else []
    yield "measured on", joined(" with driver ".join(filter(None, [case.device, case.driver])) for case in cases)
    yield "days", " to ".join(dict.fromkeys(days))
    statuses = ", ".join(f"{counts[status]:,} {status}" for status in ("ok", "invalid", "skipped", "failed"))
    yield "cases", f"{count(len(cases), 'case')}: {statuses}; {len(times):,} records in {count(runs, 'run')}"


def _conditions(cases: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Say what the end of the page has: everything that only who measures again needs to know."""
    yield "gravbench", joined(case.harness_version for case in cases)
    yield "commits", joined(case.commit for case in cases)
    by_name = ranking.grouped(names.numbered_cards(cases).items(), lambda card: card[0][0])
    for name, numbered in by_name.items():
        yield name, ", ".join(f"card {place}: {uuid}" for (_, uuid), place in numbered)
    yield "softening length", joined(f"{case.eps:g}" for case in cases)
    yield "seeds", joined(str(case.seed) for case in cases)


def _table(runs: Sequence[Run], content: Content, variants: Mapping[str, Variant]) -> dict[str, Any]:
    """Return the columns of all records of the ``runs`` as they were read, cards that share cases one by one."""
    known = Uncertainties([run.records for run in runs])
    built_in = {path.stem for path in BUILT_IN.rglob("*.py")}
    rows = [(run, record) for run in runs for record in content.chosen.shown(run.records)][-MOST_RECORDS:]
    commands = [
        command(record, CONFIG if record.variant in built_in else _config(run), variants.get(record.variant))
        for run, record in rows
    ]
    made = columns.columns([record for _, record in rows], [run.name for run, _ in rows], commands, content.here, known)
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


def templates(folder: Path) -> Environment:
    """Return what reads the templates of a folder: words are escaped, and one that lacks a value is a mistake."""
    loader = FileSystemLoader(folder)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _template() -> Template:
    made = templates(HERE)
    made.filters.update(number=number, error=relative_error, json=_json, compressed=_compressed, flat=_flat)
    made.globals.update(charts=charts, names=names, published=published, ranking=ranking, remarks=remarks)
    made.globals.update(rate=kinds.rate, winning=winning, sources=sources, place=_place, signs=signs)
    made.globals.update(cards=run_of.cards, ladder_part=ladder.ladder_part, source_section=values_and_claims)
    return made.get_template("page.html")


def _place(figure: Figure, specs: dict[str, charts.Spec]) -> str:
    """Add the chart of a figure to ``specs``, which the script draws; returns its name there."""
    name = figure.name
    while name in specs:
        name += "-"
    spec = charts.dressed(figure.spec) | {"description": f"{figure.whole_title}. {figure.caption}"}
    del spec["config"]  # once for all
    specs[name] = spec
    return name


def _vega() -> str:
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _hash(script: str) -> str:
    """Name a script in the policy by what it says, to the last character between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _compressed(text: str) -> str:
    """Write a text as page.js reads it: compressed by zlib, in base 64."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return "" if value is None else str(value)
