"""Where labels of a picture go: beside what they name, on no line, dot or other label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Point = tuple[float, float]
Segment = tuple[Point, Point]

WIDE = 0.6
"""Width of a character in font sizes, on average; a bold one is wider by ``BOLD``."""
BOLD = 1.07
OUTSIDE = 100
"""Covered lines that are as bad as leaving the page."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Tell whether two boxes share an area."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def holds(self, other: Box) -> bool:
        """Tell whether the other box lies within this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )

    def nearest(self, point: Point) -> Point:
        """Return the point of the box that is nearest to another."""
        x, y = point
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)

    def meets(self, segment: Segment) -> bool:
        """Tell whether a line passes through the box."""
        (x, y), (x_end, y_end) = segment
        first, last = 0.0, 1.0
        for start, step, low, high in ((x, x_end - x, self.left, self.right), (y, y_end - y, self.top, self.bottom)):
            if step == 0:
                if not low < start < high:
                    return False
                continue
            enters, leaves = sorted(((low - start) / step, (high - start) / step))
            first, last = max(first, enters), min(last, leaves)
        return first < last


@dataclass(frozen=True, slots=True)
class Label:
    """Words at a place: ``y`` is their base line, ``x`` where they start, their middle or their end."""

    x: float
    y: float
    words: str
    size: int
    anchor: Literal["start", "middle", "end"] = "start"
    weight: int = 400

    @property
    def box(self) -> Box:
        """What the words cover, about."""
        width = len(self.words) * self.size * WIDE * (BOLD if self.weight > 400 else 1)
        left = self.x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return Box(left, self.y - 0.8 * self.size, left + width, self.y + 0.25 * self.size)


@dataclass(slots=True)
class Sheet:
    """What labels must stay clear of: ``lines``, and ``boxes`` around dots and other labels, within ``page``."""

    page: Box
    lines: list[Segment] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def covered(self, label: Label, own: Iterable[Segment] = ()) -> float:
        """Count what a label lies on, lines and boxes, without its ``own`` lines; to leave the page counts more."""
        box, ignored = label.box, set(own)
        lines = sum(box.meets(line) for line in self.lines if line not in ignored)
        return OUTSIDE * (not self.page.holds(box)) + lines + sum(map(box.overlaps, self.boxes))

    def place(self, candidates: Sequence[Label], own: Iterable[Segment] = ()) -> Label:
        """Return the first candidate that covers least, and keep others away from it."""
        best = min(candidates, key=lambda label: self.covered(label, own))
        self.boxes.append(best.box)
        return best

    def crossed(self, leader: Segment, label: Label, dot: Box) -> float:
        """Count the lines and boxes that a line from a dot to its label crosses; lines that end in the dot do not."""
        others = [line for line in self.lines if line[1] != leader[0]]
        boxes = [box for box in self.boxes if box not in (label.box, dot)]
        return sum(crosses(leader, line) for line in others) + sum(box.meets(leader) for box in boxes)


def crosses(one: Segment, other: Segment) -> bool:
    """Tell whether two lines cross."""

    def side(line: Segment, point: Point) -> float:
        (x, y), (x_end, y_end) = line
        return (x_end - x) * (point[1] - y) - (y_end - y) * (point[0] - x)

    return side(one, other[0]) * side(one, other[1]) < 0 and side(other, one[0]) * side(other, one[1]) < 0
