"""What launches leave on a GPU: filled before each of them, kept, and compared with what is right, without the host.

What it is compared and filled with, and what is kept, lies in memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.toolkits import driver

WORD = 4
"""Bytes that are compared at a time."""
MOST_KEPT, MOST_KEPT_BYTES = 64, 16 << 20
"""Launches whose results are kept at a time, and the memory for these; one launch is kept in any case."""


@dataclass(frozen=True, slots=True)
class Part:
    """An array that launches write: of each row of ``width`` words the first ``used`` are results.

    ``result``, ``right`` and ``fillings`` are addresses on the device, of ``size`` bytes each. What launches leave is
    kept from the address ``kept`` on.
    """

    result: int
    size: int
    width: int
    used: int
    right: int
    fillings: tuple[int, ...]
    kept: int


class CudaResults:
    """See ``gravbench.toolkits.interface.DeviceResults``; the launches go into one stream."""

    def __init__(self, parts: Sequence[Part], marks: int, most: int, distance: int, stream: int) -> None:
        """Take the address of ``most`` words that are 0; of each part, places are ``distance`` bytes apart."""
        self.most = most
        self._parts = parts
        self._marks = marks
        self._distance = distance
        self._stream = stream

    def fill(self, number: int) -> None:
        for part in self._parts:
            driver.copy_within(part.result, part.fillings[number], part.size, self._stream)

    def keep(self, place: int) -> None:
        for part in self._parts:
            driver.copy_within(part.kept + place * self._distance, part.result, part.size, self._stream)

    def put_back(self, place: int) -> None:
        for part in self._parts:
            driver.copy_within(part.result, part.kept + place * self._distance, part.size, self._stream)
        driver.synchronize()  # other streams do not wait for the copy

    def differing(self, count: int) -> list[int]:
        for part in self._parts:
            shape = part.size // WORD, part.width, part.used
            driver.compare(part.kept, part.right, self._marks, self._distance, *shape, count, self._stream)
        driver.synchronize()
        marks = np.zeros(count, np.uint32)
        driver.copy_out(marks, self._marks)
        if marks.any():
            driver.copy_in(self._marks, np.zeros_like(marks))
            driver.synchronize()  # other streams do not wait for the copy
        return [int(place) for place in np.flatnonzero(marks)]


@contextmanager
def results_there(
    arrays: Sequence[Any], right: NDArray[Any], fillings: Sequence[Sequence[NDArray[Any]]], stream: int
) -> Iterator[CudaResults | None]:
    """Copy to the device what the results in its ``arrays`` are compared and filled with; yields None if it cannot be.

    The arrays are one of rows, or one for each number of a row: laid out as those of each of the ``fillings``, which
    are contiguous and on the host. ``right`` has shape (n, sums); what the arrays have beside these is not compared.
    """
    addresses = [_address(array, likes) for array, *likes in zip(arrays, *fillings, strict=True)]
    known = [address for address in addresses if address is not None]
    if len(known) < len(arrays):
        yield None
        return
    laid_out, used = list(map(np.zeros_like, fillings[0])), []
    for place, array in enumerate(laid_out):
        columns = right if len(laid_out) == 1 else right[:, place : place + 1]
        array.reshape(len(right), -1)[:, : columns.shape[1]] = columns
        used.append(columns.shape[1] * array.itemsize // WORD)
    *starts, distance = driver.starts_of(laid_out)
    most = max(1, min(MOST_KEPT, MOST_KEPT_BYTES // distance))
    copied = [np.zeros(most, np.uint32), *laid_out, *chain(*fillings)]
    with driver.kept(copied) as (marks, *places), driver.allocated(most * distance) as memory:
        parts = []
        for place, (address, array) in enumerate(zip(known, laid_out, strict=True)):
            expected, *filled = places[place :: len(arrays)]
            width = array[0].nbytes // WORD
            start = memory + starts[place]
            parts.append(Part(address, array.nbytes, width, used[place], expected, tuple(filled), start))
        yield CudaResults(parts, marks, most, distance, stream)


def _address(array: Any, likes: Sequence[NDArray[Any]]) -> int | None:
    """Return where a device array begins; None where it is not laid out as these arrays of the host are."""
    described = getattr(array, "__cuda_array_interface__", None)
    if described is None:
        return None
    layouts = {(like.shape, like.dtype.str, like.strides) for like in likes}
    strides = described.get("strides") or likes[0].strides
    if layouts != {(tuple(described["shape"]), described["typestr"], tuple(strides))}:
        return None
    return int(described["data"][0])
