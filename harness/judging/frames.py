"""How the judge and the process that launches an entry speak: frames of a few facts as JSON, and bytes.

What comes back is not trusted: device code may have changed the memory of the process that sends it. So a frame is
parsed as data of a limited size, and nothing in it is executed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_HEAD = struct.Struct("<IQ")
MOST_FACTS = 1 << 20
"""Bytes of the JSON of an answer."""

Facts = Mapping[str, Any]


class FrameError(ValueError):
    """What came is no frame."""


def pack(facts: Facts, contents: Iterable[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """Return what to write for a frame, piece by piece."""
    text, pieces = json.dumps(facts).encode(), list(contents)
    return [_HEAD.pack(len(text), sum(len(piece) for piece in pieces)), text, *pieces]


def unpack(read: Callable[[int], bytes], *, most_facts: int, most_content: int) -> tuple[dict[str, Any], bytes]:
    """Return the facts and the bytes of the next frame; ``read`` returns exactly so many bytes.

    Raises:
        FrameError: it is larger than allowed, or its facts are no JSON object.
        EOFError: the other side is gone.
    """
    facts_size, content_size = _HEAD.unpack(read(_HEAD.size))
    if facts_size > most_facts or content_size > most_content:
        raise FrameError(f"a frame of {facts_size:,} and {content_size:,} bytes")
    try:
        facts = json.loads(read(facts_size))
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise FrameError("a frame whose facts are no JSON object")
    return facts, read(content_size)
