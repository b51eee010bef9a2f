// What a warp does together while it walks a tree for the bodies that its lanes hold.

constexpr unsigned all_lanes = 0xffffffff;
constexpr int most_ranges = 32 * (BITS + 1);
constexpr int staged_rows = 32 + 4;  // and what fills the last four up

// A warp's own part of shared memory.
struct WarpRoom {
    Body staged[staged_rows];
#if QUADRUPOLE
    Quadrupole seconds[staged_rows];
#endif
    unsigned ranges[most_ranges];
};

__device__ __forceinline__ int sum_up_to_lane(int value, int lane) {
#pragma unroll
    for (int apart = 1; apart < 32; apart <<= 1) {
        const int other = __shfl_up_sync(all_lanes, value, apart);
        if (lane >= apart) value += other;
    }
    return value;
}

__device__ __forceinline__ unsigned bits_of_warp(unsigned bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_or_sync(all_lanes, bits);
#else
#pragma unroll
    for (int apart = 16; apart > 0; apart >>= 1) bits |= __shfl_xor_sync(all_lanes, bits, apart);
    return bits;
#endif
}

__device__ __forceinline__ real least_of_warp(real value) {
#pragma unroll
    for (int apart = 16; apart > 0; apart >>= 1) value = min(value, __shfl_xor_sync(all_lanes, value, apart));
    return value;
}

// A range of at most eight nodes that follow one another, as one word.
__device__ __forceinline__ unsigned range_of(int first, int count) {
    return static_cast<unsigned>(first) << 3 | static_cast<unsigned>(count - 1);
}

// Return the squared distance of a point from the nearest point of a box.
__device__ __forceinline__ real squared_distance(const Body& point, const Body& middle, const Body& half) {
    const real zero = 0;
    const real x = max(abs(point.x - middle.x) - half.x, zero);
    const real y = max(abs(point.y - middle.y) - half.y, zero);
    const real z = max(abs(point.z - middle.z) - half.z, zero);
    return x * x + (y * y + z * z);
}

// Tell whether a cell has to be opened by bodies at this squared distance; written so that a NaN opens it. `pull` is
// the acceleration by which OPENING 2 judges, 0 where none is known.
__device__ __forceinline__ bool too_near(const Link& link, real mass, real r2, real pull, real inverse_theta) {
#if OPENING == 2
    const real reach2 = link.reach * link.reach;
    if (pull > 0) return !(mass * (reach2 / r2) < pull * r2 && r2 > reach2);
    return !(r2 > 4 * reach2 * (inverse_theta * inverse_theta) && r2 > reach2);
#else
    return !(r2 > link.reach * link.reach);
#endif
}

// Add the pulls of `count` rows, filled up with rows without mass to a multiple of four.
__device__ __forceinline__ void add_bodies(Sums (&sums)[R], const Body (&own)[R], const Body* staged, int count,
                                           real eps2) {
#pragma unroll 1
    for (int k = 0; k < count; k += 4) {
#pragma unroll
        for (int next = 0; next < 4; ++next) {
            const Body other = staged[k + next];
#pragma unroll
            for (int b = 0; b < R; ++b) interact(sums[b], own[b], other, eps2);
        }
    }
}

#if QUADRUPOLE
// The pull of a cell: that of its mass, and that of its second moments, softened alike. With D from the body to the
// centre of mass, rho^2 = D^2 + eps^2, N = D / rho and the matrix A of second moments times minus three, it is
// mass / rho^2 (N (1 + (trace A / 2 - 5/2 N A N) / rho^2) + A N / rho^2): 34 instructions and the inverse square root.
__device__ __forceinline__ void pull_of_cell(Sums& sums, const Body& own, const Body& cell, const Quadrupole& second,
                                             real eps2) {
    const real dx = cell.x - own.x;
    const real dy = cell.y - own.y;
    const real dz = cell.z - own.z;
    const real inverse = inverse_sqrt(dx * dx + (dy * dy + (dz * dz + eps2)));
    const real inverse2 = inverse * inverse;
    const real x = dx * inverse;
    const real y = dy * inverse;
    const real z = dz * inverse;
    const real ax = second.xx * x + (second.xy * y + second.xz * z);
    const real ay = second.xy * x + (second.yy * y + second.yz * z);
    const real az = second.xz * x + (second.yz * y + second.zz * z);
    const real along = static_cast<real>(-2.5) * (ax * x + (ay * y + az * z)) + second.half_trace;
    const real pull = cell.mass * inverse2;
    const real inward = 1 + along * inverse2;
    sums.ax += pull * (inward * x + inverse2 * ax);
    sums.ay += pull * (inward * y + inverse2 * ay);
    sums.az += pull * (inward * z + inverse2 * az);
}
#endif

// Add the pulls of `count` accepted cells, filled up likewise.
__device__ __forceinline__ void add_cells(Sums (&sums)[R], const Body (&own)[R], const WarpRoom& room, int count,
                                          real eps2) {
#if QUADRUPOLE
#pragma unroll 1
    for (int k = 0; k < count; k += 2) {
#pragma unroll
        for (int next = 0; next < 2; ++next) {
            const Body cell = room.staged[k + next];
            const Quadrupole second = room.seconds[k + next];
#pragma unroll
            for (int b = 0; b < R; ++b) pull_of_cell(sums[b], own[b], cell, second, eps2);
        }
    }
#else
    add_bodies(sums, own, room.staged, count, eps2);
#endif
}
