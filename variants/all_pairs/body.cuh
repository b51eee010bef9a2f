// What every all-pairs kernel shares: the number type, the layout of a body, and one interaction.
//
// Units: G = 1. eps2 is the softening length squared, greater than zero, so that the pair of a body with
// itself adds exactly nothing and needs no branch (GPU Gems 3, section 31.2).

#ifdef FLOAT64
typedef double real;
#else
typedef float real;
#endif

// One body in one 16-byte load (two in float64): position and mass. Accelerations use x, y, z of the same layout.
struct __align__(16) PosMass {
    real x, y, z, mass;
};

struct Acceleration {
    real x, y, z;
};

__device__ __forceinline__ float inverse_sqrt(float value) {
    return rsqrtf(value);
}

__device__ __forceinline__ double inverse_sqrt(double value) {
    return rsqrt(value);
}

// Add to a the pull of a body at (xj, yj, zj) on one at (xi, yi, zi). By the sources' count 20 FLOPs: an FMA is
// two, the inverse square root is counted as two (GPU Gems 3, section 31.2); the pairs of the line are beside it.
__device__ __forceinline__ void interact(Acceleration& a, real xi, real yi, real zi, real xj, real yj, real zj,
                                         real mass, real eps2) {
    const real dx = xj - xi;                                     // 1
    const real dy = yj - yi;                                     // 1
    const real dz = zj - zi;                                     // 1
    const real r2 = dx * dx + (dy * dy + (dz * dz + eps2));      // 6
    const real inverse = inverse_sqrt(r2);                       // 2
    const real strength = mass * inverse * (inverse * inverse);  // 3
    a.x += strength * dx;                                        // 2
    a.y += strength * dy;                                        // 2
    a.z += strength * dz;                                        // 2
}
