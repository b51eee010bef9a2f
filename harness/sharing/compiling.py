"""The process in which the kernels of a bundle are compiled: NVRTC alone, with limits of time and memory.

It reads jobs and writes answers, a line of JSON each. It imports nothing that reserves memory by itself.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterable, Sequence

from gravbench.toolkits import nvrtc

MOST_SECONDS = 300
"""Of processor time."""
MOST_MEMORY = 4 << 30
"""Bytes of addresses."""


def answer(source: str, options: Sequence[str], *, trusted: bool) -> dict[str, str]:
    """Compile a text; return the machine code in hexadecimal digits, or why there is none.

    A text that is not ``trusted`` is compiled without the folders of CUDA's headers.
    """
    try:
        with nvrtc.program(source, options, headers=trusted) as (program, _):
            return {"cubin": nvrtc.cubin(program).hex(), "refusal": ""}
    except (nvrtc.CompileError, nvrtc.UnknownOptionError) as error:
        return {"cubin": "", "refusal": f"NVRTC refuses it: {str(error).strip()[:200]}"}


def main(lines: Iterable[str]) -> None:
    """Answer each line with a line."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for line in lines:
        sys.stdout.write(json.dumps(answer(**json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.stdin)
