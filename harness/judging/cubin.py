"""What a cubin, which is an ELF file, says of its sections."""

from __future__ import annotations

import struct

GLOBAL = b".nv.global"
"""How the sections of variables in global memory begin: those that are zero at first, and others."""


def global_bytes(code: bytes) -> int:
    """Return the bytes of all ``__device__`` variables of a binary.

    Raises:
        ValueError: it is no ELF file of 64 bits, or is cut off.
    """
    if code[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
    try:
        (table,) = struct.unpack_from("<Q", code, 40)
        size, count, names = struct.unpack_from("<HHH", code, 58)
        # name, type, flags, address, offset, size
        sections = [struct.unpack_from("<IIQQQQ", code, table + size * number) for number in range(count)]
        texts = sections[names][4]
        return sum(section[5] for section in sections if code[texts + section[0] :].startswith(GLOBAL))
    except (struct.error, IndexError):
        raise ValueError("an ELF file that is cut off") from None
