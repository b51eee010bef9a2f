"""A judgement with what its entry costs, as sections that a terminal and a page show, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gravbench.errors import printable
from gravbench.judging import speed
from gravbench.judging.cost import ARCHITECTURE, Cost, NoCostError, RefusedError, cost_of
from gravbench.judging.entry import Entry, entry_of
from gravbench.judging.export import NoEntryError, exported
from gravbench.judging.judgement import LAUNCHES, Judgement, Sized
from gravbench.judging.standing import Standing
from gravbench.judging.timing import Timed
from gravbench.model.variant import Variant
from gravbench.report.numbers import number, relative_error
from gravbench.report.page import html
from gravbench.report.section import Column, Part, Section, Table

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class Costed:
    """The name of an entry or of its rung, and what an interaction of it costs, or why that is not known.

    What is ``refused`` makes no machine code.
    """

    name: str
    cost: Cost | None
    why_none: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Judged:
    """A judgement, by what the entry was run, and the costs of the entry and of the rung, if there is one."""

    judgement: Judgement
    run_by: str
    costs: tuple[Costed, ...]
    timings: tuple[Timed, ...] = ()
    standings: Mapping[int, Standing] = field(default_factory=dict)
    ladder: str = ""
    """What the ladder was measured on, by the name of its run; empty where there is none of this device."""

    @property
    def right(self) -> bool:
        """Whether what it computes is right, also while it was timed, and it compiles for a GPU as far as is known."""
        wrong_while_timed = any(timed.wrong for timed in self.timings)
        return self.judgement.right and not wrong_while_timed and not self.costs[0].refused

    @property
    def verdict(self) -> str:
        """Either ``right`` or ``wrong``."""
        return "right" if self.right else "wrong"


def costed(name: str, entry: Entry) -> Costed:
    """Count what an entry costs, or say why that is not known."""
    try:
        return Costed(name, cost_of(entry))
    except NoCostError as error:
        return Costed(name, None, str(error), isinstance(error, RefusedError))


def costed_rung(variant: Variant) -> Costed:
    """Count what a variant costs as ``exported`` writes it, or say why that is not known."""
    try:
        return costed(variant.name, entry_of(Path(f"{variant.name}.cu"), exported(variant)))
    except NoEntryError as error:
        return Costed(variant.name, None, str(error))


def sections(judged: Judged) -> Iterator[Section]:
    """Make what is shown of a judgement."""
    judgement = judged.judgement
    entry = judgement.entry
    yield Section(
        "verdict",
        f"{printable(entry.path.name)}: {judged.verdict}",
        f"{judged.run_by}, in {entry.head.precision}: {LAUNCHES} launches for each n, each with its own bodies and "
        f"softening, of seed {judgement.seed}. Errors are relative to the sum of the magnitudes of the contributions. "
        f"Accepted are those of {judgement.accepted}.",
        [Part(table=Table(_SIZES, judgement.sizes))],
    )
    lines = _reasons(judgement)
    lines += [f"it does not compile for a GPU: {costed.why_none}" for costed in judged.costs[:1] if costed.refused]
    if lines:
        yield Section("reasons", "What is wrong, and why that is likely", "", [Part(lines=lines)])
    if judged.timings:
        yield speed.section(judged.timings, judged.standings, judged.ladder)
    known = [costed for costed in judged.costs if costed.cost]
    unknown = [f"{costed.name}: {costed.why_none}" for costed in judged.costs if not (costed.cost or costed.refused)]
    reading = (
        "Per interaction, in the inner loop: issue slots, and instructions that load from global and from shared "
        "memory. spilled: bytes per thread. warps: resident on a multiprocessor."
    )
    parts = [Part(table=Table(_COSTS, known))] if known else []
    if judgement.entry.head.mutual and known:
        unknown.append(
            f"{entry.path.name} declares that it computes each pair once: a pair counts as two interactions."
        )
    if known or unknown:
        yield Section("cost", f"What an interaction costs on {ARCHITECTURE}", reading, parts, unknown)


def _reasons(judgement: Judgement) -> list[str]:
    """Say why sizes are wrong: a line for each cause, with what is wrong at the largest n that has it."""
    by_cause: dict[str, list[Sized]] = {}
    for size in judgement.sizes:
        if not size.right:
            by_cause.setdefault(printable(size.fault.sentence) if size.fault else size.cause, []).append(size)
    lines = []
    for cause, sizes in by_cause.items():
        last = sizes[-1]
        wrong = f". At n = {last.n:,}: {last.wrong}" if last.wrong else ""
        lines.append(f"n = {', '.join(f'{size.n:,}' for size in sizes)}: {cause}{wrong}")
    return lines


def _of_errors(size: Sized, name: str) -> str:
    return "" if size.errors is None else relative_error(getattr(size.errors, name))


def _verdict(size: Sized) -> str:
    return "right" if size.right else size.fault.kind if size.fault else "wrong"


_SIZES: Sequence[Column[Sized]] = (
    Column("n", lambda size: f"{size.n:,}"),
    Column("verdict", _verdict, text=True, style=lambda cell: "green" if cell == "right" else "red"),
    Column("largest\nerror", lambda size: _of_errors(size, "error_magnitude_max")),
    Column("accepted", lambda size: relative_error(size.limits.max if size.limits else None)),
    Column("rms\nerror", lambda size: _of_errors(size, "error_magnitude_rms"), 1),
    Column("accepted", lambda size: relative_error(size.limits.rms if size.limits else None), 1),
    Column("wrong rows", lambda size: size.bodies, 1, text=True, breaks=True),
)


def _cost(column: str, written: Any, rank: int = 0, **options: Any) -> Column[Costed]:
    return Column(column, lambda costed: "" if costed.cost is None else written(costed.cost), rank, **options)


_COSTS: Sequence[Column[Costed]] = (
    Column("kernel", lambda costed: costed.name, text=True),
    _cost("issue\nslots", lambda cost: number(cost.slots)),
    _cost("global\nloads", lambda cost: number(cost.global_loads, 3, zeros=False)),
    _cost("shared\nloads", lambda cost: number(cost.shared_loads, 3, zeros=False)),
    _cost("registers", lambda cost: str(cost.registers), 1),
    _cost("spilled", lambda cost: f"{cost.spilled:,}", 1),
    _cost("warps", lambda cost: f"{cost.occupancy.warps} of {cost.occupancy.most_warps}"),
    _cost("limited by", lambda cost: cost.occupancy.limiter, 2, text=True, breaks=True),
)


def as_json(judged: Judged) -> dict[str, Any]:
    """Return all that is known, for programs."""
    judgement = judged.judgement
    return {
        "entry": str(judgement.entry.path),
        "verdict": judged.verdict,
        "run_by": judged.run_by,
        "accepted": judgement.accepted,
        "precision": judgement.entry.head.precision,
        "seed": judgement.seed,
        "sizes": [_size_json(size) for size in judgement.sizes],
        "timings": [speed.as_json(timed, judged.standings.get(timed.n)) for timed in judged.timings],
        "ladder": judged.ladder or None,
        "costs": [
            {"kernel": costed.name, "cost": asdict(costed.cost) if costed.cost else None, "why_none": costed.why_none}
            for costed in judged.costs
        ],
    }


def _size_json(size: Sized) -> dict[str, Any]:
    return {
        "n": size.n,
        "right": size.right,
        "error_max": size.errors.error_magnitude_max if size.errors else None,
        "error_rms": size.errors.error_magnitude_rms if size.errors else None,
        "accepted_max": size.limits.max if size.limits else None,
        "accepted_rms": size.limits.rms if size.limits else None,
        "wrong": size.wrong,
        "rows": size.bodies,
        "cause": size.cause,
        "fault": asdict(size.fault) if size.fault else None,
    }


def page(judged: Judged) -> str:
    """Return a whole page of a judgement."""
    return page_of(f"gravbench judge: {judged.judgement.entry.path.name}", sections(judged))


def page_of(title: str, shown: Iterable[Section]) -> str:
    """Return sections as a whole page: one file without a script, which asks the network for nothing."""
    template = html.templates(Path(__file__).parent).get_template("page.html")
    return template.render(
        title=title,
        policy=POLICY,
        style=(html.HERE / "page.css").read_text("utf-8"),
        sections=list(shown),
    )
