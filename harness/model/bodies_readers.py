"""Read masses, positions and velocities from a file: NEMO table, Tipsy binary, or our own ``.npz``.

Every reader checks what it read and names the first place that is wrong: the line of a text, the byte of a
binary, the element of an array.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import os
import struct
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from gravbench.errors import InputError, shortened
from gravbench.model import files
from gravbench.model.bodies import Arrays, Floats

ARRAYS = ("mass", "position", "velocity")
COLUMNS = ("mass", "x", "y", "z", "vx", "vy", "vz")
MOST_BODIES = 2**22
"""Of a file: four times as many as are measured here."""
_BYTES_OF_A_BODY = 192  # on average: seven numbers of all digits, and as much again of blanks and comments
_LINES_OF_A_BODY = 2  # on average: one of them a comment
_MOST_IN_MEMBER = MOST_BODIES * 3 * 16 + 2**16  # of an archive: three numbers of the widest type, and a header
_PIECE = 2**16
_NPY = b"\x93NUMPY"  # how an array begins that is in no archive
_SHOWN = 40  # characters of a faulty word that a message quotes


def read(path: Path) -> Arrays:
    """Read one file with the reader that its name's suffix chooses.

    Returns:
        mass (n,), position (n, 3) and velocity (n, 3), float64, finite, every mass greater than zero,
        in the file's own units, which are taken to have G = 1.

    Raises:
        InputError: the file is missing, no regular file, empty or truncated, its suffix is none of ``SUFFIXES``, it
            has more than ``MOST_BODIES``, or something in it is not an acceptable number; the sentence says where.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises an error where a name is too long
        raise InputError(f"{path}: a directory; accepted: a file named *{', *'.join(SUFFIXES)}")
    reader = next((reader for suffix, reader in _READERS.items() if path.name.lower().endswith(suffix)), None)
    if reader is None:
        suffix = shortened(path.suffix) or "(none)"
        raise InputError(f"{path}: unknown suffix {suffix!r}; accepted: {', '.join(SUFFIXES)}")
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
    _measure(path)
    with _text(path) as lines:
        first = next(filter(None, (line.partition("#")[0].split() for line in lines)), None)
    if first is None:
        raise InputError(f"{path}: holds no bodies; accepted: lines of {' '.join(COLUMNS)}")
    table: Floats | None = None
    if len(first) == len(COLUMNS):
        with contextlib.suppress(ValueError), _text(path) as lines:
            table = np.loadtxt(lines, dtype=np.float64, comments="#", ndmin=2)
    if table is None or _first_fault(table) is not None:
        with _text(path) as lines:
            table = _read_line_by_line(path, lines)
    if len(table) > MOST_BODIES:
        raise InputError(f"{path}: {len(table)} bodies; accepted: up to {MOST_BODIES}")
    return table


def read_tipsy(path: Path) -> Floats:
    """Read a Tipsy binary, little- or big-endian: header, gas, dark and star particles in this order.

    The header is a double (time) and the int32 nbodies, ndim, nsph, ndark, nstar and padding; each particle
    begins with the seven float32 of ``COLUMNS``, and what follows them is not read.

    Returns:
        An array of shape (n, 7).

    Raises:
        InputError: see ``read``; names the byte, counted from 0.
    """
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size < _TIPSY_HEADER:
            raise InputError(f"{path}: ends at byte {size}; accepted: a Tipsy header of {_TIPSY_HEADER} bytes")
        order, counts = _tipsy_counts(path, file.read(_TIPSY_HEADER))
        needed = _TIPSY_HEADER + sum(count * size for count, size in zip(counts, _TIPSY_SIZES, strict=True))
        if size != needed:
            raise InputError(
                f"{path}: ends at byte {size}; accepted: {needed} bytes for the "
                f"{counts[0]} gas, {counts[1]} dark and {counts[2]} star particles of its header"
            )
        content = file.read(needed - _TIPSY_HEADER)
    parts: list[Floats] = []
    offset = 0
    for count, size in zip(counts, _TIPSY_SIZES, strict=True):
        words = np.frombuffer(content, f"{order}f4", count * size // 4, offset).reshape(count, size // 4)
        with np.errstate(invalid="ignore"):  # a signalling NaN warns when it is cast; it is reported below
            part = words[:, : len(COLUMNS)].astype(np.float64)
        if (fault := _first_fault(part)) is not None:
            row, column = fault
            byte = _TIPSY_HEADER + offset + row * size + 4 * column
            raise _refused(path, f"byte {byte}: {COLUMNS[column]}", column, part[fault])
        parts.append(part)
        offset += count * size
    return np.concatenate(parts)


def _tipsy_counts(path: Path, content: bytes) -> tuple[str, list[int]]:
    """Read a header: the byte order and the numbers of gas, dark and star particles."""
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
    if n > MOST_BODIES:
        raise InputError(f"{path}: byte 8: {n} bodies; accepted: up to {MOST_BODIES}")
    return order, counts


def read_npz(path: Path) -> Floats:
    """Read the arrays ``mass`` (n,), ``position`` (n, 3) and ``velocity`` (n, 3) of a NumPy archive.

    Returns:
        An array of shape (n, 7).

    Raises:
        InputError: see ``read``; names the array and its element.
    """
    accepted = f"accepted: a NumPy archive of {', '.join(ARRAYS)}"
    with _opened(path) as file:
        if file.peek(len(_NPY))[: len(_NPY)] == _NPY:
            raise InputError(f"{path}: a single array; {accepted}")
        try:
            archive = np.load(file, allow_pickle=False)
            with archive:
                if missing := [name for name in ARRAYS if name not in archive]:
                    raise InputError(f"{path}: has no array {missing[0]!r}; {accepted}")
                for member in archive.zip.infolist():
                    if member.filename.removesuffix(".npy") in ARRAYS and member.file_size > _MOST_IN_MEMBER:
                        unpacked_size = f"{member.filename} has {member.file_size} bytes unpacked"
                        raise InputError(
                            f"{path}: {unpacked_size}; accepted: up to {_MOST_IN_MEMBER}, of {MOST_BODIES} bodies"
                        )
                arrays = {name: archive[name] for name in ARRAYS}
        except InputError:
            raise
        except _DAMAGED as error:
            size = os.fstat(file.fileno()).st_size
            raise InputError(f"{path}: truncated, damaged, or not an archive ({size} bytes); {accepted}") from error
    for name, member in arrays.items():
        if not isinstance(member, np.ndarray):  # NumPy hands back the bytes of a member that holds no array
            raise InputError(f"{path}: {name} is not an array; {accepted}")
    n = arrays["mass"].size
    if n == 0:
        raise InputError(f"{path}: holds no bodies; accepted: at least one")
    if n > MOST_BODIES:
        raise InputError(f"{path}: mass has {n} bodies; accepted: up to {MOST_BODIES}")
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


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    try:
        with files.opened(path) as file:
            if not file.peek(1):
                raise InputError(f"{path}: empty (0 bytes); accepted: a file with at least one body")
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a text, whether or not it is gzipped, to read its bytes in pieces."""
    with _opened(path) as file:
        if path.suffix.lower() != ".gz":
            yield file
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked
        except EOFError as error:
            size = os.fstat(file.fileno()).st_size
            raise InputError(f"{path}: truncated: ends at byte {size}, before its gzip data do") from error
        except (OSError, zlib.error) as error:
            raise InputError(f"{path}: damaged, or not gzip data ({error}); accepted: a gzipped text") from error


@contextlib.contextmanager
def _text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open a text to read its lines, whatever they end with."""
    with _unpacked(path) as content:
        yield io.TextIOWrapper(content, "utf-8-sig", errors="replace", newline=None)


def _measure(path: Path) -> None:
    """Read a text in pieces and keep none, so that a small file does not become a large one in memory."""
    accepted = f"accepted: up to {MOST_BODIES} lines of {' '.join(COLUMNS)}"
    with _unpacked(path) as content:
        size = lines = 0
        while piece := content.read(_PIECE):
            ends = piece.count(b"\n") or piece.count(b"\r")
            if len(piece) == _PIECE and not ends:
                raise InputError(f"{path}: no line ends between bytes {size} and {size + _PIECE}; {accepted}")
            size += len(piece)
            lines += ends
            for count, most, what in (
                (size, MOST_BODIES * _BYTES_OF_A_BODY, "bytes, unpacked"),
                (lines, MOST_BODIES * _LINES_OF_A_BODY, "lines"),
            ):
                if count > most:
                    raise InputError(f"{path}: more than {most} {what}; {accepted}")


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


def _read_line_by_line(path: Path, lines: Iterable[str]) -> Floats:
    """Read what the fast way refused, slowly, and raise at the first line that is wrong."""
    values = array("d")
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != len(COLUMNS):
            raise InputError(
                f"{path}: line {number} has {len(words)} word{'s' * (len(words) != 1)}; "
                f"accepted: the {len(COLUMNS)} numbers {' '.join(COLUMNS)}, separated by blanks"
            )
        values.extend(_numbers(path, number, line, words))
    return np.array(values).reshape(-1, len(COLUMNS))


def _numbers(path: Path, number: int, line: str, words: list[str]) -> list[float]:
    with contextlib.suppress(ValueError):
        # float() also takes 1_000 and the digits of other scripts, which nobody means in a table.
        numbers = list(map(float, words)) if line.isascii() and "_" not in line else []
        if numbers and numbers[0] > 0 and all(map(math.isfinite, numbers)):
            return numbers
    numbers = []
    for column, word in enumerate(words):
        try:
            numbers.append(float(word if word.isascii() and "_" not in word else ""))
            wanted = _wanted(column, numbers[-1])
        except ValueError:
            wanted = "a number"
        if wanted is not None:
            raise InputError(
                f"{path}: line {number}: {COLUMNS[column]} is {word[:_SHOWN]!r} where {wanted} is accepted"
            )
    return numbers
