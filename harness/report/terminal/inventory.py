"""What there is: the variants, and what this machine can run them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gravbench.model.device import Device, Finding
from gravbench.model.interaction import Interaction
from gravbench.model.variant import AxisValue, Variant


def _values(values: tuple[AxisValue, ...], default: AxisValue) -> str:
    """Name the values of an axis; the default stands in brackets."""
    return " ".join(f"[{value}]" if value == default else str(value) for value in values)


def depth(name: str, variants: Mapping[str, Variant]) -> int:
    """Count the steps from the root of the ladder."""
    parent = variants[name].parent
    return 0 if parent is None else 1 + depth(parent, variants)


def show_interactions(interactions: Sequence[Interaction], takers: Sequence[str], console: Console) -> None:
    """Print the interactions and which variants, the ``takers``, compute them."""
    table = Table(title="The interactions", title_justify="left", show_lines=True, expand=False)
    table.add_column("interaction", no_wrap=True)
    table.add_column("what it computes", ratio=3)
    table.add_column("reads of a body", ratio=1)
    table.add_column("adds up", ratio=1)
    table.add_column("FLOPs", justify="right")
    for one in interactions:
        table.add_row(one.name, escape(one.summary), " ".join(one.body), " ".join(one.sums), str(one.flops))
    console.print(table)
    console.print(f"{', '.join(takers)} compute any of them, and one's own file; every other variant computes gravity.")


def show_variants(variants: Mapping[str, Variant], console: Console) -> None:
    """Print the ladder; a step stands below its parent, indented."""
    table = Table(title="The ladder", title_justify="left", show_lines=True, expand=False)
    table.add_column("variant", no_wrap=True)
    table.add_column("what it changes", ratio=3)
    table.add_column("source", ratio=2)
    table.add_column("toolkits, axes (default in brackets)", ratio=3)
    for one in variants.values():
        axes = [f"{axis} = {_values(values, one.defaults[axis])}" for axis, values in one.axes.items()]
        if one.when:
            axes.append(f"only where {one.when}")
        if one.loads:
            axes.append(f"loads from global memory per body: {one.loads}")
        if one.approximates:
            axes.append(f"approximates: {one.approximates}")
        indent = "  " * depth(one.name, variants)
        against = f"[{one.parent}] " if one.parent else ""
        table.add_row(
            escape(indent + one.name),
            escape(against + one.summary),
            escape(one.source),
            escape("\n".join([", ".join(one.toolkits), ", ".join(one.dtypes), *axes])),
        )
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
