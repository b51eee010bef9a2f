"""What variants share that compute as a source printed it: the arithmetic of a pull, and blocks of 16 x 16."""

ARITHMETIC = ("rsqrt", "sqrt_div", "d6")
"""The pull by one inverse square root; by a root and a division; by a root of the distance's sixth power, and one."""

SHAPES = ("1d", "16x16")
COLUMNS = 16
"""Blocks of Lee 2008 along x. A block of 16 x 16 threads has 16 rows of 16 bodies, each row 256 behind the last."""


def entry(stem, arithmetic):
    """Name the kernel of a stem: the one that takes roots and divides has a name of its own."""
    return stem if arithmetic == "rsqrt" else f"{stem}_by_roots"


def blocks(n, p, block_shape):
    """Return how many blocks n bodies take: of 16 x 16 threads, whole rows of 16 of them."""
    return -(-n // (p * COLUMNS)) * COLUMNS if block_shape == "16x16" else -(-n // p)


def rows(gpu, bodies, heavier=1):
    """Upload rows x, y, z and ``heavier`` times the mass, and make as many empty rows of sums."""
    own = gpu.interaction.rows(bodies.position, bodies.velocity, heavier * bodies.mass)
    return gpu.upload(own), gpu.empty(bodies.n, gpu.interaction.sums_width)
