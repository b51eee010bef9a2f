"""The complete WGSL of a kernel, for WebGPU: made without a device and without any library.

The file ``STEM.wgsl`` of a variant is WGSL, but for what stands before it here: the constants of the kernel, as lines
``const P: i32 = 256;``, and what is generated from the file of the interaction. WGSL has no preprocessor, and no way to
ask for unrolling. So a loop whose first line ends with ``// unrolled`` is written out, its counter replaced by numbers:
an array of a thread then has constant indices, and stays in registers. Without that comment the text computes the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import files
from gravbench.model.interaction import Interaction

SUFFIX = ".wgsl"
THREADS = "THREADS"
"""The constant that every kernel has: the threads of its blocks, which WGSL calls the size of a workgroup."""
SUBGROUPS = "enable subgroups;"
"""The line with which a kernel asks for what the threads of a subgroup do together."""
_LOOP = re.compile(r"( *)for \(var (\w+) = 0; \2 < (\w+); \2\+\+\) \{ +// unrolled")


def entry_points(text: str, kernel: str) -> list[str]:
    """Name what one launch of a kernel runs, one behind the other: ``kernel`` and, where it is there, ``kernel_then``.

    WebGPU orders what blocks do only from one dispatch to the next, so what needs the results of all blocks is an entry
    point of its own. It has as many blocks, and the same arrays and numbers.
    """
    then = f"{kernel}_then"
    return [kernel, *([then] if re.search(rf"^fn {then}\(", text, re.MULTILINE) else [])]


def source(path: Path, interaction: Interaction) -> str:
    """Join the interaction in WGSL and a file of WGSL, without the constants: the code that identifies a kernel."""
    return f"{interaction.wgsl_source()}\n{files.text(path)}"


def kernel_text(path: Path, interaction: Interaction, constants: Mapping[str, int]) -> str:
    """Return all that is compiled of a file of WGSL.

    ``constants`` are those that the kernel is compiled with, ``THREADS`` among them.

    Raises:
        InputError: a loop that is to be unrolled has a length that is no constant, or does not end.
    """
    head, stem = divided(files.text(path), constants)
    body = "\n".join(_unrolled(stem.splitlines(), constants, str(path)))
    return f"{head}\n{interaction.wgsl_source()}\n{body}\n"


def divided(stem: str, constants: Mapping[str, int]) -> tuple[str, str]:
    """Return what has to stand before the interaction, and the rest of a file of WGSL.

    The former is what the kernel asks the language for, and those of the ``constants`` that it has.
    """
    used = {name: value for name, value in constants.items() if re.search(rf"\b{name}\b", stem)}
    defined = "".join(f"const {name}: i32 = {value};\n" for name, value in used.items())
    enabled = f"{SUBGROUPS}\n" if SUBGROUPS in stem else ""
    return enabled + defined, stem.replace(f"{SUBGROUPS}\n", "")


def _unrolled(lines: list[str], constants: Mapping[str, int], where: str) -> list[str]:
    """Write loops out that are marked, the outer ones first."""
    written: list[str] = []
    place = 0
    while place < len(lines):
        match = _LOOP.fullmatch(lines[place])
        if match is None:
            written.append(lines[place])
            place += 1
            continue
        indent, counter, length = match.groups()
        closing = next((end for end in range(place + 1, len(lines)) if lines[end] == f"{indent}}}"), None)
        times = int(length) if length.isdigit() else constants.get(length)
        if closing is None or times is None:
            what = "does not end" if closing is None else f"has the length {length}, which is no constant of the kernel"
            raise InputError(f"{where}: the loop over {counter} that is to be unrolled {what}")
        body = lines[place + 1 : closing]
        alone = not any(re.match(r" *(let|var) ", line) for line in body)
        for number in range(times):
            turn = [re.sub(rf"\b{counter}\b", str(number), line) for line in body]
            turn = [line.removeprefix("    ") for line in turn] if alone else [f"{indent}{{", *turn, f"{indent}}}"]
            written += _unrolled(turn, constants, where)
        place = closing + 1
    return written
