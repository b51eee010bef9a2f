"""Keys along a curve: the kernels of ``tree_box.cuh`` and ``tree_keys.cuh``, and what a sort of the keys launches."""

KERNELS = {"tree_box": (1, "BLOCK"), "tree_keys": (2, "BLOCK BITS HILBERT")}
"""The kernels: the number by which the source tells each apart, and the constants that it depends on."""

BLOCK = 256
"""Threads per block of both, one body per thread."""

SORT_KERNELS = 6
"""Kernels of the library's sort, at least."""


def compiled(gpu, kernels, constants):
    """Compile kernels, each given as in ``KERNELS``, in their order."""
    return [
        gpu.compile(stem, KERNEL=number, **{name: constants[name] for name in names.split()})
        for stem, (number, names) in kernels.items()
    ]
