// The moments of a cell: mass, centre of mass, second moments about it, and how far from it a cell's bodies may be.
//
// All lengths are relative to the centre of mass, so that a cell far from the origin loses no digits, and second
// moments to the mass, so that no product of a mass and a squared length has to be a number. A cell without mass has
// the moments of a point without mass at its first body.
//
// OPENING says when a walk opens a cell, by the distance d of its centre of mass from the nearest point of the box
// around the bodies that walk together. 0, geometric: width / d >= theta. 1, Barnes 1994: d <= width / theta + the
// distance of the centre of mass from the cell's centre. 2, acceleration: the first term that its moments leave out,
// 2 mass b^3 / D^5 where they have a quadrupole and else mass b^2 / D^4, >= a part of the acceleration of these
// bodies in the last evaluation, or D <= b. Here b is the distance of the farthest body from the centre of mass, and
// D^2 = d^2 + eps^2: the expansion of the softened potential converges for D > b, so that a cell much smaller than eps
// acts as a whole even on the bodies in it. Without a last evaluation 2 b / D >= theta.

struct Moments {
    Body centre;
    Rest rest;
    Quadrupole second;
    real farthest;
};

// Say that a child of a node has its moments; tell whether all `children` of the node have them now.
__device__ __forceinline__ bool is_last_child(int* pending, int node, int& children) {
    __threadfence();
    // In the lower half the children that have not arrived, in the upper half all of them.
    const int left = atomicAdd(pending + node, -1) - 1;
    if (left & 0xffff) return false;
    __threadfence();
    pending[node] = 0;
    children = left >> 16;
    return true;
}

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

// Add two numbers, and return what the sum left out of them (Knuth's TwoSum).
__device__ __forceinline__ real left_out(real& sum, real first, real second) {
    sum = first + second;
    const real of_second = sum - first;
    return (first - (sum - of_second)) + (second - of_second);
}

// Put the centre of mass where it is, seen from a point of the cell.
__device__ __forceinline__ void place(Moments& cell, const Body& origin, const Offset& offset, real mass) {
    cell.rest.x = left_out(cell.centre.x, origin.x, offset.x);
    cell.rest.y = left_out(cell.centre.y, origin.y, offset.y);
    cell.rest.z = left_out(cell.centre.z, origin.z, offset.z);
    cell.centre.mass = mass;
}

__device__ __forceinline__ void add_part(Offset& sum, real part, const Offset& of) {
    sum.x += part * of.x;
    sum.y += part * of.y;
    sum.z += part * of.z;
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
    Offset centre = {};
    for (int k = first; k < first + count; ++k) {
        add_part(centre, bodies[k].mass * inverse, way(origin, Rest{}, bodies[k], Rest{}));
    }
    place(sum, origin, centre, mass);
    real farthest2 = 0;
    for (int k = first; k < first + count; ++k) {
        const Offset at = way(sum.centre, sum.rest, bodies[k], Rest{});
        farthest2 = max(farthest2, squared_length(at));
        if (QUADRUPOLE) add_second(sum.second, bodies[k].mass * inverse, at.x, at.y, at.z);
    }
    end_second(sum.second);
    sum.farthest = sqrt(farthest2);
    return sum;
}

__device__ __forceinline__ Moments moments_of_cells(const Body* centres, const Rest* rests, const Quadrupole* seconds,
                                                    const Link* links, int first, int count) {
    // All children are read before the first is waited for.
    Body cells[8];
#pragma unroll
    for (int child = 0; child < 8; ++child) cells[child] = child < count ? fresh(centres + first + child) : Body{};
    Moments sum = {};
    real mass = 0;
#pragma unroll
    for (int child = 0; child < 8; ++child) mass += cells[child].mass;
    const real inverse = inverse_or_zero(mass);
    Offset centre = {};
#pragma unroll
    for (int child = 0; child < 8; ++child) {
        if (child >= count) break;
        add_part(centre, cells[child].mass * inverse,
                 way(cells[0], Rest{}, cells[child], fresh(rests + first + child)));
    }
    place(sum, cells[0], centre, mass);
#pragma unroll
    for (int child = 0; child < 8; ++child) {
        if (child >= count) break;
        const Offset at = way(sum.centre, sum.rest, cells[child], fresh(rests + first + child));
        if (QUADRUPOLE) {
            const Quadrupole second = fresh(seconds + first + child);
            const real part = cells[child].mass * inverse;
            sum.second.xx += part * second.xx;
            sum.second.xy += part * second.xy;
            sum.second.xz += part * second.xz;
            sum.second.yy += part * second.yy;
            sum.second.yz += part * second.yz;
            sum.second.zz += part * second.zz;
            add_second(sum.second, part, at.x, at.y, at.z);
        }
        if (OPENING == 2) {
            const real away = sqrt(squared_length(at));
            sum.farthest = max(sum.farthest, fresh(links + first + child).reach + away);
        }
    }
    end_second(sum.second);
    return sum;
}

// Return what a walk compares with the acceleration of its bodies, in the sense of a squared distance: the error times
// D^(k + 2), to the power of 2 / (k + 2). That of an octupole is 4 mass b^3 / D^5 at most, of which half counts.
__device__ __forceinline__ real weight_of(real mass, real farthest) {
#if QUADRUPOLE
    return exp2(static_cast<real>(0.4) * log2(2 * mass) + static_cast<real>(1.2) * log2(farthest));
#else
    return sqrt(mass) * farthest;
#endif
}

// Return the distance that OPENING asks of a cell of a level; inverse_theta is infinite where all cells are opened.
__device__ __forceinline__ real reach_of(const Moments& moments, const Body& first, int level, const Cube& cube,
                                         real inverse_theta) {
#if OPENING < 2
    // Cells of bodies with the same key are as wide as what a key tells apart.
    level = min(level, BITS);
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
