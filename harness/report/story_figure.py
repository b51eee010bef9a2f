"""The ladder as a line, in SVG: time over the steps of the path, each named where it is drawn."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from gravbench.report.numbers import number
from gravbench.report.story_path import Step, Story


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a picture."""

    paper: str
    ink: str
    faint: str
    grid: str
    path: str


THEMES: Mapping[str, Theme] = {
    "light": Theme(paper="#ffffff", ink="#1f2328", faint="#6e7781", grid="#e4e8ec", path="#0969da"),
    "dark": Theme(paper="#0d1117", ink="#e6edf3", faint="#8b949e", grid="#262c34", path="#58a6ff"),
}

LEFT, RIGHT, TOP, BOTTOM = 92, 130, 56, 128
COLUMN, HEIGHT = 150, 330
"""Pixels from one step to the next, and of the whole range of times."""
LINE = 14
"""Pixels from one line of small text to the next."""
TICKS = [digit * 10.0**power for power in range(-3, 6) for digit in (1, 1.5, 2, 3, 4, 5, 7)]


class _Scale:
    """Where a step stands: to the right by its place on the path, upwards by its speed."""

    def __init__(self, told: Story) -> None:
        self._columns = {step.name: place for place, step in enumerate(told.path)}
        self._before = {step.name: step.before for step in told.beside}
        times = [step.milliseconds for step in (*told.path, *told.beside)]
        # Half a tenth of the range stays free at both ends.
        span = max(math.log(max(times) / min(times)), 0.1)
        self._low, self._span = math.log(min(times)) - 0.05 * span, 1.1 * span

    def x(self, step: Step) -> float:
        """Return pixels from the left; what branches off stands one column behind where it branches."""
        name, behind = step.name, 0
        while name not in self._columns:
            name, behind = self._before[name] or "", behind + 1
        return LEFT + COLUMN * (self._columns[name] + behind)

    def y(self, milliseconds: float) -> float:
        """Return pixels from the top; the fastest stands highest."""
        return TOP + HEIGHT * (math.log(milliseconds) - self._low) / self._span

    def shows(self, milliseconds: float) -> bool:
        """Tell whether a time is within the range."""
        return self._low <= math.log(milliseconds) <= self._low + self._span


def draw(told: Story, said: Mapping[str, str], theme: str) -> str:
    """Return the picture as SVG; ``said`` is what each variant changes, ``theme`` one of ``THEMES``."""
    colours, scale = THEMES[theme], _Scale(told)
    shown = {step.name: step for step in (*told.path, *told.beside)}
    width = max(LEFT + COLUMN * len(told.path), max(scale.x(step) for step in shown.values()) + RIGHT)
    height = TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" '
        f'role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        f"<title>{escape(alternative(told))}</title>",
        f'<rect width="{width:g}" height="{height}" fill="{colours.paper}"/>',
        _text(LEFT, 22, "Milliseconds per evaluation, faster upwards", colours.ink, 14, weight=600),
        _text(LEFT, 40, told.title, colours.faint, 12),
    ]
    for tick in filter(scale.shows, TICKS):
        y = scale.y(tick)
        parts.append(f'<path d="M{LEFT - 30} {y:.1f}H{width - 12:g}" stroke="{colours.grid}"/>')
        parts.append(_text(LEFT - 36, y + 4, f"{tick:g} ms", colours.faint, 11, anchor="end"))
    hops = list(zip(told.path, told.path[1:], strict=False))
    parts += [_line(scale, shown[step.before or ""], step, colours.faint, 1, "3 3") for step in told.beside]
    parts += [_line(scale, one, other, colours.path, 3) for one, other in hops]
    parts += [_dot(scale, step, colours.faint, 3.5) for step in told.beside]
    parts += [_dot(scale, step, colours.path, 6) for step in told.path]
    parts += _branch_labels(told, scale, colours)
    parts += [_gain(scale, one, other, colours) for one, other in hops]
    parts += _path_labels(told, scale, colours)
    parts += _captions(told, said, colours)
    return "\n".join([*parts, "</svg>", ""])


def alternative(told: Story) -> str:
    """Return what the picture shows, for those who cannot see it."""
    times = ", ".join(f"{step.name} {number(step.milliseconds, 3)} ms" for step in told.path)
    return f"Time of one evaluation from step to step: {times} ({told.title})"


def _line(scale: _Scale, one: Step, other: Step, colour: str, width: int, dashes: str = "") -> str:
    ends = f"M{scale.x(one):g} {scale.y(one.milliseconds):.1f}L{scale.x(other):g} {scale.y(other.milliseconds):.1f}"
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{ends}" stroke="{colour}" stroke-width="{width}" fill="none" stroke-linecap="round"{dashed}/>'


def _dot(scale: _Scale, step: Step, colour: str, radius: float) -> str:
    return f'<circle cx="{scale.x(step):g}" cy="{scale.y(step.milliseconds):.1f}" r="{radius}" fill="{colour}"/>'


def _text(x: float, y: float, words: str, colour: str, size: int, *, weight: int = 400, anchor: str = "start") -> str:
    own = f'x="{x:g}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {own}>{escape(words)}</text>"


def _haloed(text: str, paper: str) -> str:
    """Keep lines that pass behind a label from touching its letters."""
    return text.replace(
        "<text ", f'<text stroke="{paper}" stroke-width="4" stroke-linejoin="round" paint-order="stroke" '
    )


def _branch_labels(told: Story, scale: _Scale, colours: Theme) -> list[str]:
    """Name what branches off to the right of its dot; names of one column are moved apart."""
    parts, lowest = [], dict[float, float]()
    for step in sorted(told.beside, key=lambda step: step.milliseconds):
        x = scale.x(step)
        y = lowest[x] = max(scale.y(step.milliseconds) + 4, lowest.get(x, -math.inf) + LINE)
        words = f"{step.name} {number(step.milliseconds, 3)}"
        parts.append(_haloed(_text(x + 9, y, words, colours.faint, 11), colours.paper))
    return parts


def _gain(scale: _Scale, one: Step, other: Step, colours: Theme) -> str:
    x = (scale.x(one) + scale.x(other)) / 2
    y = (scale.y(one.milliseconds) + scale.y(other.milliseconds)) / 2 + 4
    words = f"× {number(other.gain, 3)}"
    width = 8 * len(words)
    covered = f'<rect x="{x - width / 2:g}" y="{y - 13:.1f}" width="{width}" height="17" fill="{colours.paper}"/>'
    return covered + _text(x, y, words, colours.path, 12, weight=600, anchor="middle")


def _path_labels(told: Story, scale: _Scale, colours: Theme) -> list[str]:
    """Write the time of each step above its dot, or below where the line comes down and goes up again."""
    parts, times = [], [step.milliseconds for step in told.path]
    for place, step in enumerate(told.path):
        around = times[max(place - 1, 0) : place] + times[place + 1 : place + 2]
        valley = all(step.milliseconds > time for time in around)
        y = scale.y(step.milliseconds) + (24 if valley else -13)
        words = f"{number(step.milliseconds, 3)} ms"
        parts.append(
            _haloed(_text(scale.x(step), y, words, colours.ink, 13, weight=600, anchor="middle"), colours.paper)
        )
    first, last = told.path[0], told.path[-1]
    if last is not first:
        words = f"{number(first.milliseconds / last.milliseconds, 3)} × {first.name}"
        y = scale.y(last.milliseconds)
        parts.append(_haloed(_text(scale.x(last) + 14, y + 5, words, colours.path, 14, weight=700), colours.paper))
    return parts


def _captions(told: Story, said: Mapping[str, str], colours: Theme) -> list[str]:
    """Say below the columns what each step of the path changes, and at the end what it all came to."""
    parts, below = [], TOP + HEIGHT + 30
    for place, step in enumerate(told.path):
        x = LEFT + COLUMN * place - 40
        _, _, axes = step.name.partition(" ")
        again = place and told.path[place - 1].variant == step.variant
        parts.append(_text(x, below, axes if again else step.name, colours.ink, 13, weight=600))
        words = f"{step.variant} again, with {axes}." if again else said.get(step.variant, "")
        for line, text in enumerate(textwrap.wrap(words, 23)[:6]):
            parts.append(_text(x, below + 18 + LINE * line, text, colours.faint, 11))
    return parts
