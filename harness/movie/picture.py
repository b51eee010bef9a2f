"""A frame as a picture: each body adds light to a black sky, and a line of text says what is seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from gravbench.model.bodies import Bodies
from gravbench.movie.view import Array, Key, View

CROWDED = 0.99
"""Part of the pixels with bodies in them that are less bright at first than those that the exposure is made for."""
EXPOSURE = 6.0
"""Of these: 1 - exp(-EXPOSURE) of white."""
SOFT = 0.8
"""Radius of a body, in pixels."""
GLOW = 1 / 120
"""Radius of the glow around bodies, in parts of the picture's height."""
COARSE = 4
"""Pixels, each way, that one pixel of the glow stands for while it is drawn."""
SMALLEST_FONT = 8.0
INK, FAINT = (226, 232, 240), (132, 144, 160)


class Painter:
    """Draws the frames of one movie: the same part of space and the same exposure in all of them."""

    def __init__(self, view: View, size: tuple[int, int], title: str, key: Key) -> None:
        """Draw nothing yet: the first picture decides the exposure.

        ``size`` is width and height in pixels, ``title`` stands at the top of every picture, ``key`` explains the
        colours.
        """
        self.view = view
        self.size = width, height = size
        self.title = title
        self.key = key
        self._exposure: float | None = None
        largest = height / 42
        needed = ImageFont.load_default(largest).getlength(title) / (width - 2 * largest)
        self._font_size = max(SMALLEST_FONT, largest / max(needed, 1.0))
        self._font = ImageFont.load_default(self._font_size)

    def picture(self, bodies: Bodies, colours: Array, time: float) -> Image.Image:
        """Draw bodies with colours between 0 and 1, shape (n, 3); bodies out of view are left out."""
        light = self._light(bodies, colours)
        brightest = light.max(axis=0)
        if self._exposure is None:
            lit = brightest[brightest > 0]
            self._exposure = EXPOSURE / float(np.quantile(lit, CROWDED)) if lit.size else EXPOSURE
        # The same factor for the three colours: what is overexposed keeps its hue.
        exposed = -255 * np.expm1(-self._exposure * brightest) / np.maximum(brightest, np.finfo(np.float32).tiny)
        sharp = Image.merge("RGB", [Image.fromarray(channel) for channel in (exposed * light).astype(np.uint8)])
        soft = sharp.filter(ImageFilter.GaussianBlur(SOFT))
        dots = ImageChops.lighter(sharp, ImageChops.add(soft, soft))
        small = sharp.reduce(COARSE).filter(ImageFilter.GaussianBlur(GLOW * self.size[1] / COARSE))
        glow = small.resize(self.size, Image.Resampling.BILINEAR)
        drawn = ImageChops.screen(dots, ImageChops.add(glow, glow))
        self._write(drawn, time)
        return drawn

    def _light(self, bodies: Bodies, colours: Array) -> NDArray[np.float32]:
        """Add up the colours of the bodies in each pixel, shape (3, height, width).

        A body lies between four pixels and is shared among them, so that it moves smoothly.
        """
        width, height = self.size
        across, up, _ = self.view.turned(bodies).T
        x = (width + height * across) / 2 - 0.5
        y = height * (1 - up) / 2 - 0.5
        there = (x >= 0) & (x < width - 1) & (y >= 0) & (y < height - 1)
        x, y, colours = x[there], y[there], colours[there]
        column, row = x.astype(np.int64), y.astype(np.int64)
        x, y = x - column, y - row
        first = row * width + column
        pixels = np.concatenate([first, first + 1, first + width, first + width + 1])
        shares = np.concatenate([(1 - x) * (1 - y), x * (1 - y), (1 - x) * y, x * y])
        light = [np.bincount(pixels, shares * np.tile(channel, 4), height * width) for channel in colours.T]
        return np.array(light, np.float32).reshape(3, height, width)

    def _write(self, picture: Image.Image, time: float) -> None:
        """Write the title above, and the time and the key below."""
        width, height = self.size
        font, line = self._font, self._font_size
        draw = ImageDraw.Draw(picture)
        draw.text((line, line), self.title, FAINT, font, anchor="la")
        draw.text((line, height - line), f"t = {time:.2f}", INK, font, anchor="ls")
        right = width - line
        for word, colour in reversed(self.key):
            draw.text((right, height - line), word, FAINT, font, anchor="rs")
            right -= draw.textlength(word, font) + 0.9 * line
            draw.ellipse((right, height - 1.65 * line, right + 0.6 * line, height - 1.05 * line), fill=colour)
            right -= line
