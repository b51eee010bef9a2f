"""Kick, damp and drift every body, after the force kernel of any variant.

One formula serves every integrator: v = (v + a kick) damping; x = x + v drift.
"""

DAMPING = 0.995
"""Factor on the velocities per step of the damped Euler integrator. Our choice: Lee (2008) does not state the value."""


def numba_kernel(cuda, real, interaction, *, BODY_STRIDE, ACCELERATION_STRIDE):
    """Twin of integrate.cu; a Numba array has its own stride."""

    @cuda.jit
    def integrate(x, y, z, vx, vy, vz, ax, ay, az, n, kick, damping, drift):
        i = cuda.grid(1)
        if i >= n:
            return
        vx[i] = (vx[i] + ax[i] * kick) * damping
        vy[i] = (vy[i] + ay[i] * kick) * damping
        vz[i] = (vz[i] + az[i] * kick) * damping
        x[i] += vx[i] * drift
        y[i] += vy[i] * drift
        z[i] += vz[i] * drift

    return integrate


mlir_kernel = numba_kernel


def cpu_kernel(numba, real, *, BODY_STRIDE, ACCELERATION_STRIDE):
    """Loop over the bodies on one core; a NumPy array has its own stride."""

    @numba.njit
    def integrate(x, y, z, vx, vy, vz, ax, ay, az, n, kick, damping, drift):
        for i in range(n):
            vx[i] = (vx[i] + ax[i] * kick) * damping
            vy[i] = (vy[i] + ay[i] * kick) * damping
            vz[i] = (vz[i] + az[i] * kick) * damping
            x[i] += vx[i] * drift
            y[i] += vy[i] * drift
            z[i] += vz[i] * drift

    return integrate
