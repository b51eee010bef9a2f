"""Find the folders of data that are installed with gravbench."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def folder(package: str) -> Path:
    """Return the folder of a package, for example ``gravbench.configs``, wherever it is installed."""
    return Path(str(files(package))).resolve()
