"""What a person sees while a run goes on: a live line on a terminal, one plain line per case elsewhere."""

from __future__ import annotations

import time
from contextlib import suppress

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gravbench.measuring.runner import Watcher
from gravbench.model.record import Record

# A sign as well as a colour, for those who see no colours.
SIGNS = {"ok": ("+", "green"), "invalid": ("!", "red"), "failed": ("x", "red"), "skipped": ("-", "yellow")}


def duration(seconds: float) -> str:
    """Say a time as a person would: ``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def outcome(record: Record) -> str:
    """Say in a few words what a case gave."""
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    if record.interactions_per_second is None:
        return f"ok  error max {record.error_max:.1e}, rms {record.error_rms:.1e}"
    width = "unbounded"
    if record.ci_low and record.ci_high and record.median_seconds:
        width = f"± {50 * (record.ci_high - record.ci_low) / record.median_seconds:.2g} %"
    return f"ok  {record.interactions_per_second / 1e9:,.4g}e9 interactions/s {width}"


class ConsoleWatcher(Watcher):
    """Shows the progress of a run whose tasks are estimated to take ``estimates`` seconds, in order."""

    def __init__(self, console: Console, estimates: list[float]) -> None:
        """Nothing is shown before ``with``."""
        self.console = console
        self.estimates = estimates
        self.done = 0
        self.began = time.monotonic()
        self.explained: set[str] = set()
        self.label = ""
        self.progress = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.bar = self.progress.add_task("", total=len(estimates), left="")

    def __enter__(self) -> ConsoleWatcher:
        """Begin to show."""
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the terminal as it was."""
        # Some versions of Rich end with an empty line although they are told to show nothing.
        if not self.progress.disable:
            with suppress(OSError):  # the terminal is gone
                self.progress.stop()

    def _left(self) -> str:
        """Say how long the rest will take: the estimates, corrected by how the cases so far compared with theirs."""
        spent, expected = time.monotonic() - self.began, sum(self.estimates[: self.done])
        # The first cases also pay for starting the workers; a correction from them alone would mislead.
        pace = spent / expected if expected > 5 else 1.0
        return f"about {duration(pace * sum(self.estimates[self.done :]))} left"

    def begins(self, label: str, device: str) -> None:
        """Show which case is next."""
        self.label = f"{label} on {device}"
        self.progress.update(self.bar, description=escape(self.label), left=self._left())

    def phase(self, name: str) -> None:
        """Show what is being done with it."""
        self.progress.update(self.bar, description=escape(f"{self.label}: {name}"))

    def ends(self, record: Record, done: int, total: int) -> None:
        """Print a line about it; of the cases skipped for the same reason, only about the first."""
        self.done = done
        self.progress.update(self.bar, completed=done, left=self._left())
        if record.status == "skipped" and record.reason:
            if record.reason in self.explained:
                return
            self.explained.add(record.reason)
        sign, colour = SIGNS[record.status]
        again = f" (anchor, time {record.anchor})" if record.anchor > 1 else ""
        counter = f"{done:>{len(str(total))}}/{total}"
        self.console.print(
            f"[{colour}]{sign}[/] {counter} {escape(record.label + again)}: {escape(outcome(record))}",
            highlight=False,
            soft_wrap=True,
        )
