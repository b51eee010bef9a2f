"""A ledger as tables and sentences, which a terminal and a page show alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.explain.bars import Bar
from gravbench.explain.explained import Explained, Row
from gravbench.explain.ledger import Inner, Ledger, Line
from gravbench.explain.pipes import ISSUE, PIPES, WORK
from gravbench.explain.waterfall import Part
from gravbench.report.numbers import number
from gravbench.report.section import Column

SLOT = (
    "Each scheduler issues at most one instruction per clock, for one warp, and each instruction takes one issue slot. "
    "The instructions of the inner loop are therefore the least that an interaction can cost, whatever the clock."
)
MOST_LINES = 8
"""Source lines shown for each loop."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its title and how to read it."""

    title: str
    reading: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Any]


def sections(explained: Explained) -> Iterator[Section]:
    """Make the tables."""
    named = _naming(explained)
    yield Section(
        "Issue slots per interaction, by pipe",
        "slots: instructions per loop iteration, divided by the interactions per iteration. XU: reciprocal square "
        "roots and conversions. A blank cell means none.",
        [*named, Column("slots", lambda row: _slots(row.inner.slots)), *map(_of_pipe, PIPES)],
        explained.rows,
    )
    if len(explained.main) > 1:
        yield _differences(explained)
    yield Section(
        "What the instructions do",
        "tile-loop overhead: the most that the enclosing loop adds, per interaction if the tile size is fixed, "
        "otherwise in instructions per pass of that loop. per iteration: interactions per iteration of the inner loop.",
        [
            *named,
            *(_of_work(work, rank) for work, rank in zip(WORK, (0, 1, 1), strict=True)),
            Column("tile-loop\noverhead", _overhead),
            Column("per\niteration", lambda row: f"{row.inner.turn:,}", 3),
        ],
        explained.rows,
    )
    yield Section(
        "What can stall them",
        "critical path: the longest chain of dependent instructions in one iteration. conflicts: instructions that "
        "read three registers of the same bank. registers: per thread. spilled: bytes per thread. shared: bytes of "
        "shared memory per block. warps: resident warps per multiprocessor, by the limits of its architecture.",
        [
            *named,
            Column("critical\npath", lambda row: f"{row.inner.chain:,}"),
            Column("conflicts", lambda row: f"{row.inner.conflicts:,}", 1),
            Column("registers", lambda row: f"{row.ledger.registers}"),
            Column("spilled", lambda row: f"{row.ledger.spilled:,}", 2),
            Column("shared", lambda row: f"{row.ledger.shared:,}", 4),
            Column("threads", lambda row: _known(row.ledger.threads), 5),
            Column("warps", lambda row: _warps(row.ledger)),
            Column("limited by", lambda row: _limiter(row.ledger), 3, text=True),
        ],
        explained.rows,
    )
    first = explained.main[0].ledger.architecture
    for row in explained.main:
        if row.ledger.architecture == first:
            yield _lines(explained, row)


def conclusion(explained: Explained) -> tuple[str, list[str]]:
    """Say what limits the loops: a sentence, and with several loops one more sentence for each."""
    begin = (
        f"With {explained.multiprocessors:,} multiprocessors at {explained.mhz:,.0f} MHz, each issuing up to 4 "
        "instructions per clock"
    )
    rows = explained.rows
    if len(rows) == 1:
        return f"{begin}: {_bounded(explained, rows[0])}.", []
    named = [f"{row.name} on {row.ledger.architecture}" if _several(explained) else row.name for row in rows]
    sentences = [f"{name}: {_bounded(explained, row)}" for name, row in zip(named, rows, strict=True)]
    return f"{begin}, for each loop by itself:", sentences


def shares(bar: Bar) -> Section:
    """Make the table of the parts of a measured time."""
    begin = f"{bar.record.label}: {number(bar.picoseconds)} ps per interaction, for the whole device."
    columns: list[Column[tuple[str, Part, float]]] = [
        Column("", lambda entry: entry[0], text=True),
        Column("part", lambda entry: entry[1].name, text=True),
        Column("ps", lambda entry: f"{entry[1].picoseconds:.4f}"),
        Column("%", lambda entry: f"{100 * entry[2]:.1f}"),
        Column("explanation", lambda entry: entry[1].reason, text=True, breaks=True),
    ]
    reading = f"{begin} The time cannot be divided: {bar.why}." if bar.why else begin
    return Section(f"Where the time goes: {bar.title}", reading, columns, list(bar.slices))


def _bounded(explained: Explained, row: Row) -> str:
    bound = explained.bound(row)
    others = [
        f"{'issue slots' if name == ISSUE else name} {100 * part:.0f} %"
        for name, part in bound.used.items()
        if name not in bound.by and part >= 0.1
    ]
    busy = f" (in use: {', '.join(others)})" if others else ""
    most = f"at most {bound.interactions_per_second / 1e9:,.0f}e9 interactions/s"
    limits = " and ".join("issue slots" if name == ISSUE else f"the {name} pipe" for name in bound.by)
    return f"{most}, limited by {limits}{busy}"


def _differences(explained: Explained) -> Section:
    """Set the main loops of all variants and architectures against the first one's."""
    base, *others = explained.main

    def less(part: Callable[[Inner], float], header: str, rank: int = 0) -> Column[Row]:
        used = any(part(row.inner) for row in explained.main)
        return Column(header, lambda row: _signed(part(row.inner) - part(base.inner)) if used else "", rank)

    def of_pipe(pipe: str) -> Column[Row]:
        return less(lambda inner: inner.pipes.get(pipe, 0.0), pipe, 1 + PIPES.index(pipe))

    return Section(
        f"Difference from {base.name} on {base.ledger.architecture}",
        "Slots per interaction of the main loop (the one with the most interactions per iteration), minus those of the "
        "first main loop.",
        [*_naming(explained), less(lambda inner: inner.slots, "slots"), *map(of_pipe, PIPES)],
        others,
    )


def _lines(explained: Explained, row: Row) -> Section:
    inner = row.inner
    where = f" on {row.ledger.architecture}" if _several(explained) else ""
    shown = inner.lines[:MOST_LINES]
    rest = inner.slots - sum(line.slots for line in shown)
    columns: list[Column[Line]] = [
        Column("slots", lambda line: _slots(line.slots)),
        Column("%", lambda line: f"{100 * line.slots / inner.slots:.0f}", 2),
        Column("line", lambda line: f"{line.file}:{line.number}", 1, text=True),
        Column("source", lambda line: line.text, text=True, breaks=True),
    ]
    left = (
        f" Remaining lines ({len(inner.lines) - len(shown)}): {_slots(rest)}." if len(inner.lines) > len(shown) else ""
    )
    return Section(
        f"Most expensive lines of {row.name}{where}",
        f"Slots per interaction in the loop at {row.place}.{left}",
        columns,
        shown,
    )


def _several(explained: Explained) -> bool:
    """Tell whether there are several architectures."""
    return len({ledger.architecture for ledger in explained.ledgers}) > 1


def _naming(explained: Explained) -> list[Column[Row]]:
    named: list[Column[Row]] = [Column("loop", lambda row: row.name, text=True, breaks=True)]
    if _several(explained):
        named.append(Column("on", lambda row: row.ledger.architecture, text=True))
    else:
        named.append(Column("at", lambda row: row.place, 6, text=True))
    return named


def _of_pipe(pipe: str) -> Column[Row]:
    return Column(pipe, lambda row: _slots(row.inner.pipes.get(pipe, 0.0)), 1 + PIPES.index(pipe))


def _of_work(work: str, rank: int) -> Column[Row]:
    return Column(work.replace(" and ", "\nand "), lambda row: _slots(row.inner.work.get(work, 0.0)), rank)


def _overhead(row: Row) -> str:
    inner = row.inner
    if inner.staging is None:
        return f"{inner.per_tile:,} per pass"
    return _slots(inner.staging) if inner.staging else "none"


def _slots(value: float) -> str:
    return f"{value:,.2f}" if value else ""


def _signed(value: float) -> str:
    return f"{value:+,.2f}" if abs(value) >= 0.005 else "0"


def _known(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _warps(ledger: Ledger) -> str:
    held = ledger.occupancy
    return "" if held is None else f"{held.warps} of {held.most_warps}"


def _limiter(ledger: Ledger) -> str:
    held = ledger.occupancy
    return "" if held is None else held.limiter
