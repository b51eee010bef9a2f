"""What there is: the variants, and what this machine can run them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gravbench.model.device import Device, Finding
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Variant


def _table(title: str, name: str, wide: Mapping[str, int]) -> Table:
    """Make a table of columns that share the room in the given proportions; the first, ``name``, is never wrapped."""
    table = Table(title=title, title_justify="left", show_lines=True, expand=False)
    table.add_column(name, no_wrap=True)
    for header, ratio in wide.items():
        table.add_column(header, ratio=ratio)
    return table


def depth(name: str, variants: Mapping[str, Variant]) -> int:
    """Count the steps from the root of the ladder."""
    parent = variants[name].parent
    return 0 if parent is None else 1 + depth(parent, variants)


def show_interactions(interactions: Sequence[Interaction], takers: Sequence[str], console: Console) -> None:
    """Print the interactions and which variants, the ``takers``, compute them."""
    table = _table("The interactions", "interaction", {"what it computes": 3, "reads of a body": 1, "adds up": 1})
    table.add_column("FLOPs", justify="right")
    for one in interactions:
        table.add_row(one.name, escape(one.summary), " ".join(one.body), " ".join(one.sums), str(one.flops))
    console.print(table)
    console.print(f"{', '.join(takers)} compute any of them, and one's own file; every other variant computes gravity.")


def show_variants(variants: Mapping[str, Variant], console: Console) -> None:
    """Print the ladder; a step stands below its parent, indented."""
    wide = {"what it changes": 3, "source": 2, "toolkits, axes (default in brackets)": 3}
    table = _table("The ladder", "variant", wide)
    table.columns[-1].width = console.width // 6  # or the longest of its words
    for one in variants.values():
        lines = [", ".join(one.toolkits), ", ".join(one.dtypes)]
        for axis, values in one.axes.items():
            words = [f"[{value}]" if value == one.defaults[axis] else str(value) for value in values]
            other = one.other_values(axis)
            lines.append(f"{axis} = {' '.join(words)}{'; also ' * bool(other)}{other}")
        notes = {
            "only where": one.when,
            "loads from global memory per body:": one.loads,
            "approximates:": one.approximates,
        }
        lines += [f"{title} {note}" for title, note in notes.items() if note]
        longest = max(len(word) for line in lines for word in line.split())
        table.columns[-1].width = max(longest, table.columns[-1].width or 0)
        indent = "  " * depth(one.name, variants)
        against = f"[{one.parent}] " if one.parent else ""
        table.add_row(*map(escape, [indent + one.name, against + one.summary, one.source, "\n".join(lines)]))
    console.print(table)
    console.print("In brackets before a summary: the parent that the variant is compared with.", markup=False)


def show_findings(
    devices: Sequence[Device],
    no_gpu: str | None,
    findings: Sequence[Finding],
    environment: Mapping[str, Any],
    console: Console,
) -> None:
    """Print devices, toolkits and software."""
    console.print("[bold]Devices[/]")
    for device in devices:
        driver = f", driver {device.driver}" if device.driver else ""
        uuid = f", {device.uuid}" if device.uuid else ""
        console.print(f"  {device.selector}: {device.name}{driver}{uuid}", markup=False, highlight=False)
    if no_gpu:
        console.print(f"  {no_gpu}", markup=False, highlight=False)
    console.print("[bold]Toolkits[/]")
    for finding in findings:
        sign, colour = ("+ usable", "green") if finding.usable else ("- not usable", "yellow")
        version = f" ({finding.version})" if finding.version else ""
        console.print(f"  [{colour}]{sign}[/]: {finding.toolkit}{version}: {escape(finding.reason)}", highlight=False)
    console.print("[bold]Software[/]")
    software = {
        "gravbench": f"{environment['harness_version']}, commit {environment['commit'] or 'unknown: not a checkout'}",
        "python": environment["python"].split()[0],
        "nvcc": environment["nvcc"] or "not found on PATH; only PyCUDA needs it",
        "system": environment["operating_system"],
    } | environment["packages"]
    for name, value in software.items():
        console.print(f"  {name}: {value}", markup=False, highlight=False)
