"""A movie as one HTML file that works offline, in which the bodies can be turned."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.movie.simulation import Frame
from gravbench.movie.view import SPEEDS, ByOrigin, Colouring, View

MOST_POINTS = 800_000
"""Bodies times frames that a page has: about 15 MB of positions and colours."""
SKY, INK = "#05060a", "#c9d1d9"
SEEN = 1.9
"""What the box around the bodies shows of each axis, on either side of the middle, in units of the view."""
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>body {{ margin: 0; background: {sky}; overflow: hidden; }}</style></head>
<body>{body}</body>
</html>
"""

NARROW = """
const movie = document.getElementById("{plot_id}");
const { clientWidth: width, clientHeight: height } = movie;
// A camera sees as much of the height in any window: where that is higher than the usual one, it steps back.
const far = Math.max(1, height * 16 / 9 / width);
const change = { "scene.camera.eye.z": EYE * far };
if (width < 640) Object.assign(change, {
  "title.text": movie.layout.title.text.replaceAll(/, (?![^(]*\\)|scroll)/g, ",<br>"), "title.font.size": 12,
  "legend.y": 0.14, "legend.yanchor": "bottom", "legend.font.size": 12,
  "sliders[0].x": 0.04, "sliders[0].len": 0.92, "sliders[0].y": 0.08,
});
if (far > 1 || width < 640) Plotly.relayout(movie, change);
"""
"""What fits the page to a window that is higher or narrower than usual, such as a phone's."""
EYE = 0.75
"""How far the camera is from the middle."""


def drawn(n: int, frames: int) -> NDArray[np.int64]:
    """Choose the bodies that a page of so many frames shows, spread evenly over the order of all n."""
    count = max(1, min(n, MOST_POINTS // frames))
    return np.arange(count, dtype=np.int64) * n // count


def write_html(
    frames: Iterable[Frame], count: int, path: Path, view: View, colouring: Colouring, title: str, fps: int
) -> None:
    """Write ``count`` frames as a page with a button that plays them and a slider for the time."""
    figure = go.Figure(layout=_layout())
    named: list[dict[str, Any]] = []
    shown: NDArray[np.int64] | None = None
    made = []
    for frame in frames:
        if shown is None:
            shown = drawn(frame.bodies.n, count)
            figure.add_traces(_traces(frame.bodies, shown, view, colouring, whole=True))
            left_out = "" if shown.size == frame.bodies.n else f"{shown.size:,} of them are drawn. "
            figure.update_layout(title_text=f"{title}<br>{left_out}Drag to rotate, scroll to zoom.")
        traces = _traces(frame.bodies, shown, view, colouring, whole=False)
        made.append(go.Frame(data=traces, name=str(frame.number), traces=list(range(len(traces)))))
        named.append({"args": [[str(frame.number)], _at_once(0)], "label": f"{frame.time:.2f}", "method": "animate"})
    figure.frames = made
    play = {"label": "Play", "method": "animate", "args": [None, _at_once(1000 / fps) | {"fromcurrent": True}]}
    pause = {"label": "Pause", "method": "animate", "args": [[None], _at_once(0)]}
    figure.update_layout(
        updatemenus=[
            {"type": "buttons", "direction": "left", "showactive": False, "bgcolor": INK, "font": {"color": SKY},
             "x": 0.02, "y": 0.02, "xanchor": "left", "yanchor": "bottom", "buttons": [play, pause]}
        ],
        sliders=[
            {"x": 0.2, "len": 0.76, "y": 0.02, "yanchor": "bottom", "steps": named, "ticklen": 0, "minorticklen": 0,
             "currentvalue": {"prefix": "t = "}, "font": {"color": INK, "size": 12}, "pad": {"b": 0, "t": 0},
             "tickcolor": SKY, "bordercolor": INK, "bgcolor": "#30363d"}
        ],
    )  # fmt: skip
    shown_as = {"displaylogo": False, "responsive": True}
    fit = NARROW.replace("EYE", str(EYE))
    body = figure.to_html(
        shown_as, auto_play=False, include_plotlyjs=True, full_html=False, default_height="100vh", post_script=fit
    )
    path.write_text(PAGE.format(title=escape(title), sky=SKY, body=body), "utf-8")


def _at_once(milliseconds: float) -> dict[str, Any]:
    """Say how long a frame stays; bodies go on by jumps, not between frames."""
    return {"frame": {"duration": milliseconds, "redraw": True}, "transition": {"duration": 0}, "mode": "immediate"}


def _traces(
    bodies: Bodies, shown: NDArray[np.int64], view: View, colouring: Colouring, *, whole: bool
) -> list[go.Scatter3d]:
    """Make the points of one time; ``whole`` with what stays the same over the movie."""
    position = view.turned(bodies).astype(np.float32)

    def trace(places: NDArray[np.int64], marker: dict[str, Any], **options: Any) -> go.Scatter3d:
        x, y, z = np.ascontiguousarray(position[places].T)
        same = {"mode": "markers", "hoverinfo": "skip", **options} if whole else {}
        fixed = {"size": 0.6, "opacity": 0.8, "line": {"width": 0}} if whole else {}
        return go.Scatter3d(x=x, y=y, z=z, marker=fixed | marker, **same)

    if isinstance(colouring, ByOrigin):
        groups = colouring.groups[shown]
        return [
            trace(shown[groups == place], {"color": _css(colour)} if whole else {}, name=name, showlegend=True)
            for place, (name, colour) in enumerate(colouring.key)
        ]
    steps = len(SPEEDS) - 1
    scale = {
        "cmin": 0, "cmax": 255, "colorscale": [[place / steps, _css(colour)] for place, colour in enumerate(SPEEDS)],
        "colorbar": {"title": {"text": "speed"}, "tickfont": {"color": INK}, "len": 0.4, "thickness": 10,
                     "x": 0.99, "xanchor": "right",
                     "outlinewidth": 0, "tickvals": [0, 127.5, 255], "ticktext": [word for word, _ in colouring.key]},
    }  # fmt: skip
    parts = (255 * colouring.parts(bodies)[shown]).astype(np.uint8)
    return [trace(shown, {"color": parts, **(scale if whole else {})}, showlegend=False)]


def _layout() -> dict[str, Any]:
    axis = {"visible": False, "range": [-SEEN, SEEN], "autorange": False}
    return {
        "paper_bgcolor": SKY, "font": {"color": INK, "family": "system-ui, sans-serif"},
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "title": {"x": 0.02, "y": 0.97, "yanchor": "top", "font": {"size": 14, "color": INK}},
        "legend": {"x": 0.98, "y": 0.97, "xanchor": "right", "itemsizing": "constant", "font": {"size": 14}},
        "scene": {"xaxis": axis, "yaxis": axis, "zaxis": axis, "aspectmode": "cube", "bgcolor": SKY,
                  "dragmode": "orbit", "camera": {"eye": {"x": 0, "y": 0, "z": EYE}, "up": {"x": 0, "y": 1, "z": 0}}},
    }  # fmt: skip


def _css(colour: tuple[int, int, int]) -> str:
    return "rgb({},{},{})".format(*colour)
