"""Direct sums over all rows, computed once: the first process that needs them leaves them to those beside it.

For a million bodies they take seconds, and a run has a new process for each repetition of its anchor.
"""

from __future__ import annotations

import hashlib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from gravbench.model.bodies import Bodies
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Dtype
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.verifying.direct_sums import Sums, direct_sums, formulas


@dataclass(slots=True)
class Shared:
    """Where processes of one run leave their sums to each other; nowhere unless ``folder`` is set."""

    folder: Path | None = None


SHARED = Shared()


def sums_over_all(interaction: Interaction, bodies: Bodies, dtype: Dtype, *, device_sums: DeviceSums | None) -> Sums:
    """Return the direct sums of all bodies; compute them unless another process has left them."""
    path = _path(interaction, bodies, dtype, device_sums=device_sums)
    # A file that is not there, or is not whole, costs the time to compute what it would have said.
    if path:
        with suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile), path.open("rb") as file:
            kept = np.load(file)
            return Sums(kept["exact"], kept["magnitudes"], kept["plain"])
    sums = direct_sums(interaction, bodies, np.arange(bodies.n), dtype, device_sums=device_sums)
    if path:
        with suppress(OSError):
            with NamedTemporaryFile(dir=path.parent, delete=False) as written:
                np.savez(written, exact=sums.exact, magnitudes=sums.magnitudes, plain=sums.plain)
            Path(written.name).replace(path)
    return sums


def _path(interaction: Interaction, bodies: Bodies, dtype: Dtype, *, device_sums: DeviceSums | None) -> Path | None:
    if SHARED.folder is None:
        return None
    digest = hashlib.sha256()
    for text in (*formulas(interaction, dtype), dtype, str(device_sums is not None), bodies.sha256):
        digest.update(text.encode() + b"\n")
    return SHARED.folder / f"{digest.hexdigest()}.npz"
