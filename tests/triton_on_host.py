"""Run triton_tiles by Triton's interpreter, which needs no GPU: python triton_on_host.py SAVED.npz.

It reads the arrays ``x``, ``y``, ``z``, ``mass``, and the numbers ``eps2``, ``p`` and ``tile``, and adds ``found``,
shape (3, n). Triton decides when it is imported whether it interprets, so this is a process of its own.
"""

import inspect
import os
import sys

import numpy as np

from gravbench.model.variant import discover


class Array:
    """What the interpreter asks of an array of PyTorch, over one of NumPy."""

    def __init__(self, values):
        self.values = values
        self.dtype = str(values.dtype)

    def data_ptr(self):
        return self.values.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, size, device):
        assert (size, device) == (0, "cpu")
        return Array(self.values)

    def set_(self, storage, *_):
        self.values = storage.values

    def storage_offset(self):
        return 0

    def size(self):
        return self.values.shape

    def stride(self):
        return (1,)

    def copy_(self, other):
        assert other.values is self.values


def main(path):
    os.environ["TRITON_INTERPRET"] = "1"
    import triton
    import triton.language

    own = dict(np.load(path))
    n, p, tile = own["x"].size, int(own["p"]), int(own["tile"])
    module = discover()["triton_tiles"].module
    kernel = module.triton_kernel(triton, own["x"].dtype.type, P=p, TILE=tile)
    # The interpreter compiles the kernel's text anew, where only the names of its module are known.
    vars(module).update(inspect.getclosurevars(kernel.fn).nonlocals)
    found = np.full((3, n), np.nan, own["x"].dtype)
    columns = [Array(own[name]) for name in ("x", "y", "z", "mass")]
    kernel[(-(-n // p),)](*columns, *map(Array, found), n, Array(own["eps2"]))
    np.savez(path, **own, found=found)


if __name__ == "__main__":
    main(sys.argv[1])
