// Kick, damp and drift every body, for every integrator; one thread per body.
//
// v = (v + a kick) damping; x = x + v drift. A kernel of its own, launched after the force kernel, so that no block of
// the force kernel can read a body that another block has already moved.
//
// Global loads per body: 9 numbers; stores: 6. x, y, z: positions, BODY_STRIDE numbers from one body to the next (4:
// rows of Body, 1: columns); vx, vy, vz: velocities, columns; ax, ay, az: accelerations, ACCELERATION_STRIDE numbers
// apart; n bodies each.
extern "C" __global__ void integrate(real* __restrict__ x, real* __restrict__ y, real* __restrict__ z,
                                     real* __restrict__ vx, real* __restrict__ vy, real* __restrict__ vz,
                                     const real* __restrict__ ax, const real* __restrict__ ay,
                                     const real* __restrict__ az, int n, real kick, real damping, real drift) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const size_t body = size_t(i) * BODY_STRIDE;
    const size_t pull = size_t(i) * ACCELERATION_STRIDE;
    vx[i] = (vx[i] + ax[pull] * kick) * damping;
    vy[i] = (vy[i] + ay[pull] * kick) * damping;
    vz[i] = (vz[i] + az[pull] * kick) * damping;
    x[body] += vx[i] * drift;
    y[body] += vy[i] * drift;
    z[body] += vz[i] * drift;
}
