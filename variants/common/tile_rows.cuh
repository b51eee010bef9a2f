// Bodies as they are staged in shared memory, and what they do to the R bodies of each thread.
//
// The register file has two banks, of even and of odd registers, and delivers one operand per bank and cycle. A 16-byte
// load fills four consecutive registers, so if bodies and rows had the same order, both x would be in even registers
// and their difference would take two cycles. With the mass first, one is even and the other odd.
#if defined(MASS_FIRST) && !MASS_FIRST
struct __align__(16) Row {
    real x, y, z, mass;
};
#else
struct __align__(16) Row {
    real mass, x, y, z;
};
#endif

__device__ __forceinline__ Row row_of(const Body& body) {
    Row row;
    row.x = body.x;
    row.y = body.y;
    row.z = body.z;
    row.mass = body.mass;
    return row;
}

// Let `count` rows act on R bodies, UNROLL rows at a time.
__device__ __forceinline__ void pull_rows(Sums (&sums)[R], const Body (&own)[R], const Row* tile, int count,
                                          real eps2) {
#pragma unroll 1
    for (int k = 0; k < count; k += UNROLL) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            const Row row = tile[k + step];
            const Body j = {row.x, row.y, row.z, row.mass};
#pragma unroll
            for (int b = 0; b < R; ++b) interact(sums[b], own[b], j, eps2);
        }
    }
}
