"""Records as tables in a terminal, and the ladder as a Markdown table.

Reads records alone: needs no GPU and no toolkit. Every sign used stands in Latin-1 beside ASCII, and nothing is
said by colour only, so that a pipe or an old terminal loses nothing.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.interaction import GRAVITY
from harness.record import Record, Status, latest
from harness.report import ranking
from harness.report.ranking import Conditions, Drift, Ladders, Parents, Rung
from harness.report.table import GAP, LAST_WANTED
from harness.report.table import Column as _Column
from harness.report.table import number as _number
from harness.report.table import table as _table
from harness.report.words import compact as _compact
from harness.report.words import count as _count
from harness.report.words import escaped as _escaped
from harness.report.words import joined as _joined

THROTTLED, UNSETTLED = "!", "~"
INTERVAL = "interval"
"""The stop reason of a measurement whose confidence interval became as narrow as was asked."""

NOTHING = "No records: a run writes them."
READING = (
    "Each row is a variant's fastest configuration in a toolkit. An interaction is one of the n * n directed pairs. "
    "± is half the 95 % confidence interval of the median. × parent and × root are speed-ups over the fastest "
    "configuration, in the same toolkit, of the variant it is derived from and of the first of its ladder. Errors are "
    "relative, of the accelerations against float64 direct sums."
)
COMPARING = (
    "compared: configurations that are ok, the fastest included. as fast: how many of the others cannot be told from "
    "it, because the confidence intervals overlap."
)


def render(records: list[Record], console: Console, parents: Parents) -> None:
    """Print the report of ``records``: what was run, the ladders, best configurations, drift, what is not ok.

    ``parents`` maps each known variant to its parent; variants it does not name are shown without one.
    """
    if not records:
        _print(console, NOTHING)
        return
    cases = latest(records)
    ladders = ranking.ladders(cases, parents)
    names = Names(cases)
    _heading(console, records, cases)
    _ladder_section(console, ladders, names, parents)
    _configuration_section(console, ladders, names, parents)
    _anchor_section(console, ranking.drifts(records))
    _not_ok_section(console, cases)


def ladder_markdown(records: list[Record], parents: Parents, summaries: Mapping[str, str]) -> str:
    """Return the ladder as Markdown, one table a device, kind of bodies and precision.

    Each is at the n where the most variants and toolkits are ok, and at the largest of these. ``summaries``
    says what each variant changes.
    """
    cases = latest(records)
    ladders = ranking.ladders(cases, parents)
    if not ladders:
        return "No record is ok: there is no ladder to show.\n"
    names = Names(cases)
    return "\n".join(_markdown_table(shared, ladders[shared], names, summaries) for shared in ladders)


# Numbers as text


def _speed(record: Record) -> str:
    return _number(ranking.speed(record) / 1e9)


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.2f}"


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.1e}"


# Printing


def _print(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    # Text, not str: a bracket in a reason is no markup.
    line = Text(text, style=style)
    console.print(Padding(line, (0, 0, 0, indent), expand=False) if indent else line)


def _section(console: Console, title: str) -> None:
    console.print()
    console.rule(Text(title, style="bold"), align="left", style="dim")


# Sections


class Names:
    """Writes conditions as a title: what every record shares is left out, what would be ambiguous is not."""

    def __init__(self, cases: Sequence[Record]) -> None:
        self._several = {
            field: len({getattr(case, field) for case in cases if ranking.is_ranked(case)}) > 1
            for field in ("subset", "seed", "eps")
        }
        by_name: dict[str | None, set[str | None]] = defaultdict(set)
        for case in cases:
            by_name[case.device].add(case.device_uuid)
        self._namesakes = {name for name, uuids in by_name.items() if len(uuids) > 1}

    def device(self, shared: Conditions) -> str:
        """Name the device, with its UUID where another has the same name."""
        name = shared.device or ("CPU" if shared.cpu else "unknown device")
        if shared.device_uuid and shared.device in self._namesakes:
            return f"{name} ({shared.device_uuid})"
        return name

    def title(self, shared: Conditions) -> str:
        """Name everything that sets these conditions apart from others in the report."""
        return f"{self.device(shared)}, {self.task(shared)}"

    def task(self, shared: Conditions) -> str:
        """Name what was computed, without the device."""
        told_apart = [f"{field} {getattr(shared, field)}" for field, several in self._several.items() if several]
        step = [f"{shared.integrator} dt = {shared.dt:g}"] if shared.integrator else []
        computed = [shared.interaction] if shared.interaction != GRAVITY else []
        return ", ".join([shared.bodies, shared.dtype, *computed, f"timed: {shared.timed}", *step, *told_apart])


def _heading(console: Console, records: list[Record], cases: list[Record]) -> None:
    found = Counter(case.status for case in cases)
    order: tuple[Status, ...] = ("ok", "invalid", "skipped", "failed")
    times = [record.started for record in records]
    facts = {
        "devices": _joined(_device_and_driver(case) for case in cases) or "none recorded",
        "measured": " to ".join(dict.fromkeys([min(times), max(times)])),
        "bodies": _joined(f"{Path(case.bodies).name} {case.subset}".strip() for case in cases),
        "precision": _joined(case.dtype for case in cases),
        "eps": _joined(f"{case.eps:g}" for case in cases),
        "cases": ", ".join(f"{found[status]:,} {status}" for status in order),
        "commit": _joined(case.commit or "not recorded" for case in cases),
        "harness": _joined(case.harness_version for case in cases),
    }
    console.rule(Text("gravbench", style="bold"), align="left", style="dim")
    grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for name, fact in facts.items():
        grid.add_row(Text(name, style="dim"), Text(fact))
    console.print(grid)


def _device_and_driver(case: Record) -> str:
    return " with driver ".join(filter(None, [case.device, case.driver]))


def _ladder_section(console: Console, ladders: Ladders, names: Names, parents: Parents) -> None:
    _section(console, "The ladder")
    if not ladders:
        _print(console, "No case is ok, so there is nothing to rank.")
        return
    _print(console, READING)
    for shared, by_n in ladders.items():
        for n, rungs in by_n.items():
            console.print()
            _print(console, f"n = {n:,}, {names.title(shared)}", "bold")
            console.print(_table(console, _ladder_columns(rungs), rungs))
            for footnote in _footnotes(rungs):
                _print(console, footnote, "yellow")
    used = {rung.best.variant for by_n in ladders.values() for rungs in by_n.values() for rung in rungs}
    if unknown := sorted(used - parents.keys()):
        console.print()
        _print(console, f"Shown without a parent, because no file declares them here: {', '.join(unknown)}.")


def _ladder_columns(rungs: list[Rung]) -> list[_Column[Rung]]:
    # A sign never gives way; without any, its column is empty and left out.
    flagged = any(_signs(rung.best) for rung in rungs)
    conventions = _joined(f"{rung.best.flops_per_interaction:g}" for rung in rungs)
    return [
        _Column("variant", lambda rung: rung.best.variant, 0, text=True),
        _Column("toolkit", lambda rung: rung.best.toolkit, 0, text=True),
        _Column("configuration", lambda rung: rung.best.configuration, 9, text=True),
        _Column("1e9 inter-\nactions/s", lambda rung: _speed(rung.best), 0),
        _Column("± %", lambda rung: _percent(ranking.half_width(rung.best)), 1),
        _Column("", lambda rung: _signs(rung.best), 0 if flagged else 1, text=True),
        _Column(f"GFLOP/s\nat {conventions}", lambda rung: _number(rung.best.gflops), 7),
        _Column("steps/s", lambda rung: _number(rung.best.steps_per_second), 2),
        _Column("energy\ndrift", lambda rung: _error(rung.best.energy_drift), LAST_WANTED),
        _Column("×\nparent", lambda rung: _number(rung.over_parent, 3), 3),
        _Column("×\nroot", lambda rung: _number(rung.over_root, 3), 4),
        _Column("occup-\nancy %", lambda rung: _number(_scaled(rung.best.occupancy, 100), 3), 6),
        _Column("limited\nby", lambda rung: rung.best.occupancy_limiter or "", LAST_WANTED, text=True, breaks=True),
        _Column("max\nerror", lambda rung: _error(rung.best.error_max), 5),
        _Column("error of\na cycle", lambda rung: _error(rung.best.error_cycle_max), 7),
        _Column("rms\nerror", lambda rung: _error(rung.best.error_rms), 10),
        _Column("registers\na thread", lambda rung: _number(rung.best.registers, 1), 11),
        _Column("pJ/inter-\naction", lambda rung: _number(_scaled(rung.best.joules_per_interaction, 1e12), 3), 9),
        _Column("SM clock\nMHz", lambda rung: _number(_median(rung.best.sm_clock_mhz), 1), 12),
        _Column("compile\ns", lambda rung: _number(rung.best.compile_seconds, 3), 13),
    ]


def _scaled(number: float | None, factor: float) -> float | None:
    return None if number is None else factor * number


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _signs(record: Record) -> str:
    return THROTTLED * bool(record.throttled) + UNSETTLED * (record.stop_reason != INTERVAL)


def _footnotes(rungs: list[Rung]) -> list[str]:
    notes = []
    throttled = [rung.best for rung in rungs if rung.best.throttled]
    if throttled:
        reasons = _joined(reason for record in throttled for reason in record.throttle_reasons)
        why = f" ({reasons})" if reasons else ""
        notes.append(f"{THROTTLED} throttled: the device slowed its clock down while this was measured{why}")
    unsettled = [rung.best for rung in rungs if rung.best.stop_reason != INTERVAL]
    if unsettled:
        reasons = _joined(record.stop_reason or "not recorded" for record in unsettled)
        notes.append(f"{UNSETTLED} sampling ended before the interval was as narrow as asked: {reasons}")
    return notes


def _configuration_section(console: Console, ladders: Ladders, names: Names, parents: Parents) -> None:
    columns: list[_Column[Rung]] = [
        _Column("variant", lambda rung: rung.best.variant, 0, text=True),
        _Column("toolkit", lambda rung: rung.best.toolkit, 0, text=True),
        _Column("n", lambda rung: f"{rung.best.n:,}", 0),
        _Column("fastest\nconfiguration", lambda rung: rung.best.configuration, 0, text=True, breaks=True),
        _Column("1e9 inter-\nactions/s", lambda rung: _speed(rung.best), 0),
        _Column("compared", lambda rung: f"{rung.compared:,}", 1),
        _Column("as\nfast", lambda rung: f"{rung.indistinct:,}", 2),
        _Column("×\nslowest", lambda rung: _number(rung.over_slowest, 3), 3),
    ]
    tables = {shared: _tuned(by_n, parents) for shared, by_n in ladders.items()}
    if not any(tables.values()):
        return
    _section(console, "The fastest configurations")
    _print(console, COMPARING)
    for shared, rows in tables.items():
        if rows:
            console.print()
            _print(console, names.title(shared), "bold")
            console.print(_table(console, columns, rows))


def _tuned(by_n: Mapping[int, list[Rung]], parents: Parents) -> list[Rung]:
    """Sort the rungs that had a choice so that all n of one stand together: a change of configuration shows."""
    rungs = [rung for same_n in by_n.values() for rung in same_n if rung.compared > 1]
    place = {name: i for i, name in enumerate(ranking.ladder_order({rung.best.variant for rung in rungs}, parents))}
    return sorted(
        rungs, key=lambda rung: (place[rung.best.variant], ranking.toolkit_order(rung.best.toolkit), rung.best.n)
    )


def _anchor_section(console: Console, drifts: list[Drift]) -> None:
    if not drifts:
        return
    _section(console, "The anchor")
    for drift in drifts:
        bad = drift.spread is not None and drift.spread > ranking.DRIFT_LIMIT
        _print(console, drift_sentence(drift), "bold yellow" if bad else "")


def drift_sentence(drift: Drift) -> str:
    """Say how far the repetitions of an anchor lie apart, and whether that is drift."""
    where = f" on {drift.anchor.device}" if drift.anchor.device else ""
    times = "once" if drift.repetitions == 1 else f"{drift.repetitions:,} times"
    lost = f" ({_count(drift.not_ok, 'repetition')} more not ok)" if drift.not_ok else ""
    sentence = f"{drift.anchor.label}{where}, measured {times}{lost}:"
    if drift.spread is None:
        return f"{sentence} drift cannot be seen."
    limit = f"{100 * ranking.DRIFT_LIMIT:g} %"
    spread = f"the medians spread over {_percent(drift.spread)} % ((largest - smallest) / median)"
    if drift.spread > ranking.DRIFT_LIMIT:
        return f"{sentence} {spread}. DRIFT above {limit}: a smaller difference between cases may be drift alone."
    return f"{sentence} {spread}, no drift above {limit}."


def _not_ok_section(console: Console, cases: list[Record]) -> None:
    by_status: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        if not ranking.is_ranked(case):
            reason = "no median was recorded" if case.status == "ok" else case.reason
            by_status[case.status][reason or "no reason was recorded"].append(case)
    if not by_status:
        return
    _section(console, "Not ranked")
    for status in ("failed", "invalid", "skipped", "ok"):
        for reason, alike in sorted(by_status[status].items(), key=lambda item: -len(item[1])):
            _print(console, f"{status}, {_count(len(alike), 'case')}: {reason}", "bold")
            for line in _compact(alike):
                _print(console, line, indent=GAP)


# Markdown


def _markdown_table(shared: Conditions, by_n: dict[int, list[Rung]], names: Names, summaries: Mapping[str, str]) -> str:
    n = max(by_n, key=lambda n: (len(by_n[n]), n))
    rungs = by_n[n]
    lines = [
        f"**{_escaped(names.device(shared))}**: n = {n:,}, {_escaped(names.task(shared))}",
        "",
        "| variant | toolkit | what changed | 1e9 interactions/s | × parent | × root | max error |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
        *(_markdown_row(rung, summaries) for rung in rungs),
        "",
    ]
    for footnote in _footnotes(rungs):
        # The sign as code: a tilde may begin strikethrough.
        lines += [f"`{footnote[0]}` {_escaped(footnote[1:])}", ""]
    return "\n".join(lines)


def _markdown_row(rung: Rung, summaries: Mapping[str, str]) -> str:
    record = rung.best
    width = _percent(ranking.half_width(record))
    signs = _signs(record)
    cells = [
        _escaped(record.variant),
        _escaped(record.toolkit),
        _escaped(summaries.get(record.variant, "")),
        _speed(record) + (f" ± {width} %" if width else "") + (f" `{signs}`" if signs else ""),
        _number(rung.over_parent, 3),
        _number(rung.over_root, 3),
        _error(record.error_max),
    ]
    return f"| {' | '.join(cells)} |"
