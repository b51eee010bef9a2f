"""The tree of hashes over the files of a bundle: its root stands for every byte and every name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def root(digests: Mapping[str, str]) -> str:
    """Return the root over files, given the SHA-256 of each by its name, in hexadecimal digits.

    A leaf is the hash of a file's name and digest, a node that of its two children; files are sorted by name, and a
    node without a partner goes up as it is. Leaves and nodes begin with different bytes, so none stands for the other.
    """
    level = [
        hashlib.sha256(b"\0" + name.encode() + b"\0" + bytes.fromhex(digests[name])).digest()
        for name in sorted(digests)
    ]
    while len(level) > 1:
        level = [_node(level[place : place + 2]) for place in range(0, len(level), 2)]
    return level[0].hex() if level else digest(b"")


def _node(children: Sequence[bytes]) -> bytes:
    return children[0] if len(children) == 1 else hashlib.sha256(b"\1" + children[0] + children[1]).digest()
