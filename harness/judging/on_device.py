"""Launches of an entry on a device, by a process of its own that gets binaries and bytes and nothing else.

Whatever that process says is taken for what a stranger says: its answers have limits of size and time, and what it
computed is bytes that are compared here. It is ended with the judgement, whatever a kernel does.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.emulation.programs import Fault
from gravbench.errors import InputError, shortened
from gravbench.judging import frames
from gravbench.judging.calls import Call
from gravbench.judging.cubin import global_bytes
from gravbench.judging.entry import Entry
from gravbench.judging.launching import Answer, accelerations_of, arrays_of, calls_of, changed, suffixed
from gravbench.model.bodies import Bodies
from gravbench.model.device import Device
from gravbench.model.toolkits import catalogue
from gravbench.sandbox.compilers import compile_cuda
from gravbench.toolkits.cuda import VISIBLE
from gravbench.toolkits.devices import target_of
from gravbench.toolkits.interface import cuda_options

GUARD = 4096
"""Bytes on either side of an array, which no launch may change."""
STARTING_SECONDS, LAUNCHING_SECONDS = 60.0, 30.0
"""After which a process that starts, or that launches, is ended."""
KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "PYTHONPATH")
"""Variables of the environment that libraries of devices need; the process gets no others."""
MOST_GLOBAL_BYTES = 65536
"""Of the variables that a binary keeps on the device: results kept from launch to launch have no room there."""


_GUARD = np.full(GUARD // 4, 0x7FC0BEEF, np.uint32).tobytes()


WORKER = (sys.executable, "-c", "from gravbench.judging.worker import main; main()")
"""The command of the process that launches, before the selector of its device."""


ONE_BODY = Bodies(np.ones(1), np.zeros((1, 3)), np.zeros((1, 3)), 1.0)


class FaultError(Exception):
    """The launches of an entry ended with a fault."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = Fault(kind, sentence)


class LaunchingProcess:
    """The process that launches on a device."""

    def __init__(self, device: Device) -> None:
        """Start it."""
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        if device.uuid:
            environment[VISIBLE] = device.uuid
        self._process = subprocess.Popen(
            [*WORKER, device.selector],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # of what it had not read
                stream.close()

    def ask(
        self,
        facts: frames.Facts,
        contents: Iterable[bytes | memoryview] = (),
        *,
        expected: int = 0,
        seconds: float | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """Ask a question, and return the answer: its facts, and its bytes, of which ``expected`` are accepted.

        It has to come within ``seconds``, or those of a launch.

        Raises:
            FaultError: the launches ended with a fault, or not in time, or what came is no answer.
            InputError: the device does not take the entry.
        """
        assert self._process.stdin is not None
        until = monotonic() + (LAUNCHING_SECONDS if seconds is None else seconds)
        try:
            for piece in frames.pack(facts, contents):
                self._process.stdin.write(piece)
            self._process.stdin.flush()
            answer, content = frames.unpack(
                lambda size: self._read(size, until), most_facts=frames.MOST_FACTS, most_content=expected
            )
        except (EOFError, BrokenPipeError):
            raise FaultError("crash", "the process that launches ended; the device may have lost its context") from None
        except frames.FrameError as error:
            raise FaultError("crash", f"the process that launches answered with {error}") from None
        if "fault" in answer:
            raise FaultError("fault", f"a launch ended with a fault: {_quoted(answer['fault'])}")
        if "refused" in answer:
            raise InputError(_quoted(answer["refused"]))
        if len(content) != expected:
            raise FaultError("crash", f"the process that launches answered with {len(content)} bytes, not {expected}")
        return answer, content

    def _read(self, size: int, until: float) -> bytes:
        assert self._process.stdout is not None
        content = bytearray()
        descriptor = self._process.stdout.fileno()
        while len(content) < size:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - monotonic()))
            if not ready:
                raise FaultError("time", "the launches did not end in time; a loop in the kernel may never end")
            piece = os.read(descriptor, min(size - len(content), 1 << 20))
            if not piece:
                raise EOFError
            content += piece
        return bytes(content)


class Loaded:
    """An entry in a launching process, with the arrays of some sets of bodies."""

    def __init__(self, process: LaunchingProcess, entry: Entry, code: bytes) -> None:
        """Load its kernels; ``facts`` are what the device says of itself."""
        self._process = process
        self.entry = entry
        self._allocated: dict[str, int] = {}
        kernels = list(dict.fromkeys(kernel.name for kernel in entry.head.kernels))
        question = {"do": "load", "kernels": kernels, "precision": entry.head.precision}
        self.facts, _ = process.ask(question, [code], seconds=STARTING_SECONDS)
        check_parameters(entry, self.facts.get("parameters"))

    def place(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Fill arrays, those that are there already, or others in their place."""
        sizes = {name: array.nbytes for name, array in arrays.items()}
        if sizes != self._allocated:
            self._process.ask({"do": "allocate", "sizes": sizes, "guard": GUARD}, seconds=STARTING_SECONDS)
            self._allocated = sizes
        contents = (piece for array in arrays.values() for piece in (_GUARD, _bytes(array), _GUARD))
        self._process.ask({"do": "write", "names": list(arrays)}, list(contents), seconds=STARTING_SECONDS)

    def run(self, calls: Sequence[Call]) -> None:
        """Launch, and wait."""
        self._process.ask({"do": "run", "calls": calls})

    def time(self, calls: Sequence[Call], hold_microseconds: int) -> dict[str, Any]:
        """Launch, and time; see ``gravbench.judging.worker``."""
        return self._process.ask({"do": "time", "calls": calls, "hold_microseconds": hold_microseconds})[0]

    def read(
        self, arrays: Mapping[str, NDArray[Any]], names: Iterable[str], inputs: Iterable[str]
    ) -> dict[str, NDArray[Any]]:
        """Return what is in some of the arrays that were placed, ``inputs`` among them.

        Raises:
            FaultError: something was written beyond one of them, or into one of the inputs.
        """
        wanted = {name: arrays[name] for name in names}
        expected = sum(array.nbytes + 2 * GUARD for array in wanted.values())
        content = self._process.ask({"do": "read", "names": list(wanted)}, expected=expected)[1]
        results, begin = {}, 0
        for name, array in wanted.items():
            middle, end = begin + GUARD, begin + GUARD + array.nbytes
            for guard, where in ((content[begin:middle], "before"), (content[end : end + GUARD], "behind")):
                if guard != _GUARD:
                    raise FaultError("bounds", f"the entry writes {where} the array {name}")
            results[name] = np.frombuffer(content[middle:end], array.dtype).reshape(array.shape)
            begin = end + GUARD
        if fault := changed(inputs, arrays, results):
            raise FaultError(fault.kind, fault.sentence)
        return results


class OnDevice:
    """Launches an entry on a device, all in one process, which ends with the context of this manager.

    So what a kernel keeps from one launch to the next is there in all launches of a judgement.
    """

    def __init__(self, device: Device) -> None:
        """Start nothing yet."""
        self.device = device
        self._process: LaunchingProcess | None = None
        self._loaded: Loaded | None = None

    def __enter__(self) -> OnDevice:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        if self._process:
            self._process.end()

    @property
    def description(self) -> str:
        """By what an entry is run."""
        return f"Run on {self.device.name}"

    def run(self, entry: Entry, bodies: Sequence[Bodies]) -> Answer:
        """See ``gravbench.judging.launching.Launcher``."""
        try:
            return answered(self.loaded(entry), entry, bodies)
        except FaultError as error:
            return Answer((), error.fault)

    def loaded(self, entry: Entry) -> Loaded:
        """Return an entry in the process; it is compiled and loaded the first time, and no other can be.

        Raises:
            FaultError: the process ends, or does not answer.
            InputError: the compiler or the device refuses the entry.
        """
        if self._loaded is None:
            code = binary_of(entry, self.device)
            self._process = LaunchingProcess(self.device)
            self._loaded = Loaded(self._process, entry, code)
        assert self._loaded.entry is entry
        return self._loaded


def answered(loaded: Loaded, entry: Entry, bodies: Sequence[Bodies]) -> Answer:
    """Launch for each set of bodies, and return what was computed.

    Raises:
        FaultError: a launch fails, writes beyond its arrays, or changes the bodies.
    """
    arrays = arrays_of(entry, bodies)
    loaded.place(arrays)
    loaded.run(calls_of(entry, bodies))
    inputs = [suffixed(name, turn) for turn in range(len(bodies)) for name in entry.inputs]
    return Answer(accelerations_of(entry, loaded.read(arrays, arrays, inputs), len(bodies)))


def check_parameters(entry: Entry, sizes: object) -> None:
    """Compare the bytes of the parameters of each kernel with what it is given; nothing where no device says them.

    Raises:
        InputError: a kernel takes others.
    """
    widths = {str: 8, int: 4, float: entry.real().nbytes}
    for call in calls_of(entry, [ONE_BODY]):
        given = [widths[type(argument)] for argument in call.arguments]
        taken = sizes.get(call.kernel) if isinstance(sizes, dict) else None
        if taken is not None and taken != given:
            sentence = f"the parameters of {call.kernel} have {_quoted(taken)} bytes"
            raise InputError(f"{entry.path}: {sentence}; accepted: {given}, those of its arguments")


def binary_of(entry: Entry, device: Device) -> bytes:
    """Compile an entry for a device, or return its text where the device's process compiles it.

    Raises:
        InputError: the compiler refuses it, or the device runs no such entries.
    """
    if catalogue()[entry.toolkit].family != device.family:
        accepted = "wgpu:0, ..." if entry.is_wgsl else "cuda:0, ..., or --emulate"
        raise InputError(f"{entry.path}: {device.selector} does not run it; accepted: --device {accepted}")
    if entry.is_wgsl:
        return entry.with_constants.encode()
    target = target_of(device)
    if target is None:
        raise InputError(f"{device.selector}: its architecture is not known; accepted: --emulate")
    text = f'#line 1 "kernel.cu"\n{entry.text}'
    code, _ = compile_cuda(text, target.architecture, cuda_options(entry.head.constants, entry.head.precision))
    if (size := global_bytes(code)) > MOST_GLOBAL_BYTES:
        raise InputError(f"{entry.path}: its __device__ variables have {size:,} bytes; accepted: {MOST_GLOBAL_BYTES:,}")
    return code


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B")


def _quoted(words: object) -> str:
    return shortened(str(words), 300)
