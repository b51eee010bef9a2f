"""The numbers that axes of several variants take; a declaration lists those that are worth a sweep."""

from gravbench.model.variant import Range

THREADS = Range(1, 1024, "at most 1,024 threads per block")
WARPS_OF_THREADS = Range(32, 1024, "whole warps, whose threads work together; at most 1,024 threads per block", step=32)
UNROLL = Range(1, 128, "longer loop bodies outgrow the instruction cache")
"""A declaration says in ``when`` what has to be a multiple of it, and that a Numba twin wants a power of two."""
FRACTION = Range(1 / 1024, 1.0, "a cycle is a whole number of windows", divides=1)
BAG = Range(1, 1536, "48 KB of shared memory hold at most 1,536 float64 bodies")
COUNT = Range(1, 2**31 - 1, "bodies are counted in an int32")
BODIES = Range(1, 32, "a body and its sums take seven of the 255 registers of a thread")
"""Bodies that a thread keeps in registers."""
PARTS = Range(1, 32768, "the product of two numbers of parts must fit into an int32")
COPIES = Range(1, 1024, "each copy takes memory for all bodies")
WARPS = Range(0, 32, "a multiprocessor of any architecture can hold 32 warps")
