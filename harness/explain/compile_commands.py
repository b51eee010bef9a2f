"""Write compile_commands.json for the CUDA C of a clone, so that clangd follows its includes and knows its macros.

Each .cu file has one command: that of its main kernel, with the default of each axis. The text that is generated from
the interaction is written too, to a file that git ignores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gravbench.errors import InputError, exit_code_of
from gravbench.explain.standalone import built_of
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import BUILT_IN, CUDA_C, HEADER, SHARED
from gravbench.model.variant import discover
from gravbench.packaged import runs_of_the_clone
from gravbench.toolkits import host_arrays
from gravbench.toolkits.parts import BLOCK
from gravbench.toolkits.row_sums import ROWS

FILE = "compile_commands.json"
GENERATED = Path("build", "gravity.cuh")
"""The rows and the function of the interaction, from the root of the clone."""
CLANG = (
    *("clang++", "-x", "cuda", "--cuda-gpu-arch=sm_90", "--cuda-device-only"),
    *("-std=c++17", "-Wno-unknown-cuda-version"),
)
"""What clangd is told of the language; nothing is run."""
PARTS: Mapping[str, Mapping[str, int]] = {
    "force_between": {"P": BLOCK},
    "force_on_rows": {"P": BLOCK, "ROWS": ROWS},
    "lay_out_bodies": {"P": host_arrays.BLOCK, "SINGLE": 1},
    "integrate": {"BODY_STRIDE": 4, "ACCELERATION_STRIDE": 4},
}
"""The constants of the parts, for rows of four numbers."""


def commands(root: Path) -> list[dict[str, object]]:
    """Return the entries of the file: of each .cu file of ``variants`` and ``harness``, the folder and the command."""
    header = ["-include", str(SHARED / HEADER), "-include", str(root / GENERATED), "-I", str(SHARED)]
    entries = [_entry(root, path, header, constants) for path, constants in _stems()]
    return [*entries, *(_entry(root, path, [], {}) for path in sorted((root / "harness").rglob(f"*{CUDA_C}")))]


def _stems() -> Iterator[tuple[Path, Mapping[str, int]]]:
    """Give the CUDA C of each variant and each part, and the constants of its main kernel."""
    gravity = find(GRAVITY)
    for variant in discover().values():
        if variant.has_cuda_c:
            yield variant.path.with_suffix(CUDA_C), built_of(variant, gravity)[0].constants
    for name, constants in PARTS.items():
        yield BUILT_IN / "parts" / f"{name}{CUDA_C}", constants


def _entry(root: Path, path: Path, options: Sequence[str], constants: Mapping[str, int]) -> dict[str, object]:
    defined = [f"-D{name}={value}" for name, value in constants.items()]
    return {"directory": str(root), "file": str(path), "arguments": [*CLANG, *options, *defined, str(path)]}


def write(root: Path) -> Path:
    """Write the file and the generated text below the root of a clone; returns the file."""
    generated = root / GENERATED
    generated.parent.mkdir(exist_ok=True)
    generated.write_text(find(GRAVITY).cuda_source(), "utf-8")
    path = root / FILE
    path.write_text(json.dumps(commands(root), indent=1) + "\n", "utf-8")
    return path


def main(words: Sequence[str] | None = None) -> int:
    """Write the file for the clone that gravbench runs from; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gravbench.explain.compile_commands", description=__doc__)
    parser.parse_args(words)

    def work() -> None:
        if (reports := runs_of_the_clone()) is None:
            raise InputError(f"{BUILT_IN}: no clone of gravbench; accepted: an editable installation of one")
        sys.stdout.write(f"{write(reports.parent)}\n")

    return exit_code_of(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
