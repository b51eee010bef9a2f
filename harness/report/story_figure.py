"""The ladder as a line, in SVG: time over the steps of the path, each named where it is drawn."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from gravbench.report.labels import Box, Label, Point, Segment, Sheet
from gravbench.report.numbers import number, relative_error
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

LEFT, RIGHT, TOP, BOTTOM = 92, 130, 56, 142
COLUMN, HEIGHT = 150, 330
"""Pixels from one step to the next, and of the whole range of times."""
PATH_RADIUS, BRANCH_RADIUS = 6, 3.5
"""Of the dots."""
LINE = 14
"""Pixels from one line of small text to the next."""
TICKS = [digit * 10.0**power for power in range(-3, 6) for digit in (1, 1.5, 2, 3, 4, 5, 7)]


Led = tuple[Label, Segment | None]
"""A name, and the line that leads to it from its dot, where it needs one."""


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
        _text(LEFT, 22, "Milliseconds per evaluation; faster is higher", colours.ink, 14, weight=600),
        _text(LEFT, 40, told.title, colours.faint, 12),
    ]
    for tick in filter(scale.shows, TICKS):
        y = scale.y(tick)
        parts.append(f'<path d="M{LEFT - 30} {y:.1f}H{width - 12:g}" stroke="{colours.grid}"/>')
        parts.append(_text(LEFT - 36, y + 4, f"{tick:g} ms", colours.faint, 11, anchor="end"))
    hops = list(zip(told.path, told.path[1:], strict=False))
    sheet = _sheet(told, shown, scale, width)
    gains = [_gain(sheet, scale, one, other, colours) for one, other in hops]
    times = _path_labels(sheet, told, scale, colours)
    parts += [_line(scale, shown[step.before or ""], step, colours.faint, 1, "3 3") for step in told.beside]
    parts += [_line(scale, one, other, colours.path, 3) for one, other in hops]
    parts += [_dot(scale, step, colours.faint, BRANCH_RADIUS) for step in told.beside]
    parts += [_dot(scale, step, colours.path, PATH_RADIUS) for step in told.path]
    parts += [*_branch_labels(sheet, told, scale, colours), *gains, *times]
    parts += _captions(told, said, colours)
    return "\n".join([*parts, "</svg>", ""])


def _sheet(told: Story, shown: Mapping[str, Step], scale: _Scale, width: float) -> Sheet:
    """Say where the lines and dots are, and the names of the ticks; the grid may pass behind a label."""
    hops = [*zip(told.path, told.path[1:], strict=False), *((shown[one.before or ""], one) for one in told.beside)]
    lines = [(_at(scale, one), _at(scale, other)) for one, other in hops]
    sheet = Sheet(Box(LEFT - 40, TOP - 12, width, TOP + HEIGHT + 18), lines)
    for steps, radius in ((told.path, PATH_RADIUS), (told.beside, BRANCH_RADIUS)):
        sheet.boxes += [_around(_at(scale, one), radius) for one in steps]
    return sheet


def _at(scale: _Scale, step: Step) -> Point:
    return scale.x(step), scale.y(step.milliseconds)


def _around(point: Point, radius: float) -> Box:
    x, y = point
    return Box(x - radius, y - radius, x + radius, y + radius)


def alternative(told: Story) -> str:
    """Return what the picture shows, for those who cannot see it."""
    times = ", ".join(f"{step.name} {number(step.milliseconds, 3)} ms" for step in told.path)
    return f"Time per evaluation, step by step: {times} ({told.title})"


def _line(scale: _Scale, one: Step, other: Step, colour: str, width: int, dashes: str = "") -> str:
    ends = f"M{scale.x(one):g} {scale.y(one.milliseconds):.1f}L{scale.x(other):g} {scale.y(other.milliseconds):.1f}"
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{ends}" stroke="{colour}" stroke-width="{width}" fill="none" stroke-linecap="round"{dashed}/>'


def _dot(scale: _Scale, step: Step, colour: str, radius: float) -> str:
    return f'<circle cx="{scale.x(step):g}" cy="{scale.y(step.milliseconds):.1f}" r="{radius}" fill="{colour}"/>'


def _text(x: float, y: float, words: str, colour: str, size: int, *, weight: int = 400, anchor: str = "start") -> str:
    own = f'x="{x:g}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {own}>{escape(words)}</text>"


def _written(label: Label, colour: str, paper: str) -> str:
    """Write a label, with a rim that keeps the grid behind it from touching its letters."""
    text = _text(label.x, label.y, label.words, colour, label.size, weight=label.weight, anchor=label.anchor)
    rim = f'stroke="{paper}" stroke-width="4" stroke-linejoin="round" paint-order="stroke" '
    return text.replace("<text ", f"<text {rim}")


def _branch_labels(sheet: Sheet, told: Story, scale: _Scale, colours: Theme) -> list[str]:
    """Name what branches off beside its dot; a name that has to go farther away has a line to its dot.

    The names are placed from the fastest to the slowest, or the other way round where they then cover less.
    """
    by_speed = sorted(told.beside, key=lambda step: step.milliseconds)
    tried = [_placed(sheet, order, scale) for order in (by_speed, by_speed[::-1])]
    _, labels = min(tried, key=lambda one: one[0])
    parts = []
    for label, leader in labels:
        if leader:
            (x, y), (x_end, y_end) = leader
            ends = f"M{x:g} {y:.1f}L{x_end:g} {y_end:.1f}"
            parts.append(f'<path d="{ends}" stroke="{colours.faint}" stroke-width="0.7"/>')
        parts.append(_written(label, colours.faint, colours.paper))
    return parts


def _placed(sheet: Sheet, steps: Sequence[Step], scale: _Scale) -> tuple[float, list[Led]]:
    """Place the names of branches in this order; return what they cover, and each with the line to its dot."""
    own = replace(sheet, lines=list(sheet.lines), boxes=list(sheet.boxes))
    worst, found = 0.0, list[Led]()
    for step in steps:
        dot = _around(_at(scale, step), BRANCH_RADIUS)
        costs = {one: _cost(own, one, dot) for one in _names(step, scale)}
        label, leader = best = min(costs, key=lambda one: costs[one])
        worst += costs[best]
        own.boxes.append(label.box)
        own.lines += [leader] if leader else []
        found.append(best)
    return worst, found


def _cost(sheet: Sheet, one: Led, dot: Box) -> float:
    """Count what a name covers, ten times, and what the line to its dot crosses."""
    label, leader = one
    return 10 * sheet.covered(label) + (sheet.crossed(leader, label, dot) if leader else 0)


def _names(step: Step, scale: _Scale) -> list[Led]:
    """List the places for the name of a branch, the best first."""
    x, y = _at(scale, step)
    words = f"{step.name} {number(step.milliseconds, 3)}"
    places = [Label(x + 9, y + 4, words, 11), Label(x - 9, y + 4, words, 11, "end")]
    places += [Label(x, y + down, words, 11, "middle") for down in (-8, 17)]
    far = [
        one
        for down in (sign * LINE * lines for lines in range(1, 10) for sign in (-1, 1))
        for right in (9, 30, 60)
        for one in (
            Label(x + right, y + 4 + down, words, 11),
            Label(x - right, y + 4 + down, words, 11, "end"),
        )
    ]
    return [*((one, None) for one in places), *((one, ((x, y), one.box.nearest((x, y)))) for one in far)]


def _gain(sheet: Sheet, scale: _Scale, one: Step, other: Step, colours: Theme) -> str:
    """Write the gain of a step in the middle of its line, which it interrupts, or beside it."""
    own = (_at(scale, one), _at(scale, other))
    (x, y), (x_end, y_end) = own
    words = f"× {number(other.gain, 3)}"

    def at(part: float, down: float) -> Label:
        return Label(x + part * (x_end - x), y + part * (y_end - y) + 4 + down, words, 12, "middle", 600)

    parts = (0.5, 0.4, 0.6, 0.3, 0.7)
    on_line = [at(part, 0) for part in parts]
    clear = [one for one in on_line if not any(map(one.box.meets, (line for line in sheet.lines if line != own)))]
    beside = [at(part, sign * away) for away in range(10, 60, 4) for part in parts for sign in (-1, 1)]
    if not clear:
        return _written(sheet.place(beside), colours.path, colours.paper)
    label = sheet.place(clear, [own])
    box = label.box
    covered = (
        f'<rect x="{box.left:.1f}" y="{label.y - 13:.1f}" width="{box.right - box.left:.1f}" height="17" '
        f'fill="{colours.paper}"/>'
    )
    return covered + _text(label.x, label.y, words, colours.path, 12, weight=600, anchor="middle")


def _path_labels(sheet: Sheet, told: Story, scale: _Scale, colours: Theme) -> list[str]:
    """Write the time of each step above its dot, or below where the line comes down and goes up again."""
    parts, times = [], [step.milliseconds for step in told.path]
    for place, step in enumerate(told.path):
        around = times[max(place - 1, 0) : place] + times[place + 1 : place + 2]
        valley = all(step.milliseconds > time for time in around)
        x, y = _at(scale, step)
        words = f"{number(step.milliseconds, 3)} ms"
        above, below = [-13 - 6 * far for far in range(4)], [24 + 6 * far for far in range(4)]
        downs = [*below, *above] if valley else [*above, *below]
        candidates = [Label(x + right, y + down, words, 13, "middle", 600) for down in downs for right in (0, -24, 24)]
        parts.append(_written(sheet.place(candidates), colours.ink, colours.paper))
    first, last = told.path[0], told.path[-1]
    if last is not first:
        words = f"{number(first.milliseconds / last.milliseconds, 3)} × {first.name}"
        x, y = _at(scale, last)
        candidates = [Label(x + 14, y + 5 + down, words, 14, weight=700) for down in (0, 12, 24, 36)]
        parts.append(_written(sheet.place(candidates), colours.path, colours.paper))
    return parts


def _captions(told: Story, said: Mapping[str, str], colours: Theme) -> list[str]:
    """Say below the columns what each step of the path changes, and the largest error of its results."""
    parts, below = [], TOP + HEIGHT + 30
    for place, step in enumerate(told.path):
        x = LEFT + COLUMN * place - 40
        _, _, axes = step.name.partition(" ")
        again = place and told.path[place - 1].variant == step.variant
        parts.append(_text(x, below, axes if again else step.name, colours.ink, 13, weight=600))
        words = f"{step.variant} again, with {axes}." if again else said.get(step.variant, "")
        error = relative_error(step.record.error_max)
        told_of = [f"largest error {error}"] if error else []
        for line, text in enumerate([*told_of, *textwrap.wrap(words, 23)[:6]]):
            parts.append(_text(x, below + 18 + LINE * line, text, colours.faint, 11))
    return parts
