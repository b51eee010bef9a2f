"""The table of a step of the tutorial: what kernels took on an H100, and what an interaction costs them, by pipe.

``python docs/hooks/step_table.py N[,N...] VARIANT...`` prints it in Markdown, and what the columns and signs mean if
``--notes`` comes first. The times are those of ``RUN`` by CuPy,
with all axes at their defaults; the costs are those of ``gravbench explain ledger VARIANT``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gravbench.cli.explaining import asked_for
from gravbench.explain.explained import explain
from gravbench.explain.printed import as_json
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.report.names import drift_notes, drift_signs
from gravbench.report.numbers import number, plus_minus
from gravbench.report.provenance import Here
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import together
from gravbench.verdicts.uncertainty import Uncertainties

ROOT = Path(__file__).resolve().parents[2]
RUN = "h100/ladder"
TOOLKIT, BODIES, DTYPE = "cupy", "plummer", "float32"
SHAPES = ("p", "q", "r", "unroll")
"""Axes that a row names: they are those that the tutorial explains."""
PIPES = ("FMA", "ALU", "XU", "load-store")
"""Those that have a column; what the uniform datapath and the control instructions take is in the sum alone."""


@cache
def measured() -> tuple[list[Record], Uncertainties]:
    """Read the records of the run, and the uncertainties that its anchors give."""
    (records,) = together([RecordFile(ROOT / "reports" / RUN).read()])
    return records, Uncertainties([records])


def record_of(variant: str, n: int) -> Record:
    """Return the record of a variant at the defaults of its axes.

    Raises:
        SystemExit: there is not one record of it.
    """
    known = discover()[variant]
    found = [
        record
        for record in latest(measured()[0])
        if (record.variant, record.n, record.toolkit) == (variant, n, TOOLKIT)
        and (record.bodies, record.dtype, record.timed) == (BODIES, DTYPE, "force")
        and {**known.usual(), **record.axes} == known.usual()
    ]
    if len(found) != 1:
        raise SystemExit(f"reports/{RUN} has {len(found)} records of {variant}, n={n}, {known.defaults}; 1 is needed")
    return found[0]


@cache
def ledger(variant: str) -> dict[str, Any]:
    """Return the ledger of a variant, as ``gravbench explain ledger`` prints it for programs.

    Raises:
        InputError: NVRTC or nvdisasm is missing.
    """
    asked = asked_for(discover(), variant, [], 65536, DTYPE)
    return as_json(explain([asked], ["sm_90"]))


def cells(variant: str, sizes: Sequence[int]) -> list[str]:
    """Return the row of a variant."""
    records, uncertainties = [record_of(variant, n) for n in sizes], measured()[1]
    kernel = ledger(variant)["kernels"][0]
    loop = kernel["loops"][0]
    axes = " ".join(f"{axis}={value}" for axis, value in records[0].axes.items() if axis in SHAPES)
    return [
        f"`{variant}` {axes}",
        *(f"{number(1e3 * ranking.seconds(one))} {plus_minus(uncertainties.half_width(one))}" for one in records),
        f"{loop['slots']:.2f}",
        *(f"{loop['pipes'][pipe]:.2f}" for pipe in PIPES),
        f"{kernel['registers']}",
    ]


def table(sizes: Sequence[int], variants: Sequence[str]) -> str:
    """Return the table of a step in Markdown, below what its figures presuppose."""
    records = [record_of(variant, n) for variant in variants for n in sizes]
    first, here = records[0], Here(discover(), measured()[0])
    signs = "".join(f" `{sign}`" for sign in dict.fromkeys(map(here.sign, records)) if sign)
    title = f"{first.device}, {BODIES}, {DTYPE}, softening {first.eps:g}, {TOOLKIT}; ledger: sm_90"
    headers = ["kernel", *(f"ms, N = {n:,}" for n in sizes), "slots", *PIPES, "registers"]
    rows = [headers, ["---", *["---:"] * (len(headers) - 1)], *(cells(variant, sizes) for variant in variants)]
    return "\n".join(
        [f"**{title}**{signs}{drift_signs(drifts_of(first))}", "", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def drifts_of(record: Record) -> list[ranking.Drift]:
    """Return the drifts of the run that affect a record."""
    return list(ranking.affecting(ranking.drifts(measured()[0]), ranking.conditions(record)))


def notes(sizes: Sequence[int], variants: Sequence[str]) -> str:
    """Say what the columns and signs of all these tables mean."""
    records = [record_of(variant, n) for variant in variants for n in sizes]
    signed = [*Here(discover(), measured()[0]).notes(records), *drift_notes(drifts_of(records[0]))]
    lines = [
        f"ms: milliseconds for one evaluation on one {records[0].device}: the median of the record in `reports/{RUN}`, "
        "± half its 95 % confidence interval. Axes that are not named have their defaults.",
        "slots: issue slots per interaction in the inner loop, then how many of them each pipe gets; registers: per "
        f"thread. For {DTYPE}, compiled by {ledger(variants[0])['compiler']}.",
        *(f"`{note[0]}` {note[1:].strip()}" for note in signed),
    ]
    return "\n".join(f"- {line}" for line in lines)


def main(words: Sequence[str]) -> str:
    """Return what the words of the command line ask for."""
    printed = notes if words[0] == "--notes" else table
    sizes, *variants = words[1:] if printed is notes else words
    return printed([int(word) for word in sizes.split(",")], variants)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]) + "\n")
