"""What a language costs in lines of code, and gives in instructions and speed: the peers beside kernels in CUDA C.

``python -m gravbench.explain.languages RUN...`` prints the table in Markdown, with the kernels of ``--beside`` before
the peers. The speeds are of the runs' records, all of one device; the instructions are counted in the machine code that
the compilers installed here make for an architecture.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gravbench.errors import InputError, exit_code_of, nearest, shortened
from gravbench.explain.assembling import Assembled, disassembled
from gravbench.explain.generated import compilers, generated
from gravbench.explain.ledger import inner_loops, ledger
from gravbench.explain.recorded_kernels import asked_of
from gravbench.explain.source_lines import Places
from gravbench.model import files
from gravbench.model.identity import code_lines, cuda_lines
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find as find_interaction
from gravbench.model.python_code import is_text, tree
from gravbench.model.record import Record
from gravbench.model.run_names import find
from gravbench.model.runs import RecordFile
from gravbench.model.stem_code import CUDA_C, JOINED
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import KERNEL, NUMBA, Variant, discover
from gravbench.report.cases import Timed, fastest_cases
from gravbench.report.markdown import escaped, markdown_table
from gravbench.report.numbers import number, times
from gravbench.report.provenance import Here
from gravbench.report.section import Column
from gravbench.toolkits import nvrtc

PROGRAM = "python -m gravbench.explain.languages"
ARCHITECTURE = "sm_90"
BODIES = 65536
FAMILY = "peers"

Kernel = tuple[str, str]
"""A variant and a toolkit of it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel in its language: its lines, its instructions per interaction, and its fastest case.

    ``instructions`` is None where they are not counted without a GPU, ``timed`` where it was not measured.
    """

    variant: str
    language: str
    lines: int
    instructions: float | None
    timed: Timed | None


def rows(variants: Mapping[str, Variant], records: Sequence[Record], beside: Sequence[Kernel] = ()) -> list[Row]:
    """Return a row for each kernel: those ``beside`` the peers first.

    Raises:
        InputError: a kernel cannot be compiled here, or the records cannot be compared.
    """
    best = fastest_cases(records, BODIES)
    peers = [
        (name, toolkit)
        for name, variant in variants.items()
        if variant.path.parent.name == FAMILY and variant.approximates is None
        for toolkit in variant.toolkits
    ]
    return [
        Row(
            name, _language(variants[name], toolkit), lines_of(variants[name], toolkit),
            instructions_of(variants[name], toolkit), best.get((name, toolkit)),
        )
        for name, toolkit in (*beside, *peers)
    ]  # fmt: skip


def _language(variant: Variant, toolkit: str) -> str:
    return "CUDA C" if variant.has_cuda_c and catalogue()[toolkit].cuda_c else catalogue()[toolkit].title


def lines_of(variant: Variant, toolkit: str) -> int:
    """Count the lines of the kernel of a toolkit, without empty ones, comments and docstrings.

    Those are the lines of its file in CUDA C or in another language, or else of its function in Python; a twin of
    Numba's kernel has the lines of that.
    """
    entry = catalogue()[toolkit]
    if suffix := CUDA_C if entry.cuda_c and variant.has_cuda_c else entry.suffix:
        text = files.text(variant.path.with_suffix(suffix))
        return len(cuda_lines(text) if suffix in JOINED else code_lines(text))
    text = files.text(variant.path)
    made = {function.name: function for function in tree(text).body if isinstance(function, ast.FunctionDef)}
    maker = made.get(toolkit + KERNEL) or made[NUMBA + KERNEL]
    written = text.splitlines()
    for node in ast.walk(maker):
        if is_text(node) and isinstance(node, ast.Expr):
            written[node.lineno - 1 : node.end_lineno] = [""] * (int(node.end_lineno or 0) - node.lineno + 1)
    return len(code_lines("\n".join(written[maker.lineno - 1 : maker.end_lineno])))


def instructions_of(variant: Variant, toolkit: str) -> float | None:
    """Count the instructions per interaction in the inner loop, with the default of each axis; None without a compiler.

    Raises:
        InputError: the kernel cannot be compiled or read here.
    """
    if catalogue()[toolkit].cuda_c and variant.has_cuda_c:
        gravity = find_interaction(GRAVITY)
        counted = ledger(variant, asked_of(variant, {}, "float32", gravity), "float32", gravity, ARCHITECTURE)
        return min(loop.slots for loop in counted.inner) if counted else None
    if toolkit not in compilers():
        return None
    made, kernel = generated(variant, {}, ARCHITECTURE, toolkit)
    built: Assembled = disassembled(made, kernel)
    return min(loop.slots for loop in inner_loops(built, Places(), mutual=False))


def markdown(shown: Sequence[Row], here: Here) -> str:
    """Return the table in Markdown, with what its numbers presuppose, and a note for each sign in it."""
    records = [row.timed.record for row in shown if row.timed]
    made = dict.fromkeys(
        version for name in compilers() for version in (catalogue()[name].version or "").split(", ") if version
    )
    head = f"{records[0].device}, {records[0].bodies}, N = {BODIES:,}, float32: the fastest case of each variant"
    foot = (
        f"Instructions are those of the inner loop for {ARCHITECTURE}, with the default of each axis, as made by "
        f"{', '.join([nvrtc.version(), *made])}."
    )

    def speed(row: Row) -> str:
        if row.timed is None:
            return "not measured"
        sign = here.sign(row.timed.record)
        return number(times(row.timed.speed, 1e-9)) + (f" `{sign}`" if sign else "")

    columns: list[Column[Row]] = [
        Column("variant", lambda row: f"`{row.variant}`", text=True),
        Column("language", lambda row: row.language, text=True),
        Column("lines", lambda row: str(row.lines)),
        Column("instructions per interaction", lambda row: number(row.instructions, 3) or "not counted"),
        Column("10⁹ interactions/s", speed),
        Column("ms", lambda row: number(1e3 * row.timed.seconds) if row.timed else ""),
        Column(
            "compiled by, when timed", lambda row: (row.timed.record.compiler or "") if row.timed else "", text=True
        ),
    ]
    lines = [f"**{escaped(head)}**", "", *markdown_table(columns, shown), "", escaped(foot)]
    for note in here.notes(records):
        lines += ["", f"`{note[0]}` {escaped(note[1:])}"]
    return "\n".join(lines) + "\n"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line: the names of ``runs``, and the kernels ``beside`` the peers."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder, or its name below reports/")
    parser.add_argument(
        "--beside", metavar="VARIANT:TOOLKIT,...", default="", help="kernels before the peers, such as those in CUDA C"
    )
    return parser.parse_args(words)


def kernels_of(text: str, variants: Mapping[str, Variant]) -> list[Kernel]:
    """Read the kernels of ``--beside``.

    Raises:
        InputError: there is no such variant, or it has no kernel for the toolkit.
    """
    kernels = []
    for word in filter(None, text.split(",")):
        name, _, toolkit = word.partition(":")
        if name not in variants:
            raise InputError(f"--beside {shortened(word)}: no such variant; {nearest(name, list(variants))}")
        if toolkit not in (offered := variants[name].toolkits):
            raise InputError(f"--beside {shortened(word)}: {name} has no such kernel; {nearest(toolkit, [*offered])}")
        kernels.append((name, toolkit))
    return kernels


def main(words: Sequence[str] | None = None) -> int:
    """Print the table of one or more runs; returns the exit code."""
    given = arguments(words)

    def work() -> None:
        variants = discover()
        records = [record for run in given.runs for record in RecordFile(find(run)).read()]
        table = rows(variants, records, kernels_of(given.beside, variants))
        sys.stdout.write(markdown(table, Here(variants, records)))

    return exit_code_of(PROGRAM, work)


if __name__ == "__main__":
    sys.exit(main())
