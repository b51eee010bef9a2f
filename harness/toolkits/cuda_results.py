"""What launches leave on a GPU: filled before each of them and compared with what is right, without a copy to the host.

What it is compared and filled with lies in memory of its own.
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


@dataclass(frozen=True, slots=True)
class Part:
    """An array that launches write: of each row of ``width`` words the first ``used`` are results.

    ``result``, ``right`` and ``fillings`` are addresses on the device, of ``size`` bytes each.
    """

    result: int
    size: int
    width: int
    used: int
    right: int
    fillings: tuple[int, ...]


class CudaResults:
    """See ``gravbench.toolkits.interface.DeviceResults``; the launches go into one stream."""

    def __init__(self, parts: Sequence[Part], mark: int, stream: int) -> None:
        """``mark`` is the address of a word that is 0."""
        self._parts = parts
        self._mark = mark
        self._stream = stream

    def fill(self, number: int) -> None:
        for part in self._parts:
            driver.copy_within(part.result, part.fillings[number], part.size, self._stream)

    def differ(self) -> bool:
        for part in self._parts:
            words = part.size // WORD
            driver.compare(part.result, part.right, self._mark, words, part.width, part.used, self._stream)
        driver.synchronize()
        mark = np.zeros(1, np.uint32)
        driver.copy_out(mark, self._mark)
        if mark[0]:
            driver.copy_in(self._mark, np.zeros_like(mark))
            driver.synchronize()  # other streams do not wait for the copy
        return bool(mark[0])


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
    with driver.kept([np.zeros(1, np.uint32), *laid_out, *chain(*fillings)]) as (mark, *places):
        parts = []
        for place, (address, array) in enumerate(zip(known, laid_out, strict=True)):
            copied, *filled = places[place :: len(arrays)]
            width = array[0].nbytes // WORD
            parts.append(Part(address, array.nbytes, width, used[place], copied, tuple(filled)))
        yield CudaResults(parts, mark, stream)


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
