"""What an evaluation consists of and what it computes: stages, interactions and errors of the variants that tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gravbench.model.record import Record
from gravbench.report.names import WORST_BUT_TENTH, seed_notes
from gravbench.report.numbers import milliseconds, relative_error
from gravbench.report.provenance import cut_short_notes, milliseconds_of
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import fastest_with_stages, over_theta

STAGES = (
    "Milliseconds of each stage of the fastest configuration at each n, with every stage waiting for the one before "
    "it. measured total: one evaluation as it was timed, its stages overlapping where possible. GB/s of transfers: "
    "from the bytes of the stage. longest: the longest stage; its share: of the sum."
)
ACCURACY = (
    "Errors of the accelerations, relative to float64 direct sums: the median over the bodies, {}the 99th percentile "
    "and the largest. bodies, cells: the interactions that the walk of one body computes with each. Each row is the "
    "fastest configuration with its theta."
)
COUNTERS = (
    "From a second pass under Nsight Compute; ms is the time of an evaluation without it. In %: achieved occupancy, "
    "issue slots used, and the use of the pipes for FMA, special functions (XU: square roots), loads and stores "
    "(LSU) and matrix products (MMA), relative to their peaks. threads: active threads per instruction, of 32. "
    "instr., FLOP: thread instructions and executed operations per interaction (an FMA counts as two). stalled by: "
    "the most frequent reason why a warp could not issue."
)
BAR = 12
"""Characters of the longest bar."""
SIZES_AT_ONCE = 6
"""Values of n of one table of stages: so many fit into 80 characters."""

StageRow = tuple[str, Sequence[str]]
"""The name of a row of a table of stages, and a cell for each n."""


def stages(content: Content) -> Section | None:
    """Show the stages over n of each variant that has them, in the fastest toolkit."""
    fastest = fastest_with_stages(content.competitors)
    parts: list[Part] = []
    notes: dict[str, None] = {}
    for (shared, name), chosen in fastest.items():
        title, on_drift = content.titled(chosen, shared, name)
        titles = iter([title])
        for first in range(0, len(chosen), SIZES_AT_ONCE):
            records = chosen[first : first + SIZES_AT_ONCE]
            used = [f"n = {record.n:,}: {record.toolkit}, {record.configuration}" for record in records]
            parts.append(Part(next(titles, ""), table=_stage_table(records), lines=used, style=lambda _: "dim"))
        notes |= dict.fromkeys([*cut_short_notes(chosen), *seed_notes(chosen), *on_drift])
    return Section("stages", "The stages", STAGES, parts, list(notes)) if fastest else None


def _stage_table(records: Sequence[Record]) -> Table[StageRow]:
    columns: list[Column[StageRow]] = [Column("stage, ms", lambda row: row[0], text=True)]
    columns += [
        Column(f"{record.n:,}", lambda row, place=place: row[1][place])  # type: ignore[misc]
        for place, record in enumerate(records)
    ]
    return Table(columns, list(_stage_rows(records)))


def _stage_rows(records: Sequence[Record]) -> Iterator[StageRow]:
    every = [record.stages_seconds for record in records]
    for name in dict.fromkeys(name for seconds in every for name in seconds):
        yield name, [milliseconds(seconds.get(name)) for seconds in every]
    yield "sum", [milliseconds(sum(seconds.values())) for seconds in every]
    yield "measured total", list(map(milliseconds_of, records))
    for name in dict.fromkeys(name for record in records for name in record.stages_bytes):
        yield f"{name}, GB/s", [_rate(record, name) for record in records]
    yield "longest", [max(seconds, key=seconds.__getitem__) for seconds in every]
    yield "its share", [f"{100 * max(seconds.values()) / (sum(seconds.values()) or 1):.0f} %" for seconds in every]


def _rate(record: Record, name: str) -> str:
    seconds = record.stages_seconds.get(name)
    return f"{record.stages_bytes[name] / seconds / 1e9:.3g}" if seconds and name in record.stages_bytes else ""


def accuracy(content: Content) -> Section | None:
    """Show errors, interactions and time over theta for each variant that has it."""
    groups = over_theta(content.competitors)
    has_p90 = any(record.error_p90 is not None for chosen in groups.values() for record in chosen)
    parts: list[Part] = []
    notes: dict[str, None] = {}
    for (shared, name, n), chosen in groups.items():
        title, on_drift = content.titled(chosen, shared, name, f"n = {n:,}")
        parts.append(Part(title, table=Table(_accuracy(max(map(ranking.seconds, chosen))), chosen)))
        notes |= dict.fromkeys([*cut_short_notes(chosen), *seed_notes(chosen), *on_drift])
    reading = ACCURACY.format(WORST_BUT_TENTH * has_p90)
    return Section("accuracy", "Speed and accuracy", reading, parts, list(notes)) if groups else None


def _accuracy(slowest: float) -> list[Column[Record]]:
    return [
        Column("theta", lambda record: str(record.axes["theta"])),
        Column("ms", milliseconds_of),
        Column("bodies", lambda record: f"{record.computed.get('body_body', 0):,.0f}"),
        Column("cells", lambda record: f"{_cells(record):,.0f}"),
        Column("median", lambda record: relative_error(record.error_median)),
        Column("90 %", lambda record: relative_error(record.error_p90), 1),
        Column("99 %", lambda record: relative_error(record.error_p99)),
        Column("max", lambda record: relative_error(record.error_max)),
        Column("rms", lambda record: relative_error(record.error_rms)),
        Column("time", lambda record: "=" * max(1, round(BAR * ranking.seconds(record) / slowest)), 2, text=True),
    ]


def _cells(record: Record) -> float:
    """Return the interactions per body in which a cell acts, on a body or on a cell."""
    return record.computed.get("body_cell", 0) + record.computed.get("cell_cell", 0)


def counters(content: Content) -> Section | None:
    """Show what Nsight Compute counted, by n and the fastest first, or why it did not."""
    counted = [record for record in content.competitors if ranking.is_ranked(record) and record.counters]
    reasons = sorted({record.counters_unavailable for record in content.cases if record.counters_unavailable})
    if not counted and not reasons:
        return None
    counted.sort(key=lambda record: (record.n, ranking.seconds(record)))
    parts: list[Part] = []
    notes = dict.fromkeys(f"unavailable: {reason}" for reason in reasons)
    for shared, alike in sorted(ranking.grouped(counted, ranking.conditions).items()):
        title, on_drift = content.titled(alike, shared)
        parts.append(Part(title, table=Table(_COUNTERS, alike)))
        notes |= dict.fromkeys([*cut_short_notes(alike), *seed_notes(alike), *on_drift])
    return Section("counters", "Counters", COUNTERS, parts, list(notes))


def _percent(name: str) -> Callable[[Record], str]:
    return lambda record: f"{100 * record.counters[name]:.0f}" if name in record.counters else ""


def _per_interaction(name: str, record: Record, threads: float) -> str:
    counted = name in record.counters and not record.uncounted
    return f"{record.counters[name] * threads / record.evaluated:.3g}" if counted else ""


def _threads(record: Record) -> str:
    return f"{record.counters['threads_an_instruction']:.1f}" if "threads_an_instruction" in record.counters else ""


def _instructions(record: Record) -> str:
    return _per_interaction("instructions", record, record.counters.get("threads_an_instruction", 32))


def _stall(record: Record) -> str:
    stalls = [name for name in record.counters if name.startswith("stalled_")]
    longest = max(stalls, key=record.counters.__getitem__, default="")
    return longest.removeprefix("stalled_").replace("_", " ")


_COUNTERS: list[Column[Record]] = [
    Column(
        "variant, toolkit, n",
        lambda record: f"{ranking.named(record)} {record.toolkit} {record.n:,}",
        text=True,
        breaks=True,
    ),
    Column("ms", milliseconds_of),
    Column("occu-\npancy", _percent("achieved_occupancy")),
    Column("thre-\nads", _threads),
    Column("instr.", _instructions),
    Column("FLOP", lambda record: _per_interaction("executed_flop", record, 1)),
    Column("is-\nsue", _percent("issue_slots")),
    Column("FMA", _percent("fma_pipe")),
    Column("XU", _percent("xu_pipe")),
    Column("LSU", _percent("lsu_pipe")),
    Column("MMA", _percent("tensor_pipe")),
    Column("stalled by", _stall, text=True),
]
