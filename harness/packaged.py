"""Find what comes with gravbench beside its code: the folders of data, and the runs of a clone."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SOURCES = "harness"
"""What the folder of the package is called in a clone; installed, it is called as the package."""


def folder(package: str) -> Path:
    """Return the folder of a package, for example ``gravbench.configs``, wherever it is installed."""
    return Path(str(files(package))).resolve()


def runs_of_the_clone() -> Path | None:
    """Return the folder ``reports`` of the clone that gravbench runs from.

    It is None in a plain installation, which has the packages alone: the records take more than 20 MB.
    """
    package = folder("gravbench")
    reports = package.parent / "reports"
    return reports if package.name == SOURCES and reports.is_dir() else None
