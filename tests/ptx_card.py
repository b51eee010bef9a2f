"""A CUDA driver whose device's memory is the host's: it runs PTX that neither branches back nor has barriers."""

import ctypes
import re
from types import SimpleNamespace

import numpy as np

SIZES = {"u32": 4, "u64": 8}
SPECIAL = re.compile(r"%((?:tid|ntid|ctaid)\.[xy])")


class HostMemoryCard:
    """The part of libcuda that gives memory, frees it and copies: ``memory`` has what is not freed."""

    def __init__(self):
        self.memory = {}

    def cuMemAlloc_v2(self, address, size):  # noqa: N802
        # What is left in the device's memory by others.
        array = np.full(size.value + 256, 0xA5, np.uint8)
        address._obj.value = array.ctypes.data + -array.ctypes.data % 256
        self.memory[address._obj.value] = array
        return 0

    def cuMemFree_v2(self, address):  # noqa: N802
        del self.memory[address.value]
        return 0

    def cuMemcpyHtoD_v2(self, to, values, size):  # noqa: N802
        ctypes.memmove(to.value, values.value, size.value)
        return 0

    cuMemcpyDtoH_v2 = cuMemcpyHtoD_v2  # noqa: N815


class PtxCard(HostMemoryCard):
    """libcuda as ``gravbench.toolkits.driver`` calls it: what is queued runs when the host waits for everything.

    ``calls`` has what was queued, and in which stream; ``waits`` counts how often the host waited.
    """

    FAULT = 700

    def __init__(self):
        super().__init__()
        self.images, self.queued, self.calls, self.waits, self.code = {}, [], [], 0, 0

    def queue(self, name, stream, work, *, late=False):
        """Queue a call; what is ``late`` is in a stream that the device takes up last."""
        self.calls.append((name, stream))
        self.queued.append((late, work))
        return self.code

    def cuModuleLoadData(self, module, image):  # noqa: N802
        self.images[len(self.images) + 1] = image.decode()
        module._obj.value = len(self.images)
        return 0

    def cuModuleGetFunction(self, function, module, name):  # noqa: N802
        assert f".entry {name.decode()}(" in self.images[module.value]
        function._obj.value = module.value
        return 0

    def cuMemcpyDtoDAsync_v2(self, to, values, size, stream):  # noqa: N802
        return self.queue("copy", stream.value, lambda: self.cuMemcpyHtoD_v2(to, values, size))

    def cuCtxSynchronize(self):  # noqa: N802
        self.waits += 1
        queued, self.queued = sorted(self.queued, key=lambda each: each[0]), []
        for _, work in queued:
            try:
                work()
            except ZeroDivisionError:  # a fault, after which the context refuses everything
                self.code = self.FAULT
                break
        return self.code

    def cuGetErrorString(self, code, text):  # noqa: N802
        text._obj.value = f"error {code}".encode()
        return 0

    def cuLaunchKernel(self, function, *rest):  # noqa: N802
        *extents, _, stream, addresses, _ = rest
        *grid, along_z, block, block_y, block_z = extents
        assert (along_z, block_y, block_z) == (1, 1, 1)
        text = self.images[function.value]
        parameters = parameters_of(text, addresses)  # the driver copies them
        return self.queue("launch", stream.value, lambda: run(text, grid, block, parameters))


def parameters_of(text, addresses):
    """Return the parameters of a launch by name."""
    kinds = re.findall(r"\.param \.(\w+) (\w+)", text.partition("{")[0])
    return {
        name: int.from_bytes(ctypes.string_at(address, SIZES[kind]), "little")
        for (kind, name), address in zip(kinds, addresses, strict=True)
    }


def run(text, grid, block, parameters):
    """Run all threads of a launch, each instruction for all of them at once."""
    body = re.search(r"\{(.*)\}", text, re.DOTALL)[1]
    threads = np.arange(grid[0] * grid[1] * block, dtype=np.uint64)
    blocks = threads // block
    special = {"tid.x": threads % block, "ntid.x": np.full_like(threads, block)}
    special |= {"ctaid.x": blocks % grid[0], "ctaid.y": blocks // grid[0]}
    machine = SimpleNamespace(registers={}, active=np.ones(len(threads), bool), special=special, parameters=parameters)
    for line in filter(None, map(str.strip, body.split(";"))):
        if not line.startswith(".reg"):
            _step(machine, line)
    assert not machine.active.any(), "a kernel ends by ret"


def _step(machine, line):
    guard, name, operands = re.fullmatch(r"(?:@(%\w+)\s+)?([\w.]+)\s*(.*)", line, re.DOTALL).groups()
    active = machine.active & machine.registers[guard] if guard else machine.active
    target, *sources = (operand.strip() for operand in operands.split(","))
    if name == "ret":
        machine.active = machine.active & ~active
    elif name == "st.global.u32":
        for address in machine.registers[target.strip("[]")][active]:
            ctypes.c_uint32.from_address(int(address)).value = int(sources[0])
    elif name.startswith("ld.global"):
        loaded = np.zeros(len(active), np.uint64)
        addresses = machine.registers[sources[0].strip("[]")]
        for thread in np.flatnonzero(active):
            loaded[thread] = ctypes.c_uint32.from_address(int(addresses[thread])).value
        machine.registers[target] = loaded
    else:
        values = [_value(machine, source, len(active)) for source in sources]
        operation, _, kind = name.rpartition(".")
        calculated = CALCULATIONS[operation](*values)
        is_narrow = kind == "u32" and calculated.dtype != bool and operation != "mul.wide"
        machine.registers[target] = calculated & np.uint64(0xFFFFFFFF) if is_narrow else calculated


CALCULATIONS = {
    "ld.param": lambda value: value,
    "mov": lambda value: value,
    "mad.lo": lambda one, other, added: one * other + added,
    "mul.wide": lambda one, other: one * other,
    "add": lambda one, other: one + other,
    "rem": lambda one, other: one % other,
    "setp.ge": lambda one, other: one >= other,
    "setp.eq": lambda one, other: one == other,
}


def _value(machine, text, count):
    if found := SPECIAL.fullmatch(text):
        return machine.special[found[1]]
    if text.startswith("["):
        return np.full(count, machine.parameters[text.strip("[]")], np.uint64)
    return machine.registers[text] if text.startswith("%") else np.full(count, int(text), np.uint64)
