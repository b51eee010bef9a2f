"""Bring bodies of the host's arrays to a variant on a GPU, and its accelerations back: kernels beside the copies."""
