"""What there is: the variants, and what this machine can run them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gravbench.model.device import Device, Finding
from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.variant import Variant
from gravbench.report.names import count
from gravbench.report.terminal.printing import GAP, heading, say, say_facts, subsection

WIDE = 110
"""Columns of a terminal from which on the list has the toolkits too."""


def depth(name: str, variants: Mapping[str, Variant]) -> int:
    """Count the steps from the root of the ladder."""
    parent = variants[name].parent
    return 0 if parent is None else 1 + depth(parent, variants)


def show_variants(variants: Mapping[str, Variant], console: Console) -> None:
    """Print the ladder, one line per variant; a step stands below its parent, indented."""
    say(console, "Variants. Each is derived from the nearest one above it that is indented less.")
    console.print()
    toolkits = console.width >= WIDE
    named = {name: "  " * depth(name, variants) + name for name in variants}
    width = max(map(len, named.values()))
    on = {name: " ".join(variant.toolkits) for name, variant in variants.items()}
    beside = max(map(len, on.values())) + GAP if toolkits else 0
    for name, variant in variants.items():
        line = Text(named[name][: -len(name)])
        line.append(name, f"bold link {variant.path.as_uri()}")
        line.append(" " * (width - len(named[name]) + GAP))
        if toolkits:
            line.append(on[name].ljust(beside), "dim")
        line.append(_cut(variant.summary, console.width - width - GAP - beside))
        console.print(line, soft_wrap=True)
    console.print()
    say(console, "gravbench list NAME describes one; gravbench source NAME prints its kernel.")


def show_interactions(interactions: Sequence[Interaction], console: Console) -> None:
    """Print the interactions, one line each."""
    console.print()
    say(console, "Interactions, for -p interaction=NAME.")
    console.print()
    width = max(len(interaction.name) for interaction in interactions)
    for interaction in interactions:
        line = Text(interaction.name.ljust(width + GAP), "bold")
        line.append(
            Text(_cut(f"{interaction.flops} FLOPs. {interaction.summary}", console.width - width - GAP), "not bold")
        )
        console.print(line, soft_wrap=True)


def _cut(text: str, most: int) -> str:
    """Shorten a text to so many characters, at a blank."""
    if len(text) <= most:
        return text
    return f"{text[: max(1, most - 3)].rpartition(' ')[0].rstrip(',;:')}..."


def show_variant(variant: Variant, variants: Mapping[str, Variant], console: Console) -> None:
    """Print everything that a variant declares: what it does and why, its place, its axes, its files."""
    heading(console, variant.name)
    for paragraph in variant.explanation.split("\n\n"):
        # Docstrings mark code as reStructuredText does.
        say(console, " ".join(paragraph.replace("``", "").split()))
        console.print()
    children = [name for name, other in variants.items() if other.parent == variant.name]
    say_facts(
        console,
        {
            "derived from": variant.parent or "nothing; it is the first of its ladder",
            "parent of": ", ".join(children),
            "source": variant.source,
            "runs on": ", ".join(variant.toolkits),
            "number types": ", ".join(variant.dtypes),
            "interactions": "any" if variant.any_interaction else "gravity",
            "approximates": variant.approximates or "",
            "masses": "zero or more" if variant.positive_masses else "",
            "loads per body": f"{variant.loads} from global memory" if variant.loads else "",
            "valid if": variant.when or "",
        },
    )
    if variant.axes:
        subsection(console, "Axes, with defaults in brackets")
        say_facts(console, {axis: _values(variant, axis) for axis in variant.axes})
    subsection(console, "Files")
    for path in files_of(variant):
        console.print(Text(str(path), f"link {path.as_uri()}"), soft_wrap=True)
    console.print()
    say(console, f"Measure it: gravbench run {_sweep_of(variant)}", "dim")


def _sweep_of(variant: Variant) -> str:
    """Name a sweep that measures a variant: the one that ``gravbench new`` writes beside it, if it is there."""
    beside = variant.path.with_suffix(".yaml")
    if variant.path.is_relative_to(BUILT_IN):
        return f"quick --variant {variant.name}"
    return str(beside) if beside.is_file() else f"on a sweep with variant_folders: [{variant.path.parent}]"


def _values(variant: Variant, axis: str) -> str:
    """List the values of an axis, its default in brackets, and what else it takes."""
    words = [f"[{value}]" if value == variant.defaults[axis] else str(value) for value in variant.axes[axis]]
    other = variant.other_values(axis)
    return " ".join(words) + (f"; also {other}" if other else "")


def files_of(variant: Variant) -> list[Path]:
    """Return the files of a variant: those of kernels, where it has any, and its Python."""
    return [*variant.kernel_files, variant.path]


def show_interaction(interaction: Interaction, takers: Sequence[str], console: Console) -> None:
    """Print what an interaction computes, and which variants, the ``takers``, compute it."""
    heading(console, interaction.name)
    say(console, interaction.summary)
    facts = {
        "reads per body": " ".join(interaction.body),
        "adds up": " ".join(interaction.sums),
        "FLOPs": f"{interaction.flops} per interaction",
        "computed by": "every variant" if interaction.name == GRAVITY else ", ".join(takers),
    }
    say_facts(console, facts)
    console.print()
    console.print(Text(interaction.text.strip()), soft_wrap=True)


def inventory_json(variants: Mapping[str, Variant], interactions: Sequence[Interaction]) -> dict[str, Any]:
    """Return variants and interactions as what JSON can hold."""
    return {
        "variants": [
            {
                "name": entry.name,
                "summary": entry.summary,
                "explanation": entry.explanation,
                "parent": entry.parent,
                "source": entry.source,
                "toolkits": entry.toolkits,
                "dtypes": entry.dtypes,
                "axes": {
                    axis: {"values": values, "default": entry.defaults[axis], "also": entry.other_values(axis) or None}
                    for axis, values in entry.axes.items()
                },
                "when": entry.when,
                "loads": entry.loads,
                "approximates": entry.approximates,
                "positive_masses": entry.positive_masses,
                "any_interaction": entry.any_interaction,
                "files": list(map(str, files_of(entry))),
            }
            for entry in variants.values()
        ],
        "interactions": [
            {"name": entry.name, "summary": entry.summary, "flops": entry.flops, "body": entry.body, "sums": entry.sums}
            for entry in interactions
        ],
    }


def findings_json(
    devices: Sequence[Device], no_gpu: str | None, findings: Sequence[Finding], environment: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what ``doctor`` found as what JSON can hold."""
    return {
        "devices": [asdict(device) for device in devices],
        "no_gpu": no_gpu,
        "toolkits": [asdict(finding) for finding in findings],
        "software": dict(environment),
    }


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
        say(console, no_gpu, indent=2)
    console.print("[bold]Toolkits[/]")
    rows = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for finding in findings:
        sign, colour = ("+ usable", "green") if finding.usable else ("- not usable", "yellow")
        version = f"({finding.version}) " if finding.version else ""
        named = Text.assemble("  ", (sign, colour), f": {finding.toolkit}", no_wrap=True)
        rows.add_row(named, Text(f"{version}{finding.reason}"))
    console.print(rows)
    usable = [finding.toolkit for finding in findings if finding.usable]
    say(console, f"  {len(usable)} of {count(len(findings), 'toolkit')} usable: {', '.join(usable) or 'none'}", "bold")
    console.print("[bold]Software[/]")
    software = {
        "gravbench": f"{environment['harness_version']}, commit {environment['commit'] or 'unknown: not a checkout'}",
        "python": environment["python"].split()[0],
        "nvcc": environment["nvcc"] or "not found on PATH; only PyCUDA needs it",
        "system": environment["operating_system"],
    } | environment["packages"]
    for name, value in software.items():
        console.print(f"  {name}: {value}", markup=False, highlight=False)
