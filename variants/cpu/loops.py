"""What the compiled loops on the CPU share: the layout of bodies and accelerations."""

from gravbench.model.variant import Prepared


def over_columns(cpu, bodies, kernel):
    """Call ``kernel(x, y, z, mass, eps2, ax, ay, az)`` with arrays of n numbers each."""
    columns = tuple(cpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    accelerations = tuple(cpu.empty(bodies.n) for _ in range(3))
    eps2 = cpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(*columns, eps2, *accelerations), columns, accelerations)
