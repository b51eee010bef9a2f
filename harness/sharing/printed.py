"""The answer of ``gravbench verify`` on one screen, the verdict first, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gravbench.errors import printable
from gravbench.report.terminal.printing import heading, say, say_lines
from gravbench.sharing import signing
from gravbench.sharing.checks import Answer, every
from gravbench.sharing.outcome import Outcome, counted

CONSISTENT, INCONSISTENT = "CONSISTENT", "INCONSISTENT"
MOST_FINDINGS = 5
"""Of one check, that are shown on a terminal; JSON has all."""
LIMITS = (
    "Consistent means that no check found a contradiction. It does not say that the card was there: records that were "
    "made up with care, by this code, would pass. docs/how-to/share.md lists what cannot be found."
)


def show(answer: Answer, console: Console, other_signer: str = "") -> None:
    """Print the verdict, a row for each check, the findings, and what could not be checked.

    ``other_signer`` says how the bundle is not signed as it was asked for.
    """
    number = sum(len(outcome.findings) for outcome in answer.outcomes.values())
    verdict = CONSISTENT if answer.consistent else INCONSISTENT
    heading(console, f"{verdict}: {answer.bundle}")
    say(console, f"{counted(number, 'contradiction')} in {len(answer.outcomes)} checks")
    say(console, f"root {answer.root}")
    if other_signer or answer.signer:
        say(console, printable(other_signer or f"signed by {answer.signer}; {signing.PROVES}"))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("check", "answer", "what it proves where it finds nothing"):
        table.add_column(name)
    for check in every(all_kernels=False):
        outcome = answer.outcomes[check.name]
        table.add_row(check.name, _word(outcome), check.proves)
    console.print(table)
    checks_of: dict[str, list[str]] = {}
    for name, outcome in answer.outcomes.items():
        if outcome.scope:
            checks_of.setdefault(outcome.scope, []).append(name)
    say_lines(console, "Looked at", [f"{', '.join(names)}: {scope}" for scope, names in checks_of.items()])
    for name, outcome in answer.outcomes.items():
        more = len(outcome.findings) - MOST_FINDINGS
        rest = [f"and {more:,} more; --json prints all"] if more > 0 else []
        say_lines(console, f"Found by {name}", [*map(printable, outcome.findings[:MOST_FINDINGS]), *rest])
    unchecked = [printable(f"{name}: {why}") for name, outcome in answer.outcomes.items() for why in outcome.unchecked]
    say_lines(console, "Cannot be checked", unchecked)
    console.print()
    say(console, LIMITS)


def _word(outcome: Outcome) -> Text:
    if outcome.findings:
        return Text("found", style="bold red")
    return Text(outcome.word or "partly", style="yellow") if outcome.unchecked else Text(outcome.word or "ok")


def as_json(answer: Answer, other_signer: str = "") -> dict[str, Any]:
    """Return the answer for programs; ``other_signer`` as for ``show``."""
    return {
        "bundle": answer.bundle,
        "root": answer.root,
        "consistent": answer.consistent,
        "signer": answer.signer and {"names": answer.signer.names, "issuer": answer.signer.issuer},
        "other_signer": other_signer,
        "checks": {
            name: {"findings": outcome.findings, "unchecked": outcome.unchecked, "scope": outcome.scope}
            for name, outcome in answer.outcomes.items()
        },
    }
