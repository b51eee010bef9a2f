"""The process that launches an entry on a device: it gets a binary, arrays as bytes and launches, and nothing else.

It knows neither what is right nor what an array means. Its answers are frames on the standard output that it was
started with; what device code prints goes nowhere. It ends with its first fault, or when nobody asks any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from gravbench.judging import frames
from gravbench.judging.calls import Call, Device, FaultError, RefusedError

MOST_ASKED, MOST_BYTES = 1 << 26, 1 << 36
"""Bytes of the facts of a question, and of its arrays."""


def serve(device: Device, read: Callable[[int], bytes], write: Callable[[Sequence[Any]], None]) -> None:
    """Answer questions until nobody asks any more, or something goes wrong."""
    sizes: dict[str, int] = {}
    while True:
        facts, content = frames.unpack(read, most_facts=MOST_ASKED, most_content=MOST_BYTES)
        calls = [Call(name, tuple(grid), tuple(block), *rest) for name, grid, block, *rest in facts.get("calls", [])]
        answer: dict[str, Any] = {}
        pieces: list[bytes] = []
        match facts["do"]:
            case "load":
                answer = device.load(content, facts["kernels"], facts["precision"])
            case "allocate":
                sizes = {name: size + 2 * facts["guard"] for name, size in facts["sizes"].items()}
                device.allocate(facts["sizes"], facts["guard"])
            case "write":
                whole, begin = memoryview(content), 0
                for name in facts["names"]:
                    device.write(name, whole[begin : begin + sizes[name]])
                    begin += sizes[name]
            case "read":
                pieces = [device.read(name) for name in facts["names"]]
            case "run":
                device.run(calls)
            case "time":
                answer = device.time(calls, facts["hold_microseconds"])
        write(frames.pack(answer, pieces))


def opened(selector: str) -> Device:
    """Return the device that a selector names, such as ``wgpu:0``; that of CUDA is the first that is visible."""
    if selector.startswith("wgpu:"):
        from gravbench.judging.worker_wgpu import WgpuDevice

        return WgpuDevice(int(selector.partition(":")[2]))
    from gravbench.judging.worker_cuda import CudaDevice

    return CudaDevice()


def main() -> None:
    """Serve; the only argument is the selector of the device."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    questions = sys.stdin.buffer

    def write(pieces: Sequence[Any]) -> None:
        for piece in pieces:
            answers.write(piece)
        answers.flush()

    try:
        serve(opened(sys.argv[1]), lambda size: exactly(questions, size), write)
    except EOFError:
        pass
    except FaultError as error:
        write(frames.pack({"fault": str(error)}))
    except RefusedError as error:
        write(frames.pack({"refused": str(error)}))
    # Without the clean-up of libraries, which may wait for a kernel that does not end.
    os._exit(0)


def exactly(stream: BinaryIO, size: int) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: the other side is gone.
    """
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content
