"""The fast multipole method of JZ-FMM: cells act on cells by expansions up to a chosen order, near bodies directly.

Against naive: about n interactions of cells instead of n * n of bodies. ``order`` is the order of the expansions,
``theta`` how wide two cells may appear to each other before one of them is opened. The expansions are those of the
softened pull, as in JZ-FMM's Plummer kernel. Bodies stay on the device; each launch sorts them, builds the tree, and
returns the accelerations in the original order of the bodies.
"""

from gravbench.model.variant import DIRECT_SUM, InputError, Prepared, Range, Tolerance, variant

ENTRIES = 64
"""Places for interactions that JZ-FMM allocates per cell by default, at its default opening angle."""
USUAL_THETA = 0.8
FEWEST = 33
"""Bodies below which all are in one leaf, which has no width: the accelerations of JZ-FMM 1.0 are NaN."""
FEW = 16_384
"""Bodies below which each gets a place for a cell: of 1,000 in a Plummer sphere, more need one than it estimates."""
ENTRIES_OF_FEW = 1024
"""Places for interactions per cell that is estimated, of few bodies: their cells are all near each other."""


def jzfmm_kernel(jzfmm, real, *, ORDER, THETA, EPS):
    """A list of interactions that outgrows its place is an error of JZ-FMM's, so it grows as theta shrinks."""

    def jzfmm_multipoles(bodies, accelerations):
        config = jzfmm.FMMConfig(
            p=ORDER,
            opening=jzfmm.OpeningByAngle(theta=THETA),
            kernel=jzfmm.PlummerKernel(softening=EPS),
            alloc_fac_ilist=ENTRIES * max(1.0, (USUAL_THETA / THETA) ** 3),
        )
        if len(bodies) < FEW:
            # JZ-FMM allocates this times two cells for each full leaf of bodies.
            config.tree.alloc_fac_nodes = config.tree.max_leaf_size / 2
            config.alloc_fac_ilist = max(config.alloc_fac_ilist, ENTRIES_OF_FEW)
        particles = jzfmm.data.PosMass(pos=bodies[:, :3], mass=bodies[:, 3])
        return {"accelerations": jzfmm.fmm.fast_multipole_method(particles, cfg_fmm=config, G=1.0).force()}

    return jzfmm_multipoles


def tolerance(axes):
    """An expansion leaves about theta^(order + 1) of a potential, so theta^order of a pull; room for its constant."""
    left = axes["theta"] ** axes["order"]
    return {
        dtype: Tolerance(max=max(2.5 * left, exact.max), rms=max(0.15 * left, exact.rms))
        for dtype, exact in DIRECT_SUM.items()
    }


@variant(
    parent="naive",
    source="JZ-FMM's documentation: jstuecker.github.io/jzfmm",
    axes={"order": (1, 2, 3, 4, 5, 6, 7), "theta": (0.4, 0.5, 0.6, 0.7, 0.8, 1.0)},
    defaults={"order": 5, "theta": 0.7},
    ranges={
        "order": Range(1, 7, "JZ-FMM has kernels for these"),
        "theta": Range(0.2, 1.0, "below, the lists of interactions fill the memory; above, expansions diverge"),
    },
    approximates="cells that seem narrower than theta to each other interact by expansions of a finite order",
    tolerance=tolerance,
)
def prepare(gpu, bodies, *, order, theta):
    """Rows of x, y, z and mass; JZ-FMM's positions and masses are parts of them.

    Raises InputError for bodies that JZ-FMM puts into one leaf.
    """
    if bodies.n < FEWEST:
        raise InputError(f"{bodies.n} bodies; accepted by JZ-FMM: {FEWEST} or more")
    if (bodies.position == bodies.position[0]).all():
        raise InputError("all bodies at one place; accepted by JZ-FMM: bodies at two places or more")
    kernel = gpu.compile("jzfmm_multipoles", ORDER=order, THETA=theta, EPS=bodies.eps)
    rows = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(bodies.n, 3)
    return Prepared(lambda: kernel(rows, accelerations), rows, accelerations, kernel)
