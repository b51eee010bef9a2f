"""Run kernels in Numba's CUDA simulator, or compile one: a program for a fresh, confined interpreter.

It imports nothing of gravbench. Its input is a line of JSON, which ``simulated.py`` writes, and the bytes of all
arrays; its output is a line of JSON and bytes. It knows neither what is right nor what an array means.

Numba's simulator gives each thread of a block a thread of Python. Here they take turns in the order of their numbers,
each up to its next barrier, so that a run can be repeated; and each access to shared memory and to what is written is
noted, so that two threads that touch the same place without a barrier between them are found.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import math
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

Facts = dict[str, Any]
ROWS = "gravbench.variants.common.body"
"""The module by which a kernel reads and writes whole rows."""
STACK_BYTES = 256 * 1024
"""Of a thread."""


class FaultError(Exception):
    """A kernel does what no kernel may do: a kind, a sentence, and where."""

    def __init__(self, kind: str, sentence: str, line: int | None, thread: int | None, block: int | None) -> None:
        super().__init__(sentence)
        self.facts = {"kind": kind, "sentence": sentence, "line": line, "thread": thread, "block": block}


class Turns:
    """The launch that runs: the threads of a block take turns, and ``step`` counts barriers and blocks."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        self.launch = self.step = self.block = 0
        self.now: Any = None
        self.back = threading.Semaphore(0)

    def line(self) -> int:
        """Return the line of the kernel's file that the current thread is in."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename != self.file:
            assert frame.f_back
            frame = frame.f_back
        return frame.f_lineno

    def fault(self, kind: str, sentence: str, line: int, thread: Any = None) -> NoReturn:
        """Raise a fault of a thread, or of the one whose turn it is."""
        raise FaultError(kind, sentence, line, (thread or self.now).thread_id, self.block)


class Watched:
    """An array of which each access to a number is noted, with the thread, the line and the step."""

    def __init__(self, array: Any, name: str, turns: Turns) -> None:
        self.array, self.name, self.turns = array, name, turns
        self.shape, self.ndim, self.dtype, self.size = array.shape, array.ndim, array.dtype, array.size
        self.writes: dict[Any, tuple[int, int, int, Any, int]] = {}
        self.reads: dict[Any, tuple[int, int, int, Any, int]] = {}

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self.array)))

    def __getitem__(self, index: Any) -> Any:
        value = self.array[index]
        if getattr(value, "ndim", 0):
            return Row(self, index)
        before = self.reads.get(index)
        if before is None or before[3] is not None or before[2] != self.turns.step:
            self._note(index, writes=False)
        return value  # else several threads have read it in this step, and nobody has written it

    def __setitem__(self, index: Any, value: Any) -> None:
        if getattr(self.array[index], "ndim", 0):
            raise TypeError("a kernel writes one number at a time, not a row or a slice")
        self._note(index, writes=True)
        self.array[index] = value

    def _note(self, index: Any, *, writes: bool) -> None:
        turns = self.turns
        if isinstance(index, tuple):
            index = tuple(place if place >= 0 else place + size for place, size in zip(index, self.shape, strict=True))
        elif index < 0:
            index += self.shape[0]
        self._compare(self.writes.get(index), index, "reads" if not writes else "writes", "writes")
        before = self.reads.get(index)
        if writes:
            self._compare(before, index, "writes", "reads")
            self.writes[index] = (turns.launch, turns.block, turns.step, turns.now, turns.line())
        elif before is None or before[2] != turns.step:
            self.reads[index] = (turns.launch, turns.block, turns.step, turns.now, turns.line())
        elif before[3] is not turns.now:
            # Two threads read it in this step: whoever writes it races with one of them.
            self.reads[index] = (*before[:3], None, before[4])

    def _compare(self, before: Any, index: Any, verb: str, verb_before: str) -> None:
        turns = self.turns
        if before is None or before[3] is turns.now or before[0] != turns.launch:
            return
        if before[2] == turns.step or before[1] != turns.block:
            place = ", ".join(map(str, index)) if isinstance(index, tuple) else index
            line, other = turns.line(), f"thread {before[3].thread_id}" if before[3] else "another thread"
            of_block = f" of block {before[1]}" if before[1] != turns.block else ""
            who = f"thread {turns.now.thread_id} of block {turns.block} {verb} {self.name}[{place}] in line {line}"
            then = f"{other}{of_block} {verb_before} in line {before[4]} without a barrier between them"
            turns.fault("race", f"{who}, which {then}", line)


class Row:
    """A row of a watched array."""

    def __init__(self, array: Watched, row: Any) -> None:
        self.array, self.row = array, row if isinstance(row, tuple) else (row,)

    def __getitem__(self, index: Any) -> Any:
        return self.array[(*self.row, index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[(*self.row, index)] = value


class Shared:
    """Shared memory of a block: an array for each line that asks for one, of numbers that nobody has written."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._arrays: dict[int, Watched] = {}

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Watched:  # noqa: ARG002
        """Return the array of the line that calls."""
        import numpy as np

        line = self._turns.line()
        if line not in self._arrays:
            kind = np.dtype(getattr(dtype, "name", dtype))
            made = np.full(shape, np.nan if kind.kind == "f" else 0, kind)
            name = assigned_in("\n".join(self._turns.lines), line) or "shared array"
            self._arrays[line] = Watched(made, name, self._turns)
        return self._arrays[line]


@functools.lru_cache
def assigned_in(text: str, line: int) -> str | None:
    """Return the name that the statement of a line gives to what it makes, if it gives it one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or 0):
            (*_, target) = node.targets
            return target.id if isinstance(target, ast.Name) else None
    return None


class Atomics:
    """Atomic operations, which race with nothing."""

    def __init__(self, atomics: Any) -> None:
        self._atomics = atomics

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._atomics, name)
        return lambda array, *rest: operation(array.array if isinstance(array, Watched) else array, *rest)


def thread_kind(simulator: Any, turns: Turns) -> Any:
    """Return the kind of thread that runs when it has its turn."""

    class Thread(simulator.BlockThread):  # type: ignore[misc]
        line: int | None = None
        error: BaseException | None = None
        ended = False

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._go = threading.Semaphore(0)

        def run(self) -> None:
            try:
                threading.Thread.run(self)
            except BaseException as error:
                self.error = error
            self.ended = True
            turns.back.release()

        def take_turn(self) -> None:
            turns.now = self
            if self.ident is None:
                self.start()
            else:
                self._go.release()
            turns.back.acquire()

        def syncthreads(self) -> None:
            self.line = turns.line()
            turns.back.release()
            self._go.acquire()

    return Thread


def run_block(threads: Sequence[Any], turns: Turns) -> None:
    """Run the threads of a block to their ends."""
    left = list(threads)
    while left:
        turns.step += 1
        for thread in left:
            thread.take_turn()
            if thread.error is not None:
                raise_of(thread.error, turns)
        waiting = [thread for thread in left if not thread.ended]
        absent = [thread for thread in left if thread.ended] if waiting else []
        absent += [thread for thread in waiting if thread.line != waiting[0].line]
        if absent:
            first, other = waiting[0], absent[0]
            why = "which has ended" if other.ended else f"which waits at another one in line {other.line}"
            sentence = f"thread {first.thread_id} of block {turns.block} waits at syncthreads() in line {first.line}"
            turns.fault("barrier", f"{sentence} for thread {other.thread_id}, {why}", first.line, first)
        left = waiting


def beyond(text: str, frame: traceback.FrameSummary, said: str) -> str:
    """Say which array a line reads or writes beyond its end, by the columns of the frame and what NumPy says."""
    index = re.fullmatch(r"index (-?\d+) is out of bounds for axis 0 with size (\d+)", said)
    columns = text.encode()  # in which a frame counts
    named = re.match(r"(\w+)\[", columns[frame.colno or 0 : frame.end_colno or 0].decode(errors="replace"))
    if not index or not named:
        return f"reads or writes beyond an array in line {frame.lineno}: {said}"
    verb = "writes" if re.match(rb"\s*[-+*/]?=[^=]", columns[frame.end_colno or 0 :]) else "reads"
    rows = f"{index[2]} row{'' if index[2] == '1' else 's'}"
    return f"{verb} {named[1]}[{index[1]}] in line {frame.lineno}; {named[1]} has {rows}"


def raise_of(error: BaseException, turns: Turns) -> NoReturn:
    """Raise the fault that an exception of the current thread is."""
    if isinstance(error, FaultError):
        raise error
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == turns.file]
    line = frames[-1].lineno or 0 if frames else 0
    who = f"thread {turns.now.thread_id} of block {turns.block}"
    said = " ".join(str(error).split())[:200]
    if isinstance(error, IndexError):
        what = beyond(turns.lines[line - 1], frames[-1], said) if line else f"reads or writes beyond an array: {said}"
        turns.fault("bounds", f"{who} {what}", line)
    what = type(error).__name__ + (f": {said}" if said else "")
    turns.fault("crash", f"{who} ends with {what} in line {line}", line)


def module_of(name: str, path: str) -> ModuleType:
    """Load a module from its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def namespace_of(facts: Facts) -> dict[str, Any]:
    """Execute a kernel's file behind its constants, and return its names."""
    names: dict[str, Any] = {"__name__": "kernels", **facts["constants"]}
    exec(compile(facts["text"], facts["file"], "exec"), names)
    return names


def libdevice() -> ModuleType:
    """Return the functions of libdevice that the simulator lacks, in float32 and float64."""
    import numpy as np

    module = ModuleType("numba.cuda.libdevice")
    for ending, real in (("f", np.float32), ("", np.float64)):
        functions: dict[str, Callable[..., Any]] = {
            "rsqrt": lambda x, real=real: real(1) / np.sqrt(real(x)),
            "sqrt": lambda x, real=real: np.sqrt(real(x)),
            "fma": lambda x, y, z, real=real: real(np.float64(x) * y + z),
            "fmin": lambda x, y, real=real: real(min(x, y)),
            "fmax": lambda x, y, real=real: real(max(x, y)),
        }
        for name, function in functions.items():
            setattr(module, name + ending, function)

    def unknown(name: str) -> Any:
        raise AttributeError(f"the simulator has no libdevice.{name}")

    module.__getattr__ = unknown  # type: ignore[method-assign]
    return module


def simulate(facts: Facts, content: memoryview) -> list[bytes]:
    """Run the launches; return the bytes of the arrays that are asked for."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    import numpy as np
    from numba import cuda
    from numba.cuda.simulator import kernel as simulator

    warnings.simplefilter("ignore")  # of numbers that overflow, as those of a GPU do
    threading.stack_size(STACK_BYTES)
    module_of(ROWS, facts["rows"]).simulated = lambda _: True  # type: ignore[attr-defined]
    lacking = sys.modules["numba.cuda.libdevice"] = libdevice()
    # A kernel's own functions are called as they are, with the names of its file.
    simulator.FakeCUDAKernel.__call__ = lambda self, *arguments: self.fn(*arguments)
    turns = Turns(facts["file"], facts["text"])
    try:
        names = namespace_of(facts)
    except Exception as error:
        lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == facts["file"]]
        what = f"{type(error).__name__}: {error}"
        raise FaultError("crash", f"{what} when the file is read", lines[-1] if lines else None, None, None) from None
    arrays: dict[str, Any] = {}
    for name, kind, shape in facts["arrays"]:
        size = np.dtype(kind).itemsize * math.prod(shape)
        arrays[name] = np.frombuffer(bytes(content[:size]), kind).reshape(shape).copy()
        content = content[size:]
    # What is only read by all is not noted: that would take most of the time.
    given = {
        name: array if name in facts["inputs"] else Watched(array, name.partition("@")[0], turns)
        for name, array in arrays.items()
    }
    thread_of = thread_kind(simulator, turns)
    modules = {name for name, value in names.items() if value is cuda}
    for kernel, grid, block, arguments in facts["launches"]:
        called = [given[value] if isinstance(value, str) else getattr(np, kind)(value) for kind, value in arguments]
        target = functools.partial(names[kernel].fn, *called)
        turns.launch += 1
        for turns.block, (by, bx) in enumerate(np.ndindex(grid[1], grid[0])):
            fake = simulator.FakeCUDAModule((*grid, 1), (*block, 1), 0)
            fake._shared, fake._atomic, fake.libdevice = Shared(turns), Atomics(fake._atomic), lacking
            names.update(dict.fromkeys(modules, fake))
            manager = SimpleNamespace(_block_dim=(*block, 1), block_state=np.zeros((*block, 1), np.bool_))
            places = [(x, y, 0) for y in range(block[1]) for x in range(block[0])]
            run_block([thread_of(target, manager, (bx, by, 0), place, False) for place in places], turns)
    return [arrays[name].tobytes() for name in facts["outputs"]]


def compile_kernel(facts: Facts) -> tuple[str, list[bytes]]:
    """Compile and link a kernel; return the remarks of the linker and the machine code."""
    import numba
    from cuda.bindings import nvjitlink

    module_of(ROWS, facts["rows"])
    ahead = module_of("numba_ahead", facts["ahead"])
    kernel = namespace_of(facts)[facts["kernel"]]
    types = [
        getattr(numba.types, kind)
        if dimensions == 0
        else numba.types.Array(getattr(numba.types, kind), dimensions, "C")
        for kind, dimensions in facts["types"]
    ]
    code = ahead.link_time_code(kernel, types, tuple(facts["capability"]), lines=True)
    options = ["-arch=sm_{}{}".format(*facts["capability"]), "-lto", "-lineinfo", "-Xptxas=-v"]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), facts["kernel"])
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    image = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, image)
    return log.rstrip(b"\0").decode(errors="replace"), [bytes(image)]


def main() -> None:
    """Read what to do, do it, and write what came of it."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    sys.path.extend(folder for folder in sys.argv[1:] if folder not in sys.path)
    facts = json.loads(sys.stdin.buffer.readline())
    pieces: list[bytes] = []
    answer: dict[str, Any] = {}
    try:
        if facts["do"] == "simulate":
            pieces = simulate(facts, memoryview(sys.stdin.buffer.read()))
        else:
            answer["log"], pieces = compile_kernel(facts)
    except FaultError as fault:
        answer["fault"] = fault.facts
    except ImportError as error:
        answer["missing"] = str(error)
    except Exception as error:
        if facts["do"] == "simulate":
            raise
        answer["refused"] = str(error)
    answers.write(json.dumps(answer).encode() + b"\n" + b"".join(pieces))
    answers.flush()
    os._exit(0)  # threads of a block that ended with a fault still wait


if __name__ == "__main__":
    main()
