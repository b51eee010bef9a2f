"""One page of one or several runs: a single file that asks the network for nothing, whatever is in it.

The style and the script lie beside this module (page.css, page.js) and are written into the page, as are Vega, which
draws the figures, and the records, without their samples.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from gravbench.config.published import Source
from gravbench.model.case import CONDITIONS, stated
from gravbench.model.record import Record
from gravbench.model.runs import config_of, latest
from gravbench.model.variant import BUILT_IN, Variant, parents, summaries
from gravbench.report import published
from gravbench.report.names import count, drift_sentence, joined
from gravbench.report.numbers import number
from gravbench.report.page import charts, columns, figures, sources
from gravbench.report.page.figures import Group
from gravbench.report.page.kinds import Figure
from gravbench.report.page.reproduce import CONFIG, command
from gravbench.report.remarks import every_step, evidence, fact_words, remarks, step_names
from gravbench.verdicts import ranking
from gravbench.verdicts.ranking import Rung

HERE = Path(__file__).parent
# Nothing may be fetched: Vega compiles its expressions, hence eval.
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Run:
    """A run's name, its records, what was noted at its starts, and the source it is set beside, by its name."""

    name: str
    records: list[Record]
    environment: list[dict[str, Any]]
    source_name: str = ""
    source: Source | None = None


@dataclass(slots=True)
class _Specs:
    """The charts of a page by their name, gathered while their places are written."""

    found: dict[str, Any] = field(default_factory=dict)

    def place(self, figure: Figure, *, about: bool = True) -> str:
        """Write the place of a figure, which the script fills; without ``about`` where a heading above says it."""
        name = figure.name
        while name in self.found:
            name += "-"
        spec = charts.dressed(figure.spec)
        self.found[name] = {**spec, "description": f"{figure.whole_title}. {figure.caption}"}
        height = spec.get("height", 200) + 110
        said = f'<p class="soft">{escape(figure.about)}</p>' if about and figure.about else ""
        return (
            f'<figure id="{name}"><p class="name">{escape(figure.title)}</p>{said}'
            f'<div class="chart" data-figure="{name}" style="min-height:{height}px"></div>'
            f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        )


def page(runs: Sequence[Run], variants: Mapping[str, Variant]) -> str:
    """Return the whole page; ``variants`` are those there are here, whose sources it shows."""
    records = [record for run in runs for record in run.records]
    cases = latest(records)
    groups = figures.groups(cases, parents(variants), summaries(variants))
    specs = _Specs()
    sections = {
        "ladder": ("The ladder", _ladder(groups, cases, variants, specs)),
        "speed": ("Speed, error and tuning", _speed(groups, specs)),
        "stages": ("Stages, and speed against accuracy", _figures(figures.of_stages(cases), specs)),
        "published": ("Published and measured", _published(runs, specs)),
        "records": ("All records", _records()),
        "environment": ("How it was measured", _environment(runs)),
    }
    there = {name: section for name, section in sections.items() if section[1]}
    title = f"gravbench: {', '.join(run.name for run in runs)}"
    links = "".join(f'<li><a href="#{name}">{escape(heading)}</a></li>' for name, (heading, _) in there.items())
    body = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(heading)}</h2>{content}</section>'
        for name, (heading, content) in there.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{_beside('page.css')}</style></head>\n<body>"
        '<a class="skip" href="#ladder">Skip to the ladder</a>'
        f"<header><h1>{escape(title)}</h1>{_facts(_summary(runs, cases))}</header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>{body}</main>\n'
        '<div id="configuration" role="tooltip" hidden></div>\n'
        f"{_data('specs', specs.found)}\n{_data('records-data', _table(runs))}\n"
        f"<script>\n{_vega()}\n</script>\n<script>\n{_beside('page.js')}</script>\n</body></html>\n"
    )


def every_figure(runs: Sequence[Run], variants: Mapping[str, Variant]) -> list[Figure]:
    """Return the figures of the page of these runs, in its order."""
    cases = latest(record for run in runs for record in run.records)
    groups = figures.groups(cases, parents(variants), summaries(variants))
    return [
        *(group.ladder for group in groups if group.ladder),
        *(figure for group in groups for figure in group.figures),
        *figures.of_stages(cases),
        *(
            figure
            for run in runs
            if run.source
            for figure in figures.of_source(run.source_name, run.source, latest(run.records))
        ),
    ]


def _beside(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _vega() -> str:
    import vl_convert

    # A script ends at the first thing that looks like its end.
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")


def _data(name: str, content: Any) -> str:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in facts if fact)
    return f'<dl class="facts">{rows}</dl>'


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _summary(runs: Sequence[Run], cases: Sequence[Record]) -> Iterator[tuple[str, str]]:
    found = Counter(case.status for case in cases)
    times = [record.started for run in runs for record in run.records]
    yield "devices", joined(case.device for case in cases)
    yield "drivers", joined(case.driver for case in cases)
    yield "measured", " to ".join(dict.fromkeys([min(times), max(times)])) if times else ""
    yield "cases", ", ".join(f"{found[status]:,} {status}" for status in ("ok", "invalid", "skipped", "failed"))
    yield "records", f"{len(times):,} in {count(len(runs), 'run')}, repetitions included"
    yield "gravbench", joined(case.harness_version for case in cases)
    yield "commit", joined(case.commit for case in cases)


# The ladder


def _ladder(groups: Sequence[Group], cases: Sequence[Record], variants: Mapping[str, Variant], specs: _Specs) -> str:
    if not groups:
        return "<p>No case is ok, so there is nothing to rank.</p>"
    main = _main(groups)
    drawn = "".join(specs.place(group.ladder) for group in main if group.ladder)
    present = {record.variant for record in cases}
    order = ranking.ladder_order(present, parents(variants))
    steps = "".join(_step(name, main, cases, variants) for name in order)
    unknown = [name for name in order if name not in variants]
    note = f"<p>No file declares them here: {escape(', '.join(unknown))}.</p>" if unknown else ""
    reading = (
        "Each variant changes one thing against its parent, the variant that it is derived from. × parent and × root "
        "compare the time of one evaluation with that of the fastest configuration, in the same toolkit, of the parent "
        "and of the ladder's first variant."
    )
    return (
        f'<div class="figures">{drawn}</div><h3>What each step changes</h3><p>{reading}</p>'
        f'<ol class="steps">{steps}</ol>{note}'
    )


def _main(groups: Sequence[Group]) -> list[Group]:
    """Choose, of the GPUs' conditions and of the CPUs', those with most variants."""
    return [next(group for group in groups if group.shared.cpu == cpu) for cpu in _kinds(groups)]


def _kinds(groups: Sequence[Group]) -> list[bool]:
    return sorted({group.shared.cpu for group in groups})


def _step(name: str, main: Sequence[Group], cases: Sequence[Record], variants: Mapping[str, Variant]) -> str:
    measured = "".join(_measured(group, own) for group in main if (own := _rungs(group, name)))
    variant = variants.get(name)
    if variant is None:
        return f"<li><h4>{escape(name)}</h4>{measured}</li>"
    parent = f" Parent: {escape(variant.parent)}." if variant.parent else ""
    approximates = f"<p>Approximates: {escape(variant.approximates)}</p>" if variant.approximates else ""
    changed = sources.changed_since(variant, cases)
    were = "1 case was" if changed == 1 else f"{changed:,} cases were"
    note = f"<p>{were} measured with another source than the one shown here.</p>" if changed else ""
    return (
        f"<li><h4>{escape(name)}</h4><p>{escape(variant.summary)}</p>{approximates}{measured}"
        f'<p class="soft">From: {escape(variant.source)}.{parent}</p>{note}'
        f'<div class="sources">{_sources(variant, variants)}</div></li>'
    )


def _rungs(group: Group, name: str) -> list[Rung]:
    return [rung for rung in group.rungs if rung.best.variant == name]


def _measured(group: Group, rungs: Sequence[Rung]) -> str:
    told = "; ".join(
        f"{rung.best.toolkit} {number(ranking.speed(rung.best) / 1e9)}"
        + (f", × parent {number(rung.over_parent, 3)}" if rung.over_parent is not None else "")
        + (f", × root {number(rung.over_root, 3)}" if rung.over_root is not None else "")
        for rung in rungs
    )
    return f'<p class="soft">{escape(group.title)}, n = {group.n:,}, {charts.SPEED}: {escape(told)}</p>'


def _sources(variant: Variant, variants: Mapping[str, Variant]) -> str:
    written = []
    for listing in sources.listings(variant, variants):
        written.append(_details(f"{listing.name}: {listing.title}", _code(listing.text)))
        if listing.diff:
            written.append(_details(f"{listing.name}: what differs from {variant.parent}'s", _diff(listing.diff)))
    return "".join(written)


def _code(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def _diff(lines: Iterable[str]) -> str:
    """Mark lines as added or removed by element and sign; the colour only repeats it."""
    marked = []
    for line in lines:
        sign = "" if line.startswith(("+++", "---")) else line[:1]
        tag = {"+": "ins", "-": "del"}.get(sign, "span")
        place = ' class="place"' if line.startswith(("@@", "+++", "---")) else ""
        marked.append(f"<{tag}{place}>{escape(line) or ' '}</{tag}>")
    return f'<pre class="diff" tabindex="0"><code>{"".join(marked)}</code></pre>'


# Figures


def _figures(drawn: Iterable[Figure], specs: _Specs, *, about: bool = True) -> str:
    placed = "".join(specs.place(figure, about=about) for figure in drawn)
    return f'<div class="figures">{placed}</div>' if placed else ""


def _speed(groups: Sequence[Group], specs: _Specs) -> str:
    main = _main(groups) if groups else []
    written = []
    for group in groups:
        # The ladders of the main conditions stand above.
        own = [group.ladder] if group.ladder and group not in main else []
        drawn = _figures([*own, *group.figures], specs, about=False)
        if drawn:
            is_open = " open" if group is groups[0] else ""
            summary = f"<summary>{escape(group.title)}</summary>"
            written.append(f'<details class="conditions"{is_open}>{summary}{drawn}</details>')
    return "<p>Each block has what may be compared: one device, one task.</p>" + "".join(written) if written else ""


# A source beside what was measured


def _published(runs: Sequence[Run], specs: _Specs) -> str:
    return "".join(_beside_source(run, run.source, specs) for run in runs if run.source)


def _beside_source(run: Run, source: Source, specs: _Specs) -> str:
    cases = latest(run.records)
    decisions = [published.decide(source, claim, run.records) for claim in source.claims]
    claims = "".join(
        f'<li><span class="verdict">{one.verdict}</span>{escape(one.claim.text)}.'
        f'<br><span class="soft">{escape(evidence(one).strip())}</span></li>'
        for one in decisions
    )
    facts = "".join(f"<li>{escape(fact_words(fact))}</li>" for fact in source.facts)
    notes = "".join(f"<li>{escape(note)}</li>" for note in source.notes)
    lists = {
        "Claims": (claims, "claims"),
        "Published, and answered by no record here": (facts, ""),
        "Notes": (notes, ""),
    }
    drawn = _figures(figures.of_source(run.source_name, source, cases), specs)
    return (
        f"<h3>{escape(run.name)}: {escape(source.source)}</h3>"
        f"<p>Device of the source: {escape(source.device)}. Beside it the run {escape(run.name)}. Relative is a value "
        f"over that of the path's own first step.</p>{drawn}"
        + "".join(_compared(source, figure, cases) for figure in source.figures)
        + "".join(
            f'<h4>{title}</h4><ul class="{style}">{items}</ul>' for title, (items, style) in lists.items() if items
        )
    )


def _compared(source: Source, figure: Any, cases: Sequence[Record]) -> str:
    found = published.compare(source, figure, cases)
    headers = ("step", "published", "measured", "published, relative", "measured, relative", "measured case")
    head = "".join(
        f'<th scope="col"{_number_class(0 < place < 5)}>{header}</th>' for place, header in enumerate(headers)
    )
    rows = []
    for step, name in zip(found.steps, step_names(found), strict=True):
        numbers = (step.cell.published, step.answer.value, step.published_relative, step.measured_relative)
        cells = "".join(f'<td class="number">{escape(number(one, zeros=False))}</td>' for one in numbers)
        case = step.answer.record.label if step.answer.record else step.answer.why
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}<td>{escape(case)}</td></tr>')
    said = "".join(f'<p class="soft">{escape(remark)}</p>' for remark in remarks(found))
    label = ", ".join(filter(None, [figure.title, figure.unit, every_step(found)]))
    content = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>{said}"
    )
    return _details(f"The numbers of: {label}", content)


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


# Records and environment


def _records() -> str:
    return (
        "<p>Every record, repetitions of the anchor included. A header sorts. Pointing at a row or reaching its button "
        "shows the whole configuration; the button opens everything recorded but the samples, and the command that "
        "measures the case again.</p>"
        '<div class="tools"><label>Filter <input id="filter" type="search" autocomplete="off" '
        'placeholder="tiled cupy p=256 n=65536"></label><span id="found" role="status"></span>'
        '<span><button id="back" type="button">Earlier</button> <button id="on" type="button">Later</button></span>'
        "</div>"
        '<div class="scroll" tabindex="0" role="region" aria-label="All records"><table id="table"><thead><tr></tr>'
        "</thead><tbody></tbody></table></div>"
    )


def _table(runs: Sequence[Run]) -> dict[str, Any]:
    records = [record for run in runs for record in run.records]
    names = [run.name for run in runs for _ in run.records]
    built_in = {path.stem for path in BUILT_IN.rglob("*.py")}
    commands = [
        command(record, CONFIG if record.variant in built_in else _config(run))
        for run in runs
        for record in run.records
    ]
    return {
        "count": len(records),
        "shown": columns.SHOWN,
        "columns": columns.columns(records, names, commands),
        # What pointing at the row of a record shows: its whole configuration.
        "hints": [
            "configuration",
            *(name for name in stated() if name in CONDITIONS),
            "device",
        ],
    }


def _config(run: Run) -> str:
    """Name the configuration that the run was started with: it has the variants of one's own."""
    entry = run.environment[-1] if run.environment else {}
    return str(entry.get("config") or config_of(str(entry.get("command", ""))) or CONFIG)


def _environment(runs: Sequence[Run]) -> str:
    said = (
        "<p>Every case was verified against float64 direct sums before it was timed. The command of one number stands "
        "with its record in the table above; it runs on the devices of whoever calls it. A whole run is repeated by "
        "the command of its start:</p>"
    )
    return said + "".join(map(_environment_of, runs))


def _environment_of(run: Run) -> str:
    drifts = "".join(f"<p>Anchor: {escape(drift_sentence(drift))}</p>" for drift in ranking.drifts(run.records))
    starts = []
    for entry in run.environment:
        facts = _facts((name.replace("_", " "), _flat(value)) for name, value in entry.items() if name != "command")
        again = f"<p><code>{escape(str(entry.get('command', '')))}</code></p>"
        starts.append(again + _details("devices, packages, compilers", facts))
    noted = "".join(starts) or "<p>Nothing was noted at its start.</p>"
    return f"<h3>{escape(run.name)}</h3>{noted}{drifts}"


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return "" if value is None else str(value)
