"""A ledger as tables and sentences, which a terminal and a page show alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.explain.bars import Bar
from gravbench.explain.explained import Explained, Row
from gravbench.explain.ledger import Inner, Ledger, Line
from gravbench.explain.pipes import PIPES, WORK
from gravbench.explain.waterfall import Part
from gravbench.report.numbers import number
from gravbench.report.terminal.table import Column

SLOT = (
    "An issue slot is one instruction for one warp: a scheduler gives out at most one per clock, so the instructions "
    "of the inner loop are what each interaction costs at least, whatever the clock."
)
MOST_LINES = 8
"""Of the source, for each loop."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its title and how to read it."""

    title: str
    reading: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Any]


def sections(found: Explained) -> Iterator[Section]:
    """Make the tables."""
    named = _naming(found)
    yield Section(
        "Issue slots per interaction, by pipe",
        "slots: instructions of the loop over the interactions of a turn. XU: roots and conversions. Empty: none.",
        [*named, Column("slots", lambda row: _slots(row.inner.slots)), *map(_of_pipe, PIPES)],
        found.rows,
    )
    if len(found.main) > 1:
        yield _differences(found)
    yield Section(
        "What they are there for",
        "staging: what the loop around adds at most. It is per interaction where a tile has a fixed number of them, "
        "and in instructions per turn of that loop where it has not.",
        [
            *named,
            *(_of_work(work, rank) for work, rank in zip(WORK, (0, 1, 1), strict=True)),
            Column("staging", _staging),
            Column("a turn", lambda row: f"{row.inner.turn:,}", 3),
        ],
        found.rows,
    )
    yield Section(
        "What may delay them",
        "chain: the longest row of instructions in a turn that wait for one another. conflicts: instructions that read "
        "three registers of one bank. Registers of a thread, bytes of spills and of a block's shared memory; warps: "
        "those that a multiprocessor holds, by the limits of its architecture.",
        [
            *named,
            Column("chain", lambda row: f"{row.inner.chain:,}"),
            Column("conflicts", lambda row: f"{row.inner.conflicts:,}", 1),
            Column("registers", lambda row: f"{row.ledger.registers}"),
            Column("spilled", lambda row: f"{row.ledger.spilled:,}", 2),
            Column("shared", lambda row: f"{row.ledger.shared:,}", 4),
            Column("threads", lambda row: _known(row.ledger.threads), 5),
            Column("warps", lambda row: _warps(row.ledger)),
            Column("limited by", lambda row: _limiter(row.ledger), 3, text=True),
        ],
        found.rows,
    )
    first = found.main[0].ledger.architecture
    for row in found.main:
        if row.ledger.architecture == first:
            yield _lines(found, row)


def conclusion(found: Explained) -> tuple[str, list[str]]:
    """Say what bounds the loops: a sentence, and where there are several loops one of each to go with it."""
    begin = (
        f"At 4 instructions per clock and multiprocessor, {found.multiprocessors:,} multiprocessors and "
        f"{found.mhz:,.0f} MHz"
    )
    rows = found.rows
    if len(rows) == 1:
        return f"{begin}: {_bounded(found, rows[0])}.", []
    named = [f"{row.name} on {row.ledger.architecture}" if _several(found) else row.name for row in rows]
    said = [f"{name}: {_bounded(found, row)}" for name, row in zip(named, rows, strict=True)]
    return f"{begin}, of each loop alone:", said


def shares(bar: Bar) -> Section:
    """Make the table of the parts of a measured time."""
    begin = f"{bar.record.label}: {number(bar.picoseconds)} ps per interaction, of the whole device."
    columns: list[Column[tuple[str, Part, float]]] = [
        Column("", lambda one: one[0], text=True),
        Column("part", lambda one: one[1].name, text=True),
        Column("ps", lambda one: f"{one[1].picoseconds:.4f}"),
        Column("%", lambda one: f"{100 * one[2]:.1f}"),
        Column("how it is known", lambda one: one[1].reason, text=True, breaks=True),
    ]
    reading = f"{begin} No parts: {bar.why}." if bar.why else begin
    return Section(f"Where the time goes: {bar.title}", reading, columns, list(bar.slices))


def _bounded(found: Explained, row: Row) -> str:
    bound = found.bound(row)
    others = [f"{name} {100 * part:.0f} %" for name, part in bound.used.items() if name not in bound.by and part >= 0.1]
    busy = f" ({', '.join(others)})" if others else ""
    most = f"at most {bound.interactions_per_second / 1e9:,.0f}e9 interactions/s"
    return f"{most}; bound by: {' / '.join(bound.by)}{busy}"


def _differences(found: Explained) -> Section:
    """Set the main loops of all variants and architectures against the first one's."""
    base, *others = found.main

    def less(part: Callable[[Inner], float], header: str, rank: int = 0) -> Column[Row]:
        own = any(part(row.inner) for row in found.main)
        return Column(header, lambda row: _signed(part(row.inner) - part(base.inner)) if own else "", rank)

    def of_pipe(pipe: str) -> Column[Row]:
        return less(lambda inner: inner.pipes.get(pipe, 0.0), pipe, 1 + PIPES.index(pipe))

    return Section(
        f"Less {base.name} on {base.ledger.architecture}",
        "Slots per interaction of the loop with the most interactions in a turn, less those of the first such loop.",
        [*_naming(found), less(lambda inner: inner.slots, "slots"), *map(of_pipe, PIPES)],
        others,
    )


def _lines(found: Explained, row: Row) -> Section:
    inner = row.inner
    where = f" on {row.ledger.architecture}" if _several(found) else ""
    shown = inner.lines[:MOST_LINES]
    rest = inner.slots - sum(line.slots for line in shown)
    columns: list[Column[Line]] = [
        Column("slots", lambda line: _slots(line.slots)),
        Column("%", lambda line: f"{100 * line.slots / inner.slots:.0f}", 2),
        Column("line", lambda line: f"{line.file}:{line.number}", 1, text=True),
        Column("source", lambda line: line.text, text=True, breaks=True),
    ]
    left = f" The other {len(inner.lines) - len(shown)} lines: {_slots(rest)}." if len(inner.lines) > len(shown) else ""
    return Section(
        f"Most expensive lines of {row.name}{where}",
        f"Slots per interaction of the loop at {row.place}.{left}",
        columns,
        shown,
    )


def _several(found: Explained) -> bool:
    """Tell whether there are several architectures."""
    return len({ledger.architecture for ledger in found.ledgers}) > 1


def _naming(found: Explained) -> list[Column[Row]]:
    named: list[Column[Row]] = [Column("loop", lambda row: row.name, text=True, breaks=True)]
    if _several(found):
        named.append(Column("on", lambda row: row.ledger.architecture, text=True))
    else:
        named.append(Column("at", lambda row: row.place, 6, text=True))
    return named


def _of_pipe(pipe: str) -> Column[Row]:
    return Column(pipe, lambda row: _slots(row.inner.pipes.get(pipe, 0.0)), 1 + PIPES.index(pipe))


def _of_work(work: str, rank: int) -> Column[Row]:
    return Column(work.replace(" and ", "\nand "), lambda row: _slots(row.inner.work.get(work, 0.0)), rank)


def _staging(row: Row) -> str:
    inner = row.inner
    if inner.staging is None:
        return f"{inner.per_tile:,} a turn"
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
