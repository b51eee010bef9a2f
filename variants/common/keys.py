"""Keys along a curve: the kernels of ``tree_box.cuh`` and ``tree_keys.cuh``, and what a sort of the keys launches."""

KERNELS = {"tree_box": "BLOCK", "tree_keys": "BLOCK BITS HILBERT"}
"""The kernels, and the constants that each depends on."""

BLOCK = 256
"""Threads per block of both, one body per thread."""

SORT_KERNELS = 6
"""Kernels of the library's sort, at least."""
