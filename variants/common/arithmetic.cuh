// The pull of one body as the sources of the ladder print it, for gravity alone. ARITHMETIC 0: interact, with one
// inverse square root; 1: a square root and a division by the distance cubed; 2: the sixth power of the distance, a
// square root and a division. All are equal but for rounding; roots and divisions round correctly, which costs
// instructions.
#if ARITHMETIC == 0
__device__ __forceinline__ void pull(Sums& sums, const Body& i, const Body& j, real eps2) {
    interact(sums, i, j, eps2);
}
#else
__device__ __forceinline__ void pull(Sums& sums, const Body& i, const Body& j, real eps2) {
    const real dx = j.x - i.x;
    const real dy = j.y - i.y;
    const real dz = j.z - i.z;
    const real r2 = dx * dx + (dy * dy + (dz * dz + eps2));
#if ARITHMETIC == 1
    const real distance = sqrt(r2);
    const real strength = j.mass / (distance * distance * distance);
#else
    const real strength = j.mass * (1 / sqrt(r2 * r2 * r2));
#endif
    sums.ax += strength * dx;
    sums.ay += strength * dy;
    sums.az += strength * dz;
}
#endif
