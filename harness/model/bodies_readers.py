"""Read masses, positions and velocities from a file: NEMO table, Tipsy binary, or our own ``.npz``.

Every reader checks what it read and names the first place that is wrong: the line of a text, the byte of a
binary, the element of an array.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gravbench.errors import InputError
from gravbench.model.bodies import Arrays, Floats

ARRAYS = ("mass", "position", "velocity")
COLUMNS = ("mass", "x", "y", "z", "vx", "vy", "vz")
_SHOWN = 40  # characters of a faulty word that a message quotes


def read(path: Path) -> Arrays:
    """Read one file with the reader that its name's suffix chooses.

    Returns:
        mass (n,), position (n, 3) and velocity (n, 3), float64, finite, every mass greater than zero,
        in the file's own units, which are taken to have G = 1.

    Raises:
        InputError: the file is missing, a directory, empty or truncated, its suffix is none of ``SUFFIXES``,
            or something in it is not an acceptable number; the sentence says where.
    """
    if path.is_dir():
        raise InputError(f"{path}: a directory; accepted: a file named *{', *'.join(SUFFIXES)}")
    reader = next((reader for suffix, reader in _READERS.items() if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise InputError(f"{path}: unknown suffix {path.suffix or '(none)'!r}; accepted: {', '.join(SUFFIXES)}")
    table = reader(path)
    return table[:, 0].copy(), table[:, 1:4].copy(), table[:, 4:].copy()


def read_table(path: Path) -> Floats:
    """Read a NEMO table: one line ``mass x y z vx vy vz`` per body, plain or gzipped.

    Blank lines are skipped, and so is everything from a ``#`` to the end of its line.

    Returns:
        An array of shape (n, 7), the columns as in the file.

    Raises:
        InputError: see ``read``; names the line, counted from 1.
    """
    content = _content(path)
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except EOFError as error:
            raise InputError(f"{path}: truncated: ends at byte {len(content)}, before its gzip data do") from error
        except (OSError, zlib.error) as error:
            raise InputError(f"{path}: damaged, or not gzip data ({error}); accepted: a gzipped text") from error
    text = content.decode("utf-8-sig", errors="replace")
    if not any(line.partition("#")[0].strip() for line in io.StringIO(text, newline=None)):
        raise InputError(f"{path}: holds no bodies; accepted: lines of {' '.join(COLUMNS)}")
    with contextlib.suppress(ValueError):
        table: Floats = np.loadtxt(io.StringIO(text, newline=None), dtype=np.float64, comments="#", ndmin=2)
        if table.shape[1] == len(COLUMNS) and _first_fault(table) is None:
            return table
    return _read_line_by_line(path, text)


def read_tipsy(path: Path) -> Floats:
    """Read a Tipsy binary, little- or big-endian: header, gas, dark and star particles in this order.

    The header is a double (time) and the int32 nbodies, ndim, nsph, ndark, nstar and padding; each particle
    begins with the seven float32 of ``COLUMNS``, and what follows them is not read.

    Returns:
        An array of shape (n, 7).

    Raises:
        InputError: see ``read``; names the byte, counted from 0.
    """
    content = _content(path)
    if len(content) < _TIPSY_HEADER:
        raise InputError(f"{path}: ends at byte {len(content)}; accepted: a Tipsy header of {_TIPSY_HEADER} bytes")
    # The byte order is the one in which the number of dimensions is 3.
    headers = {order: struct.unpack_from(f"{order}d6i", content) for order in "<>"}
    order = next((order for order, header in headers.items() if header[2] == 3), None)
    if order is None:
        raise InputError(
            f"{path}: byte 12: the number of dimensions is {headers['<'][2]} little-endian and {headers['>'][2]} "
            f"big-endian; accepted: 3, in a Tipsy header"
        )
    _, n, _, *counts, _ = headers[order]
    if min(counts) < 0 or sum(counts) != n:
        raise InputError(
            f"{path}: byte 8: {n} bodies, but byte 16: {counts[0]} gas, {counts[1]} dark and {counts[2]} star "
            f"particles; accepted: counts of zero or more that add up"
        )
    if n == 0:
        raise InputError(f"{path}: byte 8: 0 bodies; accepted: at least one")
    needed = _TIPSY_HEADER + sum(count * size for count, size in zip(counts, _TIPSY_SIZES, strict=True))
    if len(content) != needed:
        raise InputError(
            f"{path}: ends at byte {len(content)}; accepted: {needed} bytes for the "
            f"{counts[0]} gas, {counts[1]} dark and {counts[2]} star particles of its header"
        )
    parts: list[Floats] = []
    offset = _TIPSY_HEADER
    for count, size in zip(counts, _TIPSY_SIZES, strict=True):
        words = np.frombuffer(content, f"{order}f4", count * size // 4, offset).reshape(count, size // 4)
        with np.errstate(invalid="ignore"):  # a signalling NaN warns when it is cast; it is reported below
            part = words[:, : len(COLUMNS)].astype(np.float64)
        if (fault := _first_fault(part)) is not None:
            row, column = fault
            raise _refused(path, f"byte {offset + row * size + 4 * column}: {COLUMNS[column]}", column, part[fault])
        parts.append(part)
        offset += count * size
    return np.concatenate(parts)


def read_npz(path: Path) -> Floats:
    """Read the arrays ``mass`` (n,), ``position`` (n, 3) and ``velocity`` (n, 3) of a NumPy archive.

    Returns:
        An array of shape (n, 7).

    Raises:
        InputError: see ``read``; names the array and its element.
    """
    content = _content(path)
    accepted = f"accepted: a NumPy archive of {', '.join(ARRAYS)}"
    try:
        archive = np.load(io.BytesIO(content), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"{path}: a single array; {accepted}")
        with archive:
            if missing := [name for name in ARRAYS if name not in archive]:
                raise InputError(f"{path}: has no array {missing[0]!r}; {accepted}")
            arrays = {name: archive[name] for name in ARRAYS}
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{path}: truncated, damaged, or no archive ({len(content)} bytes); {accepted}") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy hands back the bytes of a member that holds no array
            raise InputError(f"{path}: {name} is no array; {accepted}")
    n = arrays["mass"].size
    if n == 0:
        raise InputError(f"{path}: holds no bodies; accepted: at least one")
    for name, shape in zip(ARRAYS, ((n,), (n, 3), (n, 3)), strict=True):
        if arrays[name].shape != shape or arrays[name].dtype.kind not in "fiu":
            raise InputError(
                f"{path}: {name} has shape {arrays[name].shape} and type {arrays[name].dtype}; "
                f"accepted: shape {shape} and real numbers"
            )
    with np.errstate(over="ignore", invalid="ignore"):  # what float64 cannot hold is reported below
        table = np.column_stack([arrays[name].astype(np.float64) for name in ARRAYS])
    if (fault := _first_fault(table)) is not None:
        row, column = fault
        place = f"[{row}, {(column - 1) % 3}]" if column else f"[{row}]"
        raise _refused(path, f"{ARRAYS[(column + 2) // 3]}{place}", column, table[fault])
    return table


_READERS: dict[str, Callable[[Path], Floats]] = {
    **dict.fromkeys((".tab", ".txt", ".dat", ".tab.gz", ".txt.gz", ".dat.gz"), read_table),
    **dict.fromkeys((".bin", ".tipsy", ".std"), read_tipsy),
    ".npz": read_npz,
}
SUFFIXES = tuple(_READERS)

_TIPSY_HEADER = 32
_TIPSY_SIZES = (48, 36, 44)  # bytes of a gas, a dark and a star particle
# Everything that NumPy and zipfile raise for an archive that is cut, damaged or no archive at all.
_DAMAGED = (
    *(ValueError, TypeError, KeyError, EOFError, OSError, MemoryError, RuntimeError, OverflowError),
    *(struct.error, zlib.error, zipfile.BadZipFile),
)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not content:
        raise InputError(f"{path}: empty (0 bytes); accepted: a file with at least one body")
    return content


def _wanted(column: int, value: float) -> str | None:
    """Say what is accepted in place of ``value``, or None when it is acceptable."""
    if not math.isfinite(value):
        return "a finite number"
    return "a number greater than zero" if column == 0 and value <= 0 else None


def _refused(path: Path, place: str, column: int, value: np.float64) -> InputError:
    return InputError(f"{path}: {place} is {value} where {_wanted(column, value)} is accepted")


def _first_fault(table: Floats) -> tuple[int, int] | None:
    """Find the first row and its first column whose value is not finite, or is a mass not above zero."""
    faulty = ~np.isfinite(table)
    faulty[:, 0] |= table[:, 0] <= 0
    if not faulty.any():
        return None
    row, column = divmod(int(np.argmax(faulty)), table.shape[1])
    return row, column


def _read_line_by_line(path: Path, text: str) -> Floats:
    """Read what the fast way refused, slowly, and raise at the first line that is wrong."""
    rows: list[list[float]] = []
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != len(COLUMNS):
            raise InputError(
                f"{path}: line {number} has {len(words)} word{'s' * (len(words) != 1)}; "
                f"accepted: the {len(COLUMNS)} numbers {' '.join(COLUMNS)}, separated by blanks"
            )
        rows.append([])
        for column, word in enumerate(words):
            # float() also takes 1_000 and the digits of other scripts, which nobody means in a table.
            plain = word.isascii() and "_" not in word
            try:
                rows[-1].append(float(word if plain else ""))
                wanted = _wanted(column, rows[-1][-1])
            except ValueError:
                wanted = "a number"
            if wanted is not None:
                raise InputError(
                    f"{path}: line {number}: {COLUMNS[column]} is {word[:_SHOWN]!r} where {wanted} is accepted"
                )
    return np.array(rows)
