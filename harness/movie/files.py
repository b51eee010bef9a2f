"""The files that a movie can be: which endings there are, what each needs, and how pictures become MP4 and GIF."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.errors import InputError, nearest

if TYPE_CHECKING:
    from PIL.Image import Image

MP4, GIF, HTML = KINDS = (".mp4", ".gif", ".html")
LIBRARIES = {MP4: {"av": "PyAV", "PIL": "Pillow"}, GIF: {"PIL": "Pillow"}, HTML: {"plotly": "Plotly"}}
"""What each kind needs: modules and their names."""
QUALITY = "18"
"""Constant rate factor of x264: below it losses can hardly be seen."""
HUNDREDTHS = 100
"""Of a second, in which a GIF states how long a frame stays."""


def check(path: Path, fps: int) -> None:
    """See that a movie can be written to a file of this name, to play at ``fps`` frames per second.

    Raises:
        InputError: the ending is none of ``KINDS``, it is a folder, a library is missing, or a GIF cannot have ``fps``.
    """
    if path.suffix not in KINDS:
        end = path.suffix or "missing"
        raise InputError(f"--out {path}: the ending is {end}; {nearest(path.suffix, list(KINDS))}")
    if path.is_dir():
        raise InputError(f"--out {path}: a folder; accepted: a file that ends in {path.suffix}")
    missing = [name for module, name in LIBRARIES[path.suffix].items() if find_spec(module) is None]
    if missing:
        needed = " and ".join(missing)
        raise InputError(f"--out {path}: this needs {needed}; install them with: pip install 'gravbench[movie]'")
    if path.suffix == GIF and HUNDREDTHS % fps:
        exact = [str(centiseconds) for centiseconds in range(1, HUNDREDTHS // 2 + 1) if HUNDREDTHS % centiseconds == 0]
        raise InputError(
            f"--fps {fps}: a GIF shows each frame for a whole number of hundredths of a second; accepted: "
            f"{', '.join(exact)}"
        )


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give the block a file beside ``path`` to write, and move it there at its end; after an error it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        temporary.touch()  # what cannot be written is said before anything is computed
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_mp4(pictures: Iterable[Image], path: Path, fps: int) -> None:
    """Encode pictures of one size, even in width and height, as H.264 that every browser plays."""
    import av

    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        stream = None
        for picture in pictures:
            if stream is None:
                stream = container.add_stream("libx264", rate=Fraction(fps), options={"crf": QUALITY})
                stream.width, stream.height = picture.size
                stream.pix_fmt = "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        if stream is not None:
            container.mux(stream.encode())


def write_gif(pictures: Iterable[Image], path: Path, fps: int) -> None:
    """Write pictures, reduced to 256 colours each, as a GIF that begins again at its end; ``fps`` divides 100."""
    flat = (picture.quantize() for picture in pictures)
    (first,) = islice(flat, 1)
    first.save(path, save_all=True, append_images=flat, duration=1000 // fps, loop=0)
