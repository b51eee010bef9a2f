"""The path of a ladder as bars, in SVG: one row per step, its time, the gain over the row above, and its error.

Each picture has two layouts, because a phone cannot show as many letters in a line as a desk: ``wide`` says what each
step changes, ``narrow`` leaves that to the table below the picture.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from gravbench.report.numbers import number, relative_error
from gravbench.report.story_path import Step, Story


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a picture, whose background is that of the page."""

    ink: str
    faint: str
    path: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes in pixels: of the picture, of a row, and of a bar, which stands behind the name, or ``below`` it."""

    width: int
    row: int
    bar: int
    below: bool


THEMES: Mapping[str, Theme] = {
    "light": Theme(ink="#1f2328", faint="#59636e", path="#0969da"),
    "dark": Theme(ink="#e6edf3", faint="#9198a1", path="#58a6ff"),
}
LAYOUTS: Mapping[str, Layout] = {
    "wide": Layout(width=720, row=62, bar=22, below=False),
    "narrow": Layout(width=360, row=58, bar=14, below=True),
}

TITLE, NAME, SMALL = 18, 16, 14
"""Sizes of text; on a phone of 380 pixels the narrow picture is shown at nine tenths of its size or more."""
LETTER = 0.58
"""Width of a letter in font sizes, at most on average."""
BOLD_LETTER = 0.68
"""That of a bold letter, as names have them."""
TIME, GAIN, ERROR = 86, 76, 108
"""Pixels for a time, a gain and an error, with the gaps around them."""
HEAD = 64
"""Pixels above the first row."""
LINE = 19
"""Pixels from one line of small text to the next."""


def pictures(shown_story: Story, changes: Mapping[str, str]) -> dict[str, str]:
    """Return each picture as SVG by its file name; ``changes`` is what each variant changes."""
    return {
        "-".join(["story", *(["narrow"] if layout == "narrow" else []), f"{theme}.svg"]): draw(
            shown_story, changes, theme, layout
        )
        for theme in THEMES
        for layout in LAYOUTS
    }


def draw(shown_story: Story, changes: Mapping[str, str], theme: str, layout: str) -> str:
    """Return the picture as SVG: ``changes`` says what each variant changes, ``theme`` and ``layout`` are names."""
    colours, place = THEMES[theme], LAYOUTS[layout]
    title, footer = _wrapped(shown_story.title, place), _footer(shown_story, place)
    head = HEAD + LINE * (len(title) - 1)
    bottom = head + place.row * len(shown_story.drawn)
    height = bottom + LINE * len(footer) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {place.width} {height}" width="{place.width}" '
        f'height="{height}" role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        f"<title>{escape(alternative(shown_story))}</title>",
        _text(0, 20, "Milliseconds per evaluation", colours.ink, TITLE, weight=600),
        *(_text(0, 42 + LINE * line, words, colours.faint, SMALL) for line, words in enumerate(title)),
    ]
    row = _row_below if place.below else _row_behind
    for number_of_row, step in enumerate(shown_story.drawn):
        parts += row(step, shown_story, changes, head + place.row * number_of_row, colours, place)
    parts += [_text(0, bottom + LINE * line, words, colours.faint, SMALL) for line, words in enumerate(footer, 1)]
    return "\n".join([*filter(None, parts), "</svg>", ""])


def alternative(shown_story: Story) -> str:
    """Return what the picture shows, for those who cannot see it."""
    times = ", ".join(f"{step.name} {number(step.milliseconds, 3)} ms" for step in shown_story.drawn)
    return f"Time per evaluation, step by step: {times} ({shown_story.title})"


def _row_behind(
    step: Step, shown_story: Story, changes: Mapping[str, str], top: int, colours: Theme, place: Layout
) -> list[str]:
    """Draw a step in one line, and below it what it changes."""
    left = min(BOLD_LETTER * NAME * max(len(other.name) for other in shown_story.drawn), place.width / 3) + 12
    length = _length(step, shown_story, place.width - left - TIME - GAIN - ERROR)
    time, gain, error = _numbers(step)
    end, change = left + length + 10, shown_story.change(step, changes)
    return [
        _text(0, top + NAME, step.name, colours.ink, _fitting(step.name, NAME, left - 12, BOLD_LETTER), weight=600),
        _bar(left, top, length, colours, place),
        _text(end, top + NAME, time, colours.ink, NAME, weight=600),
        _text(end + TIME, top + NAME, gain, colours.path, NAME),
        _text(place.width, top + NAME, error, colours.faint, SMALL, anchor="end"),
        _text(0, top + 41, change, colours.faint, _fitting(change, SMALL, place.width)),
    ]


def _row_below(
    step: Step, shown_story: Story, _: Mapping[str, str], top: int, colours: Theme, place: Layout
) -> list[str]:
    """Draw a step in two lines: its name and times, and its bar."""
    time, gain, error = _numbers(step)
    name = place.width - GAIN - TIME
    return [
        _text(0, top + NAME, step.name, colours.ink, _fitting(step.name, NAME, name, BOLD_LETTER), weight=600),
        _text(place.width - GAIN, top + NAME, time, colours.ink, NAME, weight=600, anchor="end"),
        _text(place.width, top + NAME, gain, colours.path, NAME, anchor="end"),
        _bar(0, top + 26, _length(step, shown_story, place.width - ERROR), colours, place),
        _text(place.width, top + 26 + SMALL - 2, error, colours.faint, SMALL, anchor="end"),
    ]


def _length(step: Step, shown_story: Story, longest: float) -> float:
    """Return the length of a bar; the slowest step has the longest."""
    return max(longest * step.milliseconds / max(other.milliseconds for other in shown_story.drawn), 2.0)


def _bar(left: float, top: float, length: float, colours: Theme, place: Layout) -> str:
    return f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{place.bar}" rx="2" fill="{colours.path}"/>'


def _numbers(step: Step) -> tuple[str, str, str]:
    """Write the time, the gain and the error of a step; nothing for what it has not."""
    error = relative_error(step.record.error_max)
    return (
        f"{number(step.milliseconds, 3)} ms",
        f"× {number(step.gain, 3)}" if step.gain else "",
        f"error {error}" if error else "",
    )


def _footer(shown_story: Story, place: Layout) -> list[str]:
    """Say how the picture is read, how far its path leads, and in the wide layout what branches off."""
    first, last = shown_story.path[0], shown_story.path[-1]
    sentences = ["×: speed-up over the row above. error: the largest relative error."]
    if last is not first:
        over_first = number(first.milliseconds / last.milliseconds, 3)
        sentences.append(f"{last.name} is {over_first} times as fast as {first.name}.")
    if shown_story.faster:
        sentences.append("The rows below it are faster, with larger errors.")
    if shown_story.beside and not place.below:
        by_time = sorted(shown_story.beside, key=lambda step: step.milliseconds)
        times = ", ".join(f"{step.name} {number(step.milliseconds, 3)}" for step in by_time)
        sentences.append(f"Beside this path, in ms: {times}.")
    return _wrapped(" ".join(sentences), place)


def _wrapped(words: str, place: Layout) -> list[str]:
    """Return lines of small text as wide as the picture."""
    return textwrap.wrap(words, int(place.width / (SMALL * LETTER)))


def _fitting(words: str, size: float, room: float, letter: float = LETTER) -> float:
    """Return the size of text, or a smaller one by which the words are no longer than the room for them."""
    return min(size, room / (letter * max(len(words), 1)))


def _text(x: float, y: float, words: str, colour: str, size: float, *, weight: int = 400, anchor: str = "start") -> str:
    """Return a text whose base line is at y; nothing without words."""
    if not words:
        return ""
    place = (
        f'x="{x:g}" y="{y:.1f}" font-size="{size:.3g}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    )
    return f"<text {place}>{escape(words)}</text>"
