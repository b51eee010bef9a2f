"""Where a run took place: what a record and ``environment.json`` say of the machine, its software and the sources."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from gravbench.model import sources
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.method import METHOD
from gravbench.model.record import Fingerprint
from gravbench.model.toolkits import catalogue, versions
from gravbench.model.variant import Variant
from gravbench.packaged import folder
from gravbench.toolkits.devices import families, family, processor_name
from gravbench.version import VERSION

ROOT = folder("gravbench").parent
SOURCES = ("harness", "variants")
OTHER_PACKAGES = ("scipy", "pydantic")
"""Beside those that toolkits and families of devices name."""


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, cwd=ROOT)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@lru_cache
def commit() -> str | None:
    """Return the commit of the sources that run, with ``+changes`` where they differ from it.

    None where the sources are not a git checkout.
    """
    if _output("git", "rev-parse", "--show-toplevel") != str(ROOT):
        return None
    head = _output("git", "rev-parse", "HEAD")
    changes = _output("git", "status", "--porcelain", "--", *SOURCES)
    return f"{head}+changes" if head and changes else head


@lru_cache
def nvcc() -> str | None:
    """Return the path and the version of the nvcc that PyCUDA would call."""
    path = shutil.which("nvcc")
    version = _output(path, "--version") if path else None
    if version is None:
        return None
    lines = [line for line in version.splitlines() if "release" in line]
    return f"{path}: {lines[-1] if lines else version.splitlines()[-1]}"


def packages() -> dict[str, str]:
    """Return the versions of the installed packages that can change a result."""
    of_toolkits = [name for entry in catalogue().values() for name in (*entry.distributions, *entry.companions)]
    of_families = [name for each in families() for name in family(each).distributions]
    named = tuple(dict.fromkeys([*of_toolkits, *OTHER_PACKAGES, *of_families]))
    return dict(words.split(" ", 1) for words in versions(named))


def needed(paths: Sequence[Path]) -> dict[str, str]:
    """Name what has to be the same on every machine that measures: versions, and the contents of sources and files."""
    digests = " ".join(_digest(folder(name)) for name in ("gravbench", "gravbench.variants"))
    own = {"gravbench": f"{VERSION}, sources {digests}", "python": platform.python_version()}
    calls_nvcc = any(entry.nvcc and entry.version for entry in catalogue().values())
    compilers = {"nvcc": nvcc() or "none"} if calls_nvcc else {}
    return own | packages() | compilers | {str(path): _digest(path) for path in paths}


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Say in what is ``needed`` another machine differs from this one."""
    return [
        f"{name} {there.get(name, 'none')} where {here.get(name, 'none')} is here"
        for name in dict.fromkeys([*here, *there])
        if there.get(name) != here.get(name)
    ]


def _digest(path: Path) -> str:
    """Hash a file, or the sources in a folder."""
    suffixes = {".py", ".cu", ".cuh"} | {entry.suffix for entry in catalogue().values() if entry.suffix}
    files = sorted(file for file in path.rglob("*") if file.suffix in suffixes) if path.is_dir() else [path]
    digest = sha256()
    try:
        for file in files:
            digest.update(str(file.relative_to(path)).encode() + file.read_bytes())
    except OSError:
        return "that cannot be read"
    return digest.hexdigest()[:8]


def fingerprint(case: Case, variant: Variant, device: Device | None) -> Fingerprint:
    """Return what the case's result depends on, as far as it can be known without opening the device."""
    entry = catalogue()[case.toolkit]
    return Fingerprint(
        method=METHOD,
        code_sha256=sources.code_sha256(case, variant),
        flags=list(entry.flags),
        # nvcc is no package but whatever is on PATH.
        toolkit_version=f"{entry.version}, {nvcc()}" if entry.nvcc and entry.version else entry.version,
        driver=device.driver if device else None,
        device=device.name if device else None,
        device_uuid=device.uuid if device else None,
    )


def describe(devices: list[Device], arguments: Sequence[str]) -> dict[str, Any]:
    """Return what ``environment.json`` holds; ``arguments`` are those of the ``gravbench`` command."""
    return {
        "command": shlex.join(["gravbench", *arguments]),
        "harness_version": VERSION,
        "commit": commit(),
        "devices": [asdict(device) for device in devices],
        "processor": processor_name(),
        "operating_system": platform.platform(),
        "python": sys.version,
        "packages": packages(),
        "nvcc": nvcc(),
        "environment_variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_variables()) and value
        },
    }


def _variables() -> tuple[str, ...]:
    """List how the names of environment variables begin that may change a result."""
    of_families = [name for each in families() for name in family(each).variables]
    return (*of_families, *(name for entry in catalogue().values() for name in entry.variables))
