// The moments of a cell: mass, centre of mass, second moments about it, and how far from it a cell's bodies may be.
//
// All lengths are relative to the centre of mass, so that a cell far from the origin loses no digits, and second
// moments to the mass, so that no product of a mass and a squared length has to be a number. A cell without mass has
// the moments of a point without mass at its first body.
//
// OPENING says when a walk opens a cell, by the distance d of its centre of mass from the nearest point of the box
// around the bodies that walk together. 0, geometric: width / d >= theta. 1, Barnes 1994: d <= width / theta + the
// distance of the centre of mass from the cell's centre. 2, acceleration: mass b^2 / d^4 >= a part of the acceleration
// of these bodies in the last evaluation, or d <= b, where b is the distance of the farthest body from the centre of
// mass; without a last evaluation 2 b / d >= theta.

struct Moments {
    Body centre;
    Quadrupole second;
    real farthest;
};

// Add what a mass at a point does to the second moments, `part` of the whole mass.
__device__ __forceinline__ void add_second(Quadrupole& to, real part, real x, real y, real z) {
    const real weight = -3 * part;
    to.xx += weight * x * x;
    to.xy += weight * x * y;
    to.xz += weight * x * z;
    to.yy += weight * y * y;
    to.yz += weight * y * z;
    to.zz += weight * z * z;
}

// Begin at a point of the cell with its mass; what is added brings the centre of mass there.
__device__ __forceinline__ Body centre_from(const Body& origin, real mass) {
    Body centre = origin;
    centre.mass = mass;
    return centre;
}

__device__ __forceinline__ void add_to_centre(Body& centre, const Body& origin, const Body& other, real inverse) {
    const real part = other.mass * inverse;
    centre.x += part * (other.x - origin.x);
    centre.y += part * (other.y - origin.y);
    centre.z += part * (other.z - origin.z);
}

__device__ __forceinline__ real inverse_or_zero(real mass) {
    return mass > 0 ? 1 / mass : 0;
}

__device__ __forceinline__ void end_second(Quadrupole& second) {
    second.half_trace = static_cast<real>(0.5) * (second.xx + second.yy + second.zz);
}

__device__ __forceinline__ Moments moments_of_bodies(const Body* bodies, int first, int count) {
    Moments sum = {};
    real mass = 0;
    for (int k = first; k < first + count; ++k) mass += bodies[k].mass;
    const real inverse = inverse_or_zero(mass);
    const Body origin = bodies[first];
    sum.centre = centre_from(origin, mass);
    for (int k = first; k < first + count; ++k) add_to_centre(sum.centre, origin, bodies[k], inverse);
    real farthest2 = 0;
    for (int k = first; k < first + count; ++k) {
        const Body other = bodies[k];
        const real x = other.x - sum.centre.x, y = other.y - sum.centre.y, z = other.z - sum.centre.z;
        farthest2 = max(farthest2, x * x + (y * y + z * z));
        if (QUADRUPOLE) add_second(sum.second, other.mass * inverse, x, y, z);
    }
    end_second(sum.second);
    sum.farthest = sqrt(farthest2);
    return sum;
}

__device__ __forceinline__ Moments moments_of_cells(const Body* centres, const Quadrupole* seconds, const Link* links,
                                                    int first, int count) {
    // All children are read before the first is waited for.
    Body cells[8];
    real farthest[8];
#pragma unroll
    for (int child = 0; child < 8; ++child) {
        cells[child] = child < count ? fresh(centres + first + child) : Body{};
        if (OPENING == 2) farthest[child] = child < count ? fresh(links + first + child).reach : 0;
    }
    Moments sum = {};
    real mass = 0;
#pragma unroll
    for (int child = 0; child < 8; ++child) mass += cells[child].mass;
    const real inverse = inverse_or_zero(mass);
    sum.centre = centre_from(cells[0], mass);
#pragma unroll
    for (int child = 0; child < 8; ++child) add_to_centre(sum.centre, cells[0], cells[child], inverse);
#pragma unroll
    for (int child = 0; child < 8; ++child) {
        if (child >= count) break;
        const Body other = cells[child];
        const real x = other.x - sum.centre.x, y = other.y - sum.centre.y, z = other.z - sum.centre.z;
        if (QUADRUPOLE) {
            const Quadrupole second = fresh(seconds + first + child);
            const real part = other.mass * inverse;
            sum.second.xx += part * second.xx;
            sum.second.xy += part * second.xy;
            sum.second.xz += part * second.xz;
            sum.second.yy += part * second.yy;
            sum.second.yz += part * second.yz;
            sum.second.zz += part * second.zz;
            add_second(sum.second, part, x, y, z);
        }
        if (OPENING == 2) sum.farthest = max(sum.farthest, farthest[child] + sqrt(x * x + (y * y + z * z)));
    }
    end_second(sum.second);
    return sum;
}

// Return the distance that OPENING asks of a cell of a level; inverse_theta is infinite where all cells are opened.
__device__ __forceinline__ real reach_of(const Moments& moments, const Body& first, int level, const Cube& cube,
                                         real inverse_theta) {
#if OPENING < 2
    const real width = cube.width / static_cast<real>(1 << level);
#endif
#if OPENING == 0
    return width * inverse_theta;
#elif OPENING == 1
    const Cell cell = cell_of(first, cube);
    const real half = static_cast<real>(0.5);
    const real x = cube.x + (static_cast<real>(cell.x >> (BITS - level)) + half) * width - moments.centre.x;
    const real y = cube.y + (static_cast<real>(cell.y >> (BITS - level)) + half) * width - moments.centre.y;
    const real z = cube.z + (static_cast<real>(cell.z >> (BITS - level)) + half) * width - moments.centre.z;
    return width * inverse_theta + sqrt(x * x + (y * y + z * z));
#else
    return moments.farthest;
#endif
}
