"""What a person sees while a run goes on: live lines on a terminal, one plain line per case elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gravbench.measuring.runner import Progress, Watcher
from gravbench.model.case import Case
from gravbench.model.record import Record

# A sign as well as a colour, for those who see no colours.
SIGNS = {"ok": ("+", "green"), "invalid": ("!", "red"), "failed": ("x", "red"), "skipped": ("-", "yellow")}
BAR_WIDTH = 20
REFRESH_PER_SECOND = 4


def duration(seconds: float) -> str:
    """Say a time as a person would: ``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def milliseconds(seconds: float) -> str:
    """Say the time of one evaluation."""
    return f"{seconds * 1e3:.4g} ms"


def outcome(record: Record) -> str:
    """Say in a few words what a case gave."""
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    if record.median_seconds is None:
        return f"ok  error max {record.error_max:.1e}, rms {record.error_rms:.1e}"
    if record.outraced:
        return f"outraced after {len(record.samples_seconds)} samples of about {milliseconds(record.median_seconds)}"
    width = "unbounded"
    if record.ci_low and record.ci_high:
        half = 50 * (record.ci_high - record.ci_low) / record.median_seconds
        # Anchors are not known yet, so this is no uncertainty as reports print it.
        width = f"± {half:.2g} % in its samples" if half < 10 else f"± {half:,.0f} % in its samples"
    words = f"ok  {milliseconds(record.median_seconds)} {width}"
    if record.interactions_per_second is None:
        return words
    return f"{words}, {record.interactions_per_second / 1e9:,.4g}e9 interactions/s"


def divided(seconds: Mapping[str, float]) -> str:
    """Say how the wall time of a run divides, each phase in per cent."""
    whole = sum(seconds.values())
    return ", ".join(f"{name} {share / whole:.0%}" for name, share in seconds.items() if share / whole >= 0.005)


def skips(counts: Mapping[str, int]) -> list[str]:
    """Say how many cases were skipped for each reason; not where it is one, which was named."""
    return [f"{count:,} cases skipped: {reason}" for reason, count in counts.items() if count > 1]


class ConsoleWatcher(Watcher):
    """Shows the progress of a run: a bar, what each device does, the fastest so far, and a line per case that ended."""

    def __init__(self, console: Console) -> None:
        """Nothing is shown before ``with``."""
        self.console = console
        self.began = self.until = time.monotonic()
        self.progress = Progress(0, 0, 0.0)
        self.doing: dict[str, str] = {}
        self.skipped: dict[str, int] = {}
        self.fastest: dict[tuple[object, ...], Record] = {}
        self.shown: Record | None = None
        self.live = Live(self, console=console, refresh_per_second=REFRESH_PER_SECOND, transient=True)

    def __enter__(self) -> ConsoleWatcher:
        """Begin to show."""
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the terminal as it was."""
        with suppress(OSError):  # the terminal is gone
            self.live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what is live; each line gives way at its end where the terminal is narrow."""
        spent, left = time.monotonic() - self.began, max(0.0, self.until - time.monotonic())
        total = self.progress.total
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=max(total, 1), completed=self.progress.done, width=BAR_WIDTH),
            Text(f"{self.progress.done}/{total}" if total else "starting", no_wrap=True),
            Text(duration(spent), no_wrap=True),
            Text(f"about {duration(left)} left" if self.progress.done else "", no_wrap=True, overflow="ellipsis"),
        )
        yield line
        for device, what in self.doing.items():
            yield Text(f"{device}  {what}", no_wrap=True, overflow="ellipsis")
        of = self.shown
        if of is not None and of.median_seconds:
            words = f"fastest so far at n = {of.n:,}: {milliseconds(of.median_seconds)}, {of.label}"
            yield Text(words, no_wrap=True, overflow="ellipsis")

    def begins(self, label: str, device: str) -> None:
        """Show what a device does, unless it does something else as well."""
        self.doing.setdefault(device, label)

    def phase(self, label: str, device: str, name: str) -> None:
        """Show what is being done with it."""
        self.doing[device] = f"{name}: {label}"

    def ends(self, record: Record, progress: Progress) -> None:
        """Print a line about it; of the cases skipped for the same reason, only about the first."""
        self.progress = progress
        self.until = time.monotonic() + progress.seconds_left
        if record.status == "skipped" and record.reason:
            self.skipped[record.reason] = self.skipped.get(record.reason, 0) + 1
            if self.skipped[record.reason] > 1:
                return
        self._compare(record)
        sign, colour = SIGNS[record.status]
        again = f" (anchor, time {record.anchor})" if record.anchor > 1 else ""
        counter = f"{progress.done:>{len(str(progress.total))}}/{progress.total}"
        self.console.print(
            f"[{colour}]{sign}[/] {counter} {escape(record.label + again)}: {escape(outcome(record))}",
            highlight=False,
            soft_wrap=True,
        )

    def _compare(self, record: Record) -> None:
        """Keep the fastest of those that compute the same."""
        if record.status != "ok" or not record.median_seconds:
            return
        same = record.n, frozenset(record.conditions.items())
        best = self.fastest.get(same)
        if best is None or not best.median_seconds or record.median_seconds < best.median_seconds:
            self.fastest[same] = record
        self.shown = self.fastest[same]

    def searched(self, device: str, fastest: Sequence[Sequence[Case]], apart: Sequence[str]) -> None:
        """Name what won each contest, what sets the contest apart, and how many others cannot be told from it."""
        for cases, words in zip(fastest, apart, strict=True):
            which = ", ".join(filter(None, [f"n = {cases[0].n:,}", words]))
            sentence = f"fastest on {device} at {which}: {cases[0].label}"
            more = f", and {len(cases) - 1} that cannot be distinguished from it" if len(cases) > 1 else ""
            self._print(sentence + more)

    def left_out(self, device: str, cases: int) -> None:
        """Say how many cases the budget left out."""
        why = "the budget of the search is spent (search.budget_trials, search.budget_seconds)"
        self._print(f"not measured on {device}: {cases:,} {'case' if cases == 1 else 'cases'}, because {why}")

    def over(self, seconds: Mapping[str, float]) -> None:
        """Say how many cases were skipped for each reason, and how the time divides."""
        for sentence in skips(self.skipped):
            self._print(sentence)
        if seconds:
            spent = duration(time.monotonic() - self.began)
            self._print(f"{spent} of wall time: {divided(seconds)}")

    def _print(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False, soft_wrap=True)
