"""Keep the rounding error of each addition and subtract it from the next (Kahan's compensated sum).

Against tiled: the rounding error of a sum no longer grows with the number of bodies; only that of the single
interactions remains. The cost is three more additions per component: 22 instructions per interaction instead of 13.
"""

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL):
    """Twin of kahan.cu."""
    act, load = body.interact(cuda, real, interaction), body.load_row(cuda, 4, 4)
    nothing = (real(0),) * 3

    # Without fastmath, which would let the compiler find that nothing is lost.
    @cuda.jit(device=True)
    def compensated(sum_, next_):
        larger = sum_ + next_
        return larger, (larger - sum_) - next_

    @cuda.jit(device=True, fastmath=True)
    def step(tile, k, own, eps2, state):
        (ax, ay, az), (lost_x, lost_y, lost_z) = state
        x, y, z = act((-lost_x, -lost_y, -lost_z), own, load(tile, k), eps2)
        ax, lost_x = compensated(ax, x)
        ay, lost_y = compensated(ay, y)
        az, lost_z = compensated(az, z)
        return (ax, ay, az), (lost_x, lost_y, lost_z)

    @cuda.jit(device=True)
    def sums_of(state):
        return state[0]

    several = body.repeated(cuda, step, UNROLL)
    return body.over_tiles(cuda, real, several, (nothing, nothing), sums_of, threads=P, steps=P, each=UNROLL)


@variant(
    parent="tiled",
    source="Kahan 1965, Further remarks on reducing truncation errors",
    axes={"p": (32, 64, 128, 256, 512), "unroll": (1, 2, 4, 8, 16, 32)},
    defaults={"p": 256, "unroll": 16},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL},
    when='p % unroll == 0 and (toolkit != "numba" or 128 % unroll == 0)',
    loads="n / p",
    operations=Operations(
        staging=("tile[thread] = first + thread < n ? bodies[first + thread] : Body{};",),
        contributions=("interact(next, self, tile[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, unroll):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("kahan", P=p, UNROLL=unroll), p)
